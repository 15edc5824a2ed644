"""How much a power file may hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from rlsched.power import csv_columns, table

COLUMNS = {"wind": "W"}


def read(path: Path, content: str) -> table.PowerTable:
    path.write_text(content)
    return table.read(path, time="t", columns=COLUMNS)


def test_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_columns, "MAX_ROWS", 3)
    rows = [f"{1_700_000_000 + 3600 * k},1" for k in range(4)]
    assert read(tmp_path / "p.csv", "\n".join(["t,W", *rows[:3]])).steps == 3
    with pytest.raises(BadInputError, match=r"p\.csv: has more than 3 rows; give fewer, of longer steps"):
        read(tmp_path / "p.csv", "\n".join(["t,W", *rows]))


def test_columns(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"p\.csv: has 10,001 columns; leave at most 10,000"):
        read(tmp_path / "p.csv", "," * 10_000 + "\n")
    with pytest.raises(BadInputError, match="has no column 't', but") as refused:
        read(tmp_path / "p.csv", ",".join(f"column {k}" for k in range(9_000)))
    assert len(str(refused.value)) < 1_000
