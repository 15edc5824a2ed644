"""Sources that code and documents cite are in the bibliography, and documents name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import house_rules

ROOT = Path(__file__).parents[1]
BIBLIOGRAPHY = ROOT / "docs" / "reference" / "bibliography.md"
CODE = ("rlsched/**/*.py", "rlsched/**/*.yaml", "benchmarks/**/*.py", "datasets/*", "tune_configs/*.yaml")
DOCUMENTS = ("README.md", "docs/**/*.md")

NAME = r"(?:(?:van|de) )?[A-Z][\w'-]+"
WORK = re.compile(rf"({NAME}(?:(?:, | and |, and ){NAME})*(?: et al\.)?) ((?:19|20)\d\d)(?!-\d)")
"""Author and year: "Mao et al. 2016", "Le, Voloshin and Yue 2019"."""
IN_TEXT = re.compile(rf"({NAME} et al\.) \(?((?:19|20)\d\d)\)?(?!-\d)")
"""The same outside of brackets, where only "et al." tells a work from a date."""
BRACKETS = re.compile(r"\[([^\[\]]*)\]")
ABBREVIATIONS = re.compile(r"\[[A-Z](?: [^\[\]]*)?\](?! ?=)|\bspec/\w+\.md\b")
"""Short forms that only the authors of a text know."""


def cited(text: str) -> set[str]:
    """Works that a text cites, as "Author year"."""
    text = re.sub(r"\s+(?:#:? )?", " ", text)
    bracketed = [work for brackets in BRACKETS.findall(text) for work in WORK.findall(brackets)]
    return {f"{authors} {year}" for authors, year in (*bracketed, *IN_TEXT.findall(text))}


def listed(text: str) -> set[str]:
    """Works of a bibliography: the bold beginnings of its items."""
    return set(re.findall(r"^- \*\*(.+? \d{4})(?:, [^*]+)?\*\*:", text, flags=re.MULTILINE))


def pages(*patterns: str) -> list[Path]:
    """Text files under version control or about to be, by pattern."""
    return [path for path in house_rules.files(*patterns) if path.suffix in {".py", ".yaml", ".md"}]


WORKS = listed(BIBLIOGRAPHY.read_text("utf-8"))


def test_works_are_read_from_a_text() -> None:
    text = (
        "[Mao et al. 2016, 4.1; van Hasselt et al.\n    2016, PopArt], Zhang et al. (2020), [Ng and Wu 1999]"
    )
    assert cited(text) == {
        "Mao et al. 2016",
        "van Hasselt et al. 2016",
        "Zhang et al. 2020",
        "Ng and Wu 1999",
    }


def test_the_bibliography_is_sorted_and_has_no_work_twice() -> None:
    items = re.findall(r"^- \*\*(.+?)\*\*:", BIBLIOGRAPHY.read_text("utf-8"), flags=re.MULTILINE)
    assert items == sorted(set(items), key=str.lower)
    assert len(WORKS) > 50


@pytest.mark.parametrize("patterns", [CODE, DOCUMENTS], ids=["code", "documents"])
def test_every_cited_work_is_in_the_bibliography(patterns: tuple[str, ...]) -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {work}"
        for path in pages(*patterns)
        for work in cited(path.read_text("utf-8"))
        if work not in WORKS
    }
    assert not missing, f"add to {BIBLIOGRAPHY.relative_to(ROOT)}: {sorted(missing)}"


def test_every_work_of_the_bibliography_is_cited() -> None:
    texts = [path.read_text("utf-8") for path in pages(*CODE, *DOCUMENTS) if path != BIBLIOGRAPHY]
    text = re.sub(r"\s+", " ", " ".join(texts))
    assert not [work for work in WORKS if work not in text]


def test_sources_have_names() -> None:
    short = [
        f"{path.relative_to(ROOT)}: {match}"
        for path in pages(*DOCUMENTS, "rlsched/**/*.py", "benchmarks/**/*.py")
        for match in ABBREVIATIONS.findall(path.read_text("utf-8"))
    ]
    assert not short


@pytest.mark.parametrize("page", pages(*DOCUMENTS), ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_name_files_that_exist(page: Path) -> None:
    assert not list(house_rules.dead_references(page))
