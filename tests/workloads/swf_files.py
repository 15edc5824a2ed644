"""Trace files written by hand."""

from __future__ import annotations

from pathlib import Path


def job_line(
    number: int = 1,
    submit: object = 0,
    runtime: object = 10,
    allocated: object = 1,
    processors: object = -1,
    requested: object = -1,
    user: object = -1,
    queue: object = -1,
) -> str:
    """One line of 18 fields; the fields that nobody reads hold -1."""
    used = [number, submit, -1, runtime, allocated, -1, -1, processors, requested, -1, 1, user, -1, -1, queue]
    return " ".join(map(str, [*used, -1, -1, -1]))


def trace_file(folder: Path, *lines: str, name: str = "trace.swf", end: str = "\n") -> Path:
    """A trace of these lines."""
    path = folder / name
    path.write_bytes("\n".join(lines).encode("latin-1") + end.encode())
    return path
