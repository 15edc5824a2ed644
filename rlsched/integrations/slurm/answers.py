"""What Slurm's commands print with --json, 22.05 to 24.11; anything else is refused in one line.

Versions write differently: openapi v0.0.38, data_parser v0.0.39 to v0.0.42.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Raw, Struct

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.values import Number, Place, plain, shown
from rlsched.reading import as_text, read_data, read_stream
from rlsched.serve.api.repeated_keys import check_repeats
from rlsched.workloads.slurm_errors import check_errors

STDIN = "-"

KINDS = {
    "jobs": ("--squeue", "squeue --all --json"),
    "sinfo": ("--sinfo", "sinfo --all --Node --json"),
    "nodes": ("--sinfo", "sinfo --all --Node --json"),
}
"""Name of the list in an answer -> the option it belongs to, and what prints it."""

KEYS = {"--squeue": ("jobs",), "--sinfo": ("sinfo", "nodes")}

_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
T = TypeVar("T")


class _Answer(Struct, frozen=True):
    jobs: list[Raw] | None = None
    sinfo: list[Raw] | None = None
    nodes: list[Raw] | None = None
    errors: list[Any] | None = None
    meta: Any = None
    last_update: Number = None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a command printed.

    Attributes:
        file: it was read from.
        key: name of its list.
        records: of that list, not yet looked into.
        release: of Slurm, where it says so.
        parser: which wrote it, likewise.
        cluster: likewise.
        last_update: Unix seconds at which Slurm last changed a job, likewise.
    """

    file: str
    key: str
    records: list[Raw]
    release: str
    parser: str
    cluster: str | None
    last_update: int | None

    def place(self, k: int) -> Place:
        """Of a record."""
        return Place(self.file, f"{self.key}[{k}]", KINDS[self.key][1])


def read_answer(option: str, source: str) -> Answer:
    """What a file, or stdin, says.

    Args:
        option: --squeue or --sinfo.
        source: a path, or -.

    Raises:
        BadInputError: it is not what that command prints.
    """
    command = KINDS[KEYS[option][0]][1]
    remedy = f"give what {command} printed"
    file = "stdin" if source == STDIN else source
    data = _read(file, source, remedy)
    _check_kind(file, data, remedy)
    try:
        found = msgspec.json.decode(data, type=_Answer)
    except msgspec.ValidationError as error:
        field, problem = _translated(error, data)
        raise BadInputError(f"{file}: {field or 'its top'}", problem, remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(file, f"is no whole JSON ({_reason(error)})", f"{remedy}, to its end") from None
    try:
        check_repeats(data)
    except ValueError as error:
        raise BadInputError(file, str(error), remedy) from None
    check_errors(file, found.errors, command)
    key = next((key for key in KEYS[option] if getattr(found, key) is not None), None)
    if key is None:
        _refuse_other(file, option, found, remedy)
    release, parser, cluster = _version(found.meta)
    place = Place(file, "", command)
    return Answer(
        file=file,
        key=key,
        records=getattr(found, key),
        release=release,
        parser=parser,
        cluster=cluster,
        last_update=place.whole("last_update", found.last_update),
    )


def _read(file: str, source: str, remedy: str) -> bytes:
    if source != STDIN:
        return read_data(Path(source), remedy)
    return read_stream(sys.stdin.buffer, file, remedy)


def _check_kind(file: str, data: bytes, remedy: str) -> None:
    """Name what is often given instead."""
    begin = as_text(data[:400].lstrip())
    first = begin.split(None, 2)[:2]
    if begin.startswith("<"):
        raise BadInputError(file, "is HTML or XML, not JSON", remedy)
    if begin.startswith(("---", "%YAML")):
        raise BadInputError(file, "is YAML, not JSON", remedy)
    if first and first[0] in {"JOBID", "PARTITION", "NODELIST", "CLUSTER:"}:
        raise BadInputError(file, "is a table for people, not JSON", remedy)


def _refuse_other(file: str, option: str, found: _Answer, remedy: str) -> NoReturn:
    for key, (other, command) in KINDS.items():
        if other != option and getattr(found, key) is not None:
            problem = f"has {key!r}, which {command.split()[0]} prints"
            instead = f"give it as {other}, and as {option} {remedy.removeprefix('give ')}"
            raise BadInputError(file, problem, instead)
    names = " or ".join(repr(key) for key in KEYS[option])
    release, parser, _ = _version(found.meta)
    raise BadInputError(file, f"has no {names} ({_told(release, parser)})", remedy)


def _version(meta: Any) -> tuple[str, str, str | None]:
    """Release, parser and cluster, wherever this version says them."""

    def text(*path: str) -> str:
        node = meta
        for name in path:
            node = node.get(name) if isinstance(node, Mapping) else None
        return plain(node) if isinstance(node, str) else ""

    release = text("slurm", "release") or text("Slurm", "release")
    parser = text("plugin", "data_parser") or text("plugins", "data_parser") or text("plugin", "type")
    return release, parser, text("slurm", "cluster") or None


def _told(release: str, parser: str) -> str:
    said = " ".join(part for part in (f"Slurm {release}" if release else "", parser) if part)
    return said or "it does not say of which version it is"


class Records(Generic[T]):
    """Decodes the records of an answer one by one, so that a million of them need no room.

    Args:
        answer: of a command.
        kind: of its records.
    """

    def __init__(self, answer: Answer, kind: type[T]) -> None:
        self._answer = answer
        self._decoder = msgspec.json.Decoder(kind)

    def __getitem__(self, k: int) -> T:
        """A record.

        Raises:
            BadInputError: a field is missing or means nothing.
        """
        raw = self._answer.records[k]
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            field, problem = _translated(error, raw)
            place = self._answer.place(k)
            at = f"{place.path}.{field}" if field else place.path
            told = f"{problem} ({_told(self._answer.release, self._answer.parser)})"
            remedy = _other_command(raw) or f"give what {place.command} of Slurm 22.05 to 24.11 printed"
            raise BadInputError(f"{place.file}: {at}", told, remedy) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            place = self._answer.place(k)
            problem = f"is no JSON ({_reason(error)})"
            raise BadInputError(f"{place.file}: {place.path}", problem, "take the file again") from None


def _other_command(raw: Raw) -> str | None:
    """What to give where jobs are those of sacct."""
    record = _decoded(raw)
    if isinstance(record, Mapping) and "job_state" not in record and isinstance(record.get("state"), Mapping):
        return "this is what sacct prints: give what squeue --all --json printed"
    return None


def _decoded(raw: bytes | Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # only the value is left out of a message that is written anyhow


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _translated(error: msgspec.ValidationError, data: bytes | Raw) -> tuple[str, str]:
    """Field and problem of an error, with the value."""
    problem, _, at = str(error).partition(" - at `$")
    path = at.removesuffix("`")
    node = _decoded(data)
    for name, index in _PATH.findall(path):
        if isinstance(node, Mapping):
            node = node.get(name)
        elif index and isinstance(node, list) and int(index) < len(node):
            node = node[int(index)]
        else:
            node = None
    words_ = problem.replace("`", "'").replace("object | null", "object with a number, or null")
    if "missing required field" in problem:
        missing = words_.rpartition("'")[0].rpartition("'")[2]
        return f"{path}.{missing}".lstrip("."), "is missing"
    return path.lstrip("."), f"value {shown(node)}: {words_[:1].lower()}{words_[1:]}"
