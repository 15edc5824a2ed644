"""What Slurm's commands say in their JSON when they could not do what they were asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rlsched.errors import BadInputError

_LONGEST = 200


def check_errors(where: str, errors: object, command: str) -> None:
    """Pass on the errors that an answer holds; what it lists beside them is not all.

    Args:
        where: what messages call the answer.
        errors: of the answer; None: it has none.
        command: that was to print it.

    Raises:
        BadInputError: there are some.
    """
    if not errors:
        return
    listed: list[Any] = errors if isinstance(errors, list) else [errors]
    first = listed[0] if isinstance(listed[0], Mapping) else {"error": listed[0]}
    texts = [str(first[name]) for name in ("description", "error", "error_number") if first.get(name)]
    reason = re.sub(r"[^ -~]", "?", ": ".join(texts[:2]) or "no reason given")[:_LONGEST]
    problem = f"Slurm answered with {len(listed)} errors, first: {reason}"
    raise BadInputError(f"{where}: errors[0]", problem, f"ask again: {command}")
