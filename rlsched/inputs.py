"""Checksums and versions of the inputs of a result, saved in its folder and compared when it is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.json_files import parse_json
from rlsched.settings_files import as_json

INPUTS = "inputs.json"


def save_inputs(folder: Path, inputs: Mapping[str, str]) -> None:
    """Save the inputs of a result.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(folder / INPUTS, as_json(inputs))


def check_inputs(folder: Path, inputs: Mapping[str, str], remedy: str) -> None:
    """Refuse to resume with other inputs than at the start.

    Args:
        folder: of the result.
        inputs: as they are now.
        remedy: the alternative to restoring the former inputs.

    Raises:
        BadInputError: something has changed since.
    """
    path = folder / INPUTS
    try:
        before = dict(parse_json(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise BadInputError(str(path), f"cannot be read ({error})", remedy) from None
    for name in sorted(before.keys() | inputs.keys()):
        if before.get(name) != inputs.get(name):
            was, now = shortened(before.get(name)), shortened(inputs.get(name))
            problem = f"was started with another {name} ({was}, now {now})"
            raise BadInputError(str(folder), problem, f"bring that back, or {remedy}")


def shortened(value: str | None) -> str:
    """The first 12 characters of a checksum or a version, for messages."""
    return "none" if value is None else value[:12]
