"""The documentation builds as a site, without a warning, and its links lead to headings that exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", page.read_text("utf-8")):
        linked = page.parent / target if target else page
        assert anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.slow
@pytest.mark.long  # reads the docstrings of half the package
def test_the_site_builds_strictly_and_loads_nothing_from_the_network(tmp_path: Path) -> None:
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", "-d", tmp_path],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    assert "make demo" in (tmp_path / "index.html").read_text("utf-8")
    for page in tmp_path.rglob("*.html"):
        text = page.read_text("utf-8")
        addresses = re.findall(r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//[^\"]+", text)
        addresses += re.findall(r"<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//[^\"]+", text)
        assert not addresses, page
