"""JSON output of Slurm's commands, versions 22.05 to 24.11; anything else is refused in one line.

Versions print differently: openapi v0.0.38, data_parser v0.0.39 to v0.0.42.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Raw, Struct

from rlsched.errors import BadInputError
from rlsched.integrations.slurm.values import Location, Number, printable, short_json
from rlsched.reading import as_text, read_data, read_stream
from rlsched.serve.api.repeated_keys import check_repeats
from rlsched.workloads.slurm_output import check_errors

STDIN = "-"

LISTS = {
    "jobs": ("--squeue", "squeue --all --json"),
    "sinfo": ("--sinfo", "sinfo --all --Node --json"),
    "nodes": ("--sinfo", "sinfo --all --Node --json"),
}
"""Key of the list of records -> option of the command line, and the command that prints it."""

KEYS = {"--squeue": ("jobs",), "--sinfo": ("sinfo", "nodes")}

_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
RecordT = TypeVar("RecordT")


class _Document(Struct, frozen=True):
    jobs: list[Raw] | None = None
    sinfo: list[Raw] | None = None
    nodes: list[Raw] | None = None
    errors: list[Any] | None = None
    meta: Any = None
    last_update: Number = None


@dataclass(frozen=True, eq=False)
class CommandOutput:
    """The output of a command, with its records still encoded."""

    file: str  # that it was read from
    key: str  # of the list of records
    records: list[Raw]  # one per job, or per group of nodes
    release: str  # version of Slurm; empty where unknown
    parser: str  # plugin that wrote it; empty where unknown
    cluster: str | None  # None where unknown
    last_update: int | None  # Unix seconds of Slurm's last change of a job; None where unknown

    def location(self, k: int) -> Location:
        """The location of record `k`."""
        return Location(self.file, f"{self.key}[{k}]", LISTS[self.key][1])

    def decode(self, k: int, decoder: msgspec.json.Decoder[RecordT]) -> RecordT:
        """Decode record `k`; one at a time, a million of them need little memory.

        Raises:
            BadInputError: a field is missing or invalid.
        """
        raw, location = self.records[k], self.location(k)
        try:
            return decoder.decode(raw)
        except msgspec.ValidationError as error:
            field, problem = _field_and_problem(error, raw)
            path = f"{location.path}.{field}" if field else location.path
            problem += f" ({_version_text(self.release, self.parser)})"
            remedy = _sacct_remedy(raw) or f"give the output of {location.command} of Slurm 22.05 to 24.11"
            raise BadInputError(f"{location.file}: {path}", problem, remedy) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = f"is not JSON ({_reason(error)})"
            raise BadInputError(f"{location.file}: {location.path}", problem, "take the file again") from None


def read_output(option: str, source: str) -> CommandOutput:
    """Read what an option names, --squeue or --sinfo: the file of a command's output, or - for stdin.

    Raises:
        BadInputError: it is not the output of that command.
    """
    command = LISTS[KEYS[option][0]][1]
    remedy = f"give the output of {command}"
    file = "stdin" if source == STDIN else source
    data = read_stream(sys.stdin.buffer, file, remedy) if source == STDIN else read_data(Path(source), remedy)
    document = _decode(file, data, remedy)
    check_errors(file, document.errors, command)
    key = next((key for key in KEYS[option] if getattr(document, key) is not None), None)
    if key is None:
        _refuse_other(file, option, document, remedy)
    release, parser, cluster = _version(document.meta)
    return CommandOutput(
        file=file,
        key=key,
        records=getattr(document, key),
        release=release,
        parser=parser,
        cluster=cluster,
        last_update=Location(file, "", command).integer("last_update", document.last_update),
    )


def _decode(file: str, data: bytes, remedy: str) -> _Document:
    _check_format(file, data, remedy)
    try:
        document = msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError as error:
        field, problem = _field_and_problem(error, data)
        raise BadInputError(f"{file}: {field or 'top level'}", problem, remedy) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(
            file, f"is not complete JSON ({_reason(error)})", f"{remedy}, to its end"
        ) from None
    try:
        check_repeats(data)
    except ValueError as error:
        raise BadInputError(file, str(error), remedy) from None
    return document


def _check_format(file: str, data: bytes, remedy: str) -> None:
    """Name the formats that are often given instead."""
    head = as_text(data[:400].lstrip())
    first_words = head.split(None, 2)[:2]
    if head.startswith("<"):
        raise BadInputError(file, "is HTML or XML, not JSON", remedy)
    if head.startswith(("---", "%YAML")):
        raise BadInputError(file, "is YAML, not JSON", remedy)
    if first_words and first_words[0] in {"JOBID", "PARTITION", "NODELIST", "CLUSTER:"}:
        raise BadInputError(file, "is a text table, not JSON", remedy)


def _refuse_other(file: str, option: str, document: _Document, remedy: str) -> NoReturn:
    for key, (other_option, command) in LISTS.items():
        if other_option != option and getattr(document, key) is not None:
            problem = f"has {key!r}, which {command.split()[0]} prints"
            remedy = f"give it as {other_option}, and as {option} {remedy.removeprefix('give ')}"
            raise BadInputError(file, problem, remedy)
    names = " or ".join(repr(key) for key in KEYS[option])
    release, parser, _ = _version(document.meta)
    raise BadInputError(file, f"has no {names} ({_version_text(release, parser)})", remedy)


def _version(meta: Any) -> tuple[str, str, str | None]:
    """Release, parser and cluster; each version has them elsewhere."""

    def text(*path: str) -> str:
        node = meta
        for name in path:
            node = node.get(name) if isinstance(node, Mapping) else None
        return printable(node) if isinstance(node, str) else ""

    release = text("slurm", "release") or text("Slurm", "release")
    parser = text("plugin", "data_parser") or text("plugins", "data_parser") or text("plugin", "type")
    return release, parser, text("slurm", "cluster") or None


def _version_text(release: str, parser: str) -> str:
    parts = " ".join(part for part in (f"Slurm {release}" if release else "", parser) if part)
    return parts or "Slurm's version is not in it"


def _sacct_remedy(raw: Raw) -> str | None:
    """The remedy where the record is a job of sacct; else None."""
    record = _decoded(raw)
    if isinstance(record, Mapping) and "job_state" not in record and isinstance(record.get("state"), Mapping):
        return "this is the output of sacct: give the output of squeue --all --json"
    return None


def _decoded(raw: bytes | Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the caller's message then lacks the value, and nothing else


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _field_and_problem(error: msgspec.ValidationError, data: bytes | Raw) -> tuple[str, str]:
    """Path of the field that msgspec refuses, and the problem with its value."""
    problem, _, suffix = str(error).partition(" - at `$")
    path = suffix.removesuffix("`")
    node = _decoded(data)
    for name, index in _PATH.findall(path):
        if isinstance(node, Mapping):
            node = node.get(name)
        elif index and isinstance(node, list) and int(index) < len(node):
            node = node[int(index)]
        else:
            node = None
    text = problem.replace("`", "'").replace("object | null", "object with a number, or null")
    if "missing required field" in problem:
        missing = text.rpartition("'")[0].rpartition("'")[2]
        return f"{path}.{missing}".lstrip("."), "is missing"
    return path.lstrip("."), f"value {short_json(node)}: {text[:1].lower()}{text[1:]}"
