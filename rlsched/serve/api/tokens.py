"""Tokens that requests must bear, from a file."""

from __future__ import annotations

import hmac
import logging
import stat
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.files import quoted

LOG = logging.getLogger("rlsched.serve")

LEAST = 16
"""Characters of a token: shorter ones are found by trying."""


def read_tokens(path: Path | None) -> list[str]:
    """The tokens of a file, for a command that starts; a file that others may use is warned about.

    Kubernetes mounts secrets for everybody in their container to read, so that it is no error.

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
    """The tokens of a file, one per line; empty lines and those that begin with # do not count.

    Raises:
        BadInputError: there is no such file, no token in it, or one that is too short or not plain.
    """
    if path is None:
        return []
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(
            "--token-file", f"cannot read {str(path)!r} ({error})", "write one token per line"
        ) from None
    tokens = [line for line in lines if line and not line.startswith("#")]
    if not tokens:
        raise BadInputError(str(path), "holds no token", "write one per line")
    for number, token in enumerate(tokens, start=1):
        if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
            problem = f"token {number} is too short, or not of plain characters"
            remedy = f"use {LEAST} ASCII characters or more, as of 'openssl rand -hex 32'"
            raise BadInputError(str(path), problem, remedy)
    return tokens


class Tokens:
    """Those of a file, as it is now.

    Args:
        path: of the file; None: anyone may ask.

    Raises:
        BadInputError: see `tokens_of`.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._said = path, ""
        self._known = [token.encode() for token in tokens_of(path)]

    def allow(self, given: bytes) -> bool:
        """Whether it is one of them, or none is wanted."""
        # All are looked at, however early one matches: how long it takes tells nothing.
        return not self._known or any([hmac.compare_digest(given, token) for token in self._known])

    def renew(self) -> list[str]:
        """Read the file again; while it means nothing, those hold that did.

        Returns:
            What has changed, or why it could not, in words; nothing twice in a row.
        """
        try:
            known = [token.encode() for token in tokens_of(self._path)]
        except BadInputError as error:
            said, self._said = self._said, str(error)
            return [] if said == self._said else [f"tokens stay what they were: {error}"]
        self._said = ""
        if known == self._known:
            return []
        self._known = known
        return ["tokens are those now that stand in the file"]
