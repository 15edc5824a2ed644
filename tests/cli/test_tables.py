"""Tables in terminals of any width: no column is left out without a sign."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from rlsched.cli.tables import plain_table

COLUMNS = ["policy", "backfill", "bounded slowdown", "against f1 + easy", "wait", "schedule span"]
ROWS = [
    ["runs/with-a-name", "greedy", "3,447 [1,200, 8,483]", "-1,003 [-2,000, -6]", "1,000.2", "12"],
    ["sjf", "", "4,450 [2,200, 9,483]", "best", "1,002.7", "13"],
]


def drawn(width: int) -> str:
    table = plain_table(COLUMNS, right=COLUMNS[2:], title="What came of it")
    for k, row in enumerate(ROWS):
        table.add_row(Text(row[0]), *row[1:], style="dim" if k else "")
    table.caption = "95 % intervals"
    console = Console(width=width, file=StringIO())
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [150, 100, 80, 60, 50])
def test_all_columns_and_cells_are_there(width: int) -> None:
    text = drawn(width)
    assert max(map(len, text.splitlines())) <= width
    words = [word for cells in (COLUMNS, *ROWS) for cell in cells for word in cell.split()]
    for word in (*words, "95", "intervals", "What"):
        assert word in text, word


def test_wide_terminals_get_a_table_and_narrow_ones_records() -> None:
    assert drawn(150).splitlines()[1].split()[:2] == ["policy", "backfill"]
    narrow = drawn(50).splitlines()
    assert narrow[2].split() == ["policy", ROWS[0][0]]
    assert [line.split()[0] for line in narrow[3:8]] == ["backfill", "bounded", "against", "wait", "schedule"]
    assert narrow[-2].split()[0] == "schedule"  # and what is empty is left out
    assert not [line for line in narrow[9:] if line.strip().startswith("backfill")]
