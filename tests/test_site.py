"""The documentation builds as a site, without a warning: no dead link, no page outside the navigation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
        loaded = re.findall(r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//[^\"]+", text)
        loaded += re.findall(r"<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//[^\"]+", text)
        assert not loaded, page
