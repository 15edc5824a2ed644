"""Errors in the JSON output of Slurm's commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlsched.errors import BadInputError

_MAX_CHARACTERS = 200


def check_errors(where: str, errors: object, command: str) -> None:
    """Refuse an output with errors: its lists are incomplete.

    Args:
        where: name of the output in messages.
        errors: field of the output; None: it has none.
        command: that printed it.

    Raises:
        BadInputError: there are errors.
    """
    if not errors:
        return
    listed: list[Any] = errors if isinstance(errors, list) else [errors]
    first = listed[0] if isinstance(listed[0], Mapping) else {"error": listed[0]}
    texts = [str(first[name]) for name in ("description", "error", "error_number") if first.get(name)]
    reason = re.sub(r"[^ -~]", "?", ": ".join(texts[:2]) or "no reason given")[:_MAX_CHARACTERS]
    problem = f"Slurm answered with {len(listed)} errors, first: {reason}"
    raise BadInputError(f"{where}: errors[0]", problem, f"run again: {command}")
