"""JSON documents: read strictly, and with a checksum of themselves that shows changes by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

CHECKSUM = "checksum"
"""Key of the checksum in a document; it covers everything else."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, in which every object has each key once.

    Raises:
        ValueError: it is not JSON, nested too deeply, has a key twice in an object, or too long a number.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError as error:
        if "set_int_max_str_digits" not in str(error):
            raise
        # Python's own words are for programmers.
        raise ValueError(f"a number has more than {sys.get_int_max_str_digits():,} digits") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Python keeps the last value of a key that is repeated, and other readers the first."""
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise ValueError(f"key {key[:80]!r} stands twice in an object")
        unique[key] = value
    return unique


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """A document with its checksum at the end."""
    return {**values, CHECKSUM: _checksum(json.loads(json.dumps(values)))}


def without_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """A document as it was read, without its checksum; documents of older versions have none.

    Raises:
        ValueError: it was changed since it was written.
    """
    rest = {key: value for key, value in values.items() if key != CHECKSUM}
    if CHECKSUM in values and values[CHECKSUM] != _checksum(rest):
        raise ValueError("it was changed since it was written: its checksum is of other values")
    return rest


def _checksum(values: Mapping[str, Any]) -> str:
    """SHA-256 of plain values, whatever the order of their keys and the layout of their file."""
    try:
        text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return sha256(text.encode()).hexdigest()
