"""Signatures of what a user's own processes wrote, by a key in a folder that only this user can read."""

from __future__ import annotations

import hmac
import os
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from rlsched.files import is_private

KEY_BYTES = 32


def sign(content: bytes) -> str | None:
    """HMAC-SHA256 of a content with the user's key, in hexadecimal digits; None where no key can be kept.

    The first signature makes the key.
    """
    key = _key(make=True)
    return None if key is None else hmac.new(key, content, sha256).hexdigest()


def is_signed(content: bytes, signature: str) -> bool:
    """Whether a signature is of this content and by the user's key."""
    key = _key(make=False)
    if key is None:
        return False
    return hmac.compare_digest(hmac.new(key, content, sha256).hexdigest().encode(), signature.encode())


def key_file() -> Path:
    """Where the user's key is kept.

    Raises:
        RuntimeError: the user has no home.
    """
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "rlsched" / "key"


def _key(*, make: bool) -> bytes | None:
    """The user's key; None where there is none, or others could have read or written it."""
    with suppress(OSError, RuntimeError):  # no home, or none that can be written to
        file = key_file()
        if make and not file.exists():
            _make(file)
        if is_private(file.parent.resolve()) and is_private(file, shared=0o077):
            key = file.read_bytes()
            return key if len(key) == KEY_BYTES else None
    return None


def _make(file: Path) -> None:
    """Write a new key, unless another process has written one meanwhile."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(f".key.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(new, file)  # never over another
    finally:
        new.unlink(missing_ok=True)
