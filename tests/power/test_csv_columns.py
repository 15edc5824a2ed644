"""CSV files: delimiters, headers, and files that are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rlsched.errors import BadInputError
from tests.power.files import HEADER, five_hours, power_file, read, refused, rows_of, time_at


@pytest.mark.parametrize(
    "content",
    [
        "\r\n".join(five_hours()),
        "\ufeff" + "\n".join(five_hours()) + "\n\n  \n",
        "\n".join(line.replace(",", " , ") for line in five_hours()),
        "\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in five_hours()),
    ],
    ids=["CRLF", "byte order mark and blank end", "blanks around cells", "quotes"],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_ways_to_write_the_same(tmp_path: Path, content: str, compress: type[bytes]) -> None:
    path = tmp_path / "power.csv"
    path.write_bytes(compress(content.encode()))
    assert read(path).columns["wind"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("wrong", "role"),
    [({"time": "time"}, "time"), ({"wind": "wnd"}, "wind"), ({"wind": "WND", "carbon": "CI"}, "carbon")],
)
def test_a_wrong_column_name_is_refused_with_the_right_ones(
    tmp_path: Path, wrong: dict[str, str], role: str
) -> None:
    error = refused(power_file(tmp_path, *five_hours()), **wrong)
    assert error.problem == f"has no column {wrong[role]!r}, but timestamp, WND, SUN, avg_CI"
    assert error.remedy == f"set power.columns.{role} to one of these"


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    path = power_file(tmp_path, "timestamp,SUN,SUN", f"{time_at(0)},1,1", f"{time_at(1)},1,1")
    assert refused(path, solar="SUN").problem == "has 2 columns 'SUN'"


@pytest.mark.parametrize("above", [[], ["# Source: x, y; z"], ["Power", "", "MW,MW", 'of 2"', ""]])
def test_lines_above_the_header_are_skipped(tmp_path: Path, above: list[str]) -> None:
    assert read(power_file(tmp_path, *above, *five_hours())).columns["wind"].tolist() == [1, 2, 3, 4, 5]
    bad = rows_of([1, "n/a"], [0, 0], [400, 300])
    error = refused(power_file(tmp_path, *above, *bad))
    assert error.problem == f"row {3 + len(above)}, column 'WND': 'n/a' is not a number"


def test_a_header_may_hold_delimiters(tmp_path: Path) -> None:
    names = {"wind": "WND, MW", "solar": "SUN, MW", "carbon": "CI, g"}
    lines = (";".join(line.split(",")) for line in five_hours()[1:])
    path = power_file(tmp_path, ";".join(["timestamp", *names.values()]), *lines)
    assert read(path, **names).columns["wind"].tolist() == [1, 2, 3, 4, 5]
    # A name over two lines is one cell.
    head, *rows = five_hours()
    power_table = read(power_file(tmp_path, f'{head},"OIL,\n(MW)"', *(f"{row},7" for row in rows)))
    assert power_table.columns["wind"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_a_sep_line_names_the_delimiter(tmp_path: Path, mark: str) -> None:
    lines = [line.replace(",", mark) for line in five_hours()]
    assert read(power_file(tmp_path, f"sep={mark}", *lines)).columns["carbon"].tolist()[-1] == 200
    error = refused(power_file(tmp_path, f"SEP={mark}", *lines[:2], lines[2].replace("Z", "?")))
    assert error.problem.startswith("row 3, column 'timestamp'")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (f"{time_at(5)},1", "row 7 has 2 cells where the header has 4"),
        (f"{time_at(5)},1,1,1,1", "row 7 has 5 cells where the header has 4"),
        (f"\n{time_at(5)},1,1,1", "row 7 has 0 cells where the header has 4"),
    ],
    ids=["cut off", "too long", "blank line between"],
)
def test_rows_unlike_the_header_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    assert refused(power_file(tmp_path, *five_hours(), line)).problem == problem


CONTENT = gzip.compress("\n".join(rows_of(*[range(2000)] * 3)).encode())

UNREADABLE = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "byte order mark only": (b"\xef\xbb\xbf", "is empty"),
    "binary": (b"PK\3\4\0\0\1\2" * 100, "is binary, not text"),
    "utf-16": (HEADER.encode("utf-16-le"), "is binary, not text"),
    "binary in gzip": (gzip.compress(b"\0\1\2" * 9), "is binary, not text"),
    "gzip cut off": (CONTENT[: len(CONTENT) // 2], "gzip data ends early"),
    "gzip with a hole": (CONTENT[:40] + bytes(40) + CONTENT[80:], "gzip data is damaged"),
    "a trace": (b"; MaxNodes: 4\n1 0 -1 10 1\n", "has no column 'timestamp', but , MaxNodes: 4"),
    "words": (b"timestamp WND SUN\n", "has no commas, semicolons or tabs ('timestamp WND SUN')"),
    "wrong columns below other lines": (
        b"sep=,\n# MW\nt,WND\n1,2\n",
        "has no column 'timestamp' in row 2, but t, WND",
    ),
    "marks in the header": (
        b"t;a, b;c, d;e, f\n1;2;3;4\n1;2;3;4\n",
        "has no column 'timestamp', but t, 'a, b', 'c, d', 'e, f'",
    ),
    "a cell of a megabyte": (f"{HEADER}\n{'1' * 1_000_000}".encode(), "is not CSV (field larger"),
    "header only": (HEADER.encode(), "has 0 rows below its header"),
    "one row": ("\n".join(five_hours()[:2]).encode(), "has 1 rows below its header"),
    "latin-1": ("timestamp,Höhe\n1,1".encode("latin-1"), "has no column 'WND', but timestamp, Höhe"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_other_files_are_refused(tmp_path: Path, case: str) -> None:
    content, problem = UNREADABLE[case]
    path = tmp_path / "power.csv"
    path.write_bytes(content)
    assert problem in refused(path).problem


@pytest.mark.parametrize(
    ("name", "problem"), [("none.csv", "no such file"), ("", "cannot be read"), ("\0", "cannot be read")]
)
def test_missing_files_are_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        read(tmp_path / name)
