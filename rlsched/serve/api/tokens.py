"""Tokens of requests, from a file."""

from __future__ import annotations

import hmac
import logging
import stat
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import quoted

LOG = logging.getLogger("rlsched.serve")

MIN_LENGTH = 16  # characters of a token: shorter ones can be guessed


def read_tokens(path: Path | None) -> list[str]:
    """Read the tokens of a file when a command starts; warn about a file that other users may open.

    This is no error: Kubernetes mounts secrets so that every user of their container may read them.

    Raises:
        BadInputError: see `tokens_of`.
    """
    tokens = tokens_of(path)
    if path is not None:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
            LOG.warning("%s: other users may open the token file; run: chmod 600 %s", path, quoted(path))
    return tokens


def tokens_of(path: Path | None) -> list[str]:
    """The tokens of a file, one per line, without empty lines and those that begin with #.

    Raises:
        BadInputError: there is no such file, or no token in it, or one is too short or not plain.
    """
    if path is None:
        return []
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        problem = f"cannot read {str(path)!r} ({error})"
        raise BadInputError("--token-file", problem, "write one token per line") from None
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise BadInputError(str(path), "holds no token", "write one per line")
    for number, token in enumerate(tokens, start=1):
        if len(token) < MIN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
            problem = f"token {number} is too short, or not of plain characters"
            remedy = f"use {MIN_LENGTH} ASCII characters or more, as of 'openssl rand -hex 32'"
            raise BadInputError(str(path), problem, remedy)
    return tokens


class Tokens:
    """The present tokens of a file; without a file, no token is needed.

    Raises:
        BadInputError: see `tokens_of`.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._last_error = path, ""
        self._known = [token.encode() for token in tokens_of(path)]

    def allow(self, candidate: bytes) -> bool:
        """Whether a token is valid, or none is needed."""
        # It is compared with all tokens, even after a match, so that the time reveals nothing.
        return not self._known or any([hmac.compare_digest(candidate, token) for token in self._known])

    def renew(self) -> list[str]:
        """Read the file again; if it is invalid, the earlier tokens stay valid.

        Returns:
            Lines about changes and errors; no error twice in a row.
        """
        try:
            known = [token.encode() for token in tokens_of(self._path)]
        except BadInputError as error:
            last_error, self._last_error = self._last_error, str(error)
            return [] if last_error == self._last_error else [f"tokens stay what they were: {error}"]
        self._last_error = ""
        if known == self._known:
            return []
        self._known = known
        return ["tokens were loaded from the file again"]
