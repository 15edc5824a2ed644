"""Decoding of bodies by msgspec, with one clear line for an invalid one."""

from __future__ import annotations

import re
from difflib import get_close_matches
from http import HTTPStatus
from typing import TypeVar

import msgspec

from rlsched.serve.api.admission import RefusedError
from rlsched.serve.api.batch_schema import ClusterColumns
from rlsched.serve.api.repeated_keys import check_repeats
from rlsched.serve.api.requests import COLUMN_LISTS, LISTS
from rlsched.serve.api.schema import ClusterState

MAX_PROBLEM = 200  # characters of a problem with a body

UNKNOWN = re.compile("Object contains unknown field `(.*)`")
FIELD = re.compile("[a-z_]+")
PARTS: dict[str, type[msgspec.Struct]] = {"states": ClusterState, **LISTS}
COLUMNS: dict[str, type[msgspec.Struct]] = {"columns": ClusterColumns, **COLUMN_LISTS}
"""Field of a body -> type of its contents, in states and in columns."""

Body = TypeVar("Body", bound=msgspec.Struct)


def decode(content: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    """Decode a body.

    Raises:
        RefusedError: it is no JSON, or a field is invalid.
    """
    try:
        body = decoder.decode(content)
    except msgspec.ValidationError as error:
        # The problem may hold names of the client's fields: the path comes last.
        problem, _, path = str(error).rpartition(" - at `$")
        if not problem:
            problem, path = path, ""
        where = path.rstrip("`").lstrip(".") or "body"
        problem, remedy = shorten(problem, MAX_PROBLEM), "see /openapi.json"
        if unknown := UNKNOWN.fullmatch(problem):
            names = FIELD.findall(path)
            parts = COLUMNS if names[:1] == ["columns"] else PARTS
            remedy = _suggest(unknown[1], parts.get(names[-1], decoder.type) if names else decoder.type)
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where}: {problem}; {remedy}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"body: {str(error) or 'nested too deeply'}" if content else "body: is empty"
        problem += "; send JSON in UTF-8"
        raise RefusedError(HTTPStatus.BAD_REQUEST, problem) from None
    try:
        check_repeats(content)
    except ValueError as error:
        problem = f"body: {error}; give it once"
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, problem) from None
    return body


def shorten(problem: str, limit: int) -> str:
    """Cut a problem to a number of characters: the name of a client's field may have megabytes."""
    half = limit // 2
    return problem if len(problem) <= limit else f"{problem[:half]}...{problem[-half:]}"


def _suggest(name: str, kind: type[msgspec.Struct]) -> str:
    """The remedy for an unknown field: a similar name, and all known names."""
    known = kind.__struct_fields__
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use some of {', '.join(known)}"
