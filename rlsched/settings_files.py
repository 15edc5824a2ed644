"""Settings as files: YAML that is read within limits and written with a checksum of its content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from rlsched.errors import BadInputError
from rlsched.files import write_whole
from rlsched.reading import most_bytes, too_large
from rlsched.yaml_text import parse_yaml, reason

EDITED = "was edited since it was written"


def as_yaml(settings: BaseModel) -> bytes:
    """Settings as YAML that `read_yaml` reads."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, encoding="utf-8")


WRITTEN = "# to go on, leave as it is; SHA-256 of the lines above: "
"""Start of the last line of settings that a resumed run must find unchanged."""


def write_settings(path: Path, content: bytes) -> None:
    """Write settings with a checksum, so that later edits are noticed.

    Raises:
        OSError: the file cannot be written; an earlier one is unchanged.
    """
    write_whole(path, content + f"{WRITTEN}{sha256(content).hexdigest()}\n".encode())


def was_edited(path: Path) -> bool | None:
    """Whether settings were edited since they were written; None without a checksum, as in older files."""
    try:
        content, line, rest = path.read_bytes().partition(WRITTEN.encode())
    except FileNotFoundError:
        return None
    if not line:
        return None
    return sha256(content).hexdigest() != rest.decode(errors="replace").strip()


def edited(path: Path, remedy: str) -> BadInputError:
    """The error for settings that were edited by hand.

    Args:
        path: of the settings.
        remedy: the alternative to undoing the edit.
    """
    return BadInputError(str(path), EDITED, f"undo that, or {remedy}")


def as_json(values: Mapping[str, Any]) -> bytes:
    """Values as indented JSON."""
    return (json.dumps(values, indent=2) + "\n").encode()


SETTINGS_BYTES = 2**20
"""Largest settings file, unless `LIMIT_VARIABLE` sets another limit."""


def read_text(path: Path, remedy: str = "give a YAML file in UTF-8") -> str:
    """The text of a settings file.

    Args:
        path: of the file.
        remedy: what to give instead, for messages.

    Raises:
        BadInputError: the file is missing, no text, or too large.
    """
    most = most_bytes(SETTINGS_BYTES)
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
        text = data.decode("utf-8")
    except FileNotFoundError:
        raise BadInputError(str(path), "no such file", remedy) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(str(path), f"cannot be read ({reason})", remedy) from None
    if len(data) > most:
        raise too_large(str(path), most)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_yaml(text: str, where: str) -> dict[str, Any]:
    """A YAML document that must be a mapping.

    Raises:
        BadInputError: it is not YAML, or beyond the limits of `yaml_text`, or no mapping.
    """
    try:
        values = parse_yaml(text)
    except yaml.YAMLError as error:
        raise BadInputError(where, f"is not YAML ({reason(error)})", "mend the syntax") from None
    if values is None:
        raise BadInputError(where, "is empty", "give a mapping of keys to values")
    if not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"one value, {str(values)[:60]!r}"
        raise BadInputError(where, f"holds {kind}", "give a mapping of keys to values")
    return values
