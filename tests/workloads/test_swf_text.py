"""Files that are hardly traces, and the two ways of reading the lines of those that are."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rlsched.errors import BadInputError
from rlsched.workloads import swf_text
from tests.workloads.swf_files import job_line, trace_file

JOBS = gzip.compress("\n".join(job_line(k, submit=k) for k in range(1, 2000)).encode())

UNREADABLE = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "binary": (b"\x7fELF\0\0\1\2" * 100, "is binary"),
    "utf-16 without a mark": ("1 2 3".encode("utf-16-le"), "is binary"),
    "binary in gzip": (gzip.compress(b"\0\1\2" * 9), "is binary"),
    "gzip cut off": (JOBS[: len(JOBS) // 2], "ends early"),
    "gzip head only": (b"\x1f\x8b", "ends early"),
    "gzip with a hole": (JOBS[:40] + bytes(40) + JOBS[80:], "damaged"),
    "comments only": (b"; MaxNodes: 4\n;\n", "has no job line"),
    "html": (b"<!DOCTYPE html>\n<html><head>\n</head></html>\n", "is a web page, or XML"),
    "json": (b'{"jobs": []}\n', "is JSON"),
    "sacct": (b"JobID|Submit|Start\n1|2|3\n", "is a table of sacct"),
    "commas": (b"; MaxProcs: 4\n" + b",".join([b"1"] * 18) + b"\n", "has fields separated by commas"),
    "bars": (b"|".join([b"1"] * 18) + b"\n", "has fields separated by '|'"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    content, problem = UNREADABLE[case]
    path = tmp_path / "trace.swf"
    path.write_bytes(content)
    with pytest.raises(BadInputError) as caught:
        swf_text.read_columns(path)
    assert problem in caught.value.problem
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "problem"), [("none.swf", "no such file"), ("", "cannot be read"), ("\0", "cannot")]
)
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem):
        swf_text.read_columns(tmp_path / name)


@pytest.mark.parametrize("name", ["trace.swf", "trace.swf.gz"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_gzip_is_recognized_by_content_not_by_name(tmp_path: Path, name: str, compress: type[bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(job_line(7).encode()))
    assert swf_text.read_columns(path).columns["id"].tolist() == [7]


def test_header(tmp_path: Path) -> None:
    lines = [
        "; Computer: Rechner in Köln",
        ";MaxNodes: 338 (batch partition; 512 total)",
        ";  MaxProcs :676",
        "; Note: one",
        ";",
        ";       http://www.cs.huji.ac.il/labs",
        "; Note: two: more",
        job_line(),
        "; Late: not of the header",
    ]
    assert swf_text.read_columns(trace_file(tmp_path, *lines)).header == {
        "Computer": "Rechner in Köln",
        "MaxNodes": "338 (batch partition; 512 total)",
        "MaxProcs": "676",
        "Note": "one\ntwo: more",
    }


@pytest.mark.parametrize(
    "content",
    [
        "\n".join([job_line(1), "", ";", job_line(2)]),
        "\r\n".join(["; MaxNodes: 4", job_line(1), job_line(2), ""]),
        "\r".join(["; MaxNodes: 4", job_line(1), job_line(2), ""]),
        "\ufeff" + "\n".join([job_line(1), job_line(2)]),
        "\n".join([f"\t {job_line(1)}  ", job_line(2) + " ; a comment"]),
    ],
    ids=["blank and comment lines", "CRLF", "CR", "byte order mark", "space and comments around"],
)
def test_line_ends_blanks_and_comments(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.swf"
    path.write_bytes(content.encode())
    text = swf_text.read_columns(path)
    assert text.columns["id"].tolist() == [1, 2]
    assert text.dropped == {}


@pytest.mark.parametrize("short", ["", "1 1", ";"])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_without_a_job_have_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: str, end: str
) -> None:
    monkeypatch.setattr(swf_text, "MOST_IDLE_LINES", 50)
    path = tmp_path / "trace.swf"
    job = "1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9"
    path.write_bytes(end.join([job] * 200 + [short] * 50 + [job]).encode())
    assert len(swf_text.read_columns(path).columns["id"]) == 201
    for lines in ([short] * 80, [*["; a header"] * 20, *[short] * 80, job]):
        path.write_bytes(end.join([*lines, "x"]).encode())
        for read in (swf_text.read_columns, swf_text.raw_lines):
            with pytest.raises(
                BadInputError, match="holds more than 1,000,000 lines that are blank or no jobs"
            ):
                read(path)


def test_lines_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
    lines = [
        job_line(1),
        "1 2 3",
        job_line(2) + " 99",
        job_line(3, runtime="n/a"),
        job_line(4, submit="nan"),
        job_line(5, user="alice", queue="inf"),
        job_line(6, submit="1_0"),
        job_line(7)[:20],
    ]
    text = swf_text.read_columns(trace_file(tmp_path, *lines, end=""))
    assert text.columns["id"].tolist() == [1, 5]
    assert np.isnan(text.columns["user"]).tolist() == [False, True]
    assert text.dropped == {
        "short_lines_dropped": 1,
        "long_lines_dropped": 1,
        "not_numeric_dropped": 3,
        "truncated_line_dropped": 1,
    }


def test_the_fast_and_the_patient_way_agree_on_clean_lines() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-1, 10**9, size=(500, swf_text.FIELDS)).astype(str)
    numbers[::7, 1] = "12345.25"
    numbers[::5, 5] = " 142.00"
    body = "\n".join(" ".join(row) for row in numbers).encode()
    fast = swf_text._columns_at_once(body)
    dropped: Counter[str] = Counter()
    patient = swf_text._columns_by_line(body, dropped)
    assert fast is not None
    assert not dropped
    for name in swf_text.USED:
        np.testing.assert_array_equal(fast[name], patient[name])


@pytest.mark.parametrize("bad", ["1 2 3", "x" + job_line(), job_line(submit="nan")])
def test_the_fast_way_leaves_unclean_lines_to_the_patient_one(bad: str) -> None:
    assert swf_text._columns_at_once("\n".join([job_line(), bad]).encode()) is None
