"""Traces and lists of jobs that would take all time or memory, or overflow."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from rlsched.errors import BadInputError
from rlsched.reading import LIMIT_VARIABLE
from rlsched.workloads import swf
from rlsched.workloads.sacct import import_sacct

from .swf_files import job_line, trace_file
from .test_sacct import COLUMNS, line


@pytest.mark.parametrize("comment", ["; a" + " " * 300_000 + "b", "; Note: x\n" * 100_000])
def test_a_header_takes_no_longer_than_its_length(tmp_path: Path, comment: str) -> None:
    """The time once grew with the square of it: minutes."""
    trace = swf.read(trace_file(tmp_path, comment.rstrip("\n"), "; MaxProcs: 8", job_line(1)))
    assert trace.processors == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"Submit": str(10**30), "Start": str(10**30 + 1), "End": str(10**30 + 2)},
        {"AllocCPUS": str(10**30)},
        {"ElapsedRaw": str(10**30)},
        {"TimelimitRaw": str(10**30)},
        {"Submit": "9" * 5000},
        {"Submit": str(2**50), "Start": str(2**50 + 1), "End": str(2**50 + 2)},
        {"Submit": "0001-01-01T00:00:00+23:59"},
    ],
)
def test_numbers_that_no_trace_can_hold_are_dropped(tmp_path: Path, changes: dict[str, str]) -> None:
    lines = [f"{row}\n" for row in (COLUMNS, line("1"), line("2", **changes))]
    result = import_sacct(lines, "test", tmp_path / "site.swf", zone=ZoneInfo("America/Los_Angeles"))
    assert result.jobs == 1
    assert swf.read(tmp_path / "site.swf").repairs == {}


def test_json_is_read_as_a_whole_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, "1000")
    with pytest.raises(BadInputError, match="test: holds more than 1,000 bytes"):
        import_sacct(['{"jobs": [\n'] + ["{},\n"] * 400, "test", tmp_path / "site.swf")
    assert not list(tmp_path.iterdir())
