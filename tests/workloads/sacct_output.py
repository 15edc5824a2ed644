"""Lines as sacct prints them, and their import."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlsched.workloads.sacct import Imported, import_sacct

COLUMNS = (
    "JobID|JobIDRaw|User|Account|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|"
    "ReqCPUS|AllocCPUS"
)


def line(number: str, raw: str | None = None, **changes: str) -> str:
    """A job of u1 that waited ten minutes and ran for one on 4 of 2 requested processors."""
    values = {
        "JobID": number,
        "JobIDRaw": raw or number,
        "User": "u1",
        "Account": "physics",
        "Partition": "batch",
        "State": "COMPLETED",
        "Submit": "2025-01-31T12:00:00",
        "Eligible": "2025-01-31T12:05:00",
        "Start": "2025-01-31T12:10:00",
        "End": "2025-01-31T12:11:00",
        "ElapsedRaw": "60",
        "TimelimitRaw": "30",
        "ReqCPUS": "2",
        "AllocCPUS": "4",
    }
    assert set(changes) <= set(values)
    return "|".join((values | changes)[name] for name in COLUMNS.split("|"))


def import_lines(
    tmp: Path, lines: Iterable[str], columns: str = COLUMNS, **options: object
) -> tuple[Imported, list[str]]:
    out = tmp / "site.swf"
    text = [columns, *lines]
    result = import_sacct((f"{row}\n" for row in text), "test", out, **options)  # type: ignore[arg-type]
    rows = [row for row in out.read_text().splitlines() if not row.startswith(";")]
    return result, rows


LATER = {"Submit": "2025-01-31T12:11:00", "Start": "2025-01-31T12:20:00", "ElapsedRaw": "90"}
