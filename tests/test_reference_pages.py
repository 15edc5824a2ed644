"""docs/reference says what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import pytest

from tests import reference_pages

GUIDES = [
    reference_pages.FOLDER.parents[1] / "README.md",
    *sorted((reference_pages.FOLDER.parent / "guide").glob("*.md")),
    reference_pages.FOLDER / "formulations.md",
    reference_pages.FOLDER / "green-rules.md",
]
SETTINGS = (reference_pages.FOLDER / "settings.md").read_text("utf-8")


@pytest.mark.parametrize("page", reference_pages.pages(), ids=lambda page: page.name)
def test_tables_of_the_reference_are_current(page: Path) -> None:
    current = reference_pages.current(page)
    assert page.read_text("utf-8") == current, f"{page.name} is stale; call: {reference_pages.COMMAND}"


def test_each_region_has_a_page() -> None:
    text = "".join(page.read_text("utf-8") for page in reference_pages.pages())
    assert set(re.findall(r"<!-- generated: ([\w-]+) -->", text)) == set(reference_pages.REGIONS)


def test_each_setting_has_a_type_and_a_description() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \| .* \| (.*?) \|$", SETTINGS, flags=re.MULTILINE)
    assert len(rows) > 200
    assert [name for name, kind, description in rows if not (kind and description)] == []


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_name_settings_that_exist(page: Path) -> None:
    settings = [re.sub(r"\.\d+", "", key) for key in re.findall(r"`(\w+\.[\w.]+)`", SETTINGS)]
    known = {key[:end] for key in settings for end in (*(m.start() for m in re.finditer(r"\.", key)), None)}
    sections = "|".join(sorted({key.partition(".")[0] for key in settings}))
    names = re.findall(rf"(?:--set \"?|`)((?:{sections})\.[\w.]+)(?==|`)", page.read_text("utf-8"))
    exempt = r".*\.(json|py)|objective\.(reward|costs)\.\w+|smooth_bc.*"  # files, terms, an example
    assert [key for key in names if key not in known and not re.fullmatch(exempt, key)] == []


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int | None, "integer or null"),
        (tuple[float, float], "list of number"),
        (Literal["a", "b"], "`a`, `b`"),
        (dict[str, float], "mapping"),
    ],
)
def test_types_in_words(annotation: object, words: str) -> None:
    assert reference_pages.type_name(annotation) == words


def test_cells_cannot_break_a_table() -> None:
    assert reference_pages.table(["a"], [["x | <y>\nz"]]) == "| a |\n| --- |\n| x \\| &lt;y> z |\n"
