"""Signatures of what a user's own processes wrote, by a key in a folder that only this user can read."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from rlsched.files import is_private, temporary_home

KEY, KEY_BYTES = "key", 32


def sign(content: bytes) -> str | None:
    """HMAC-SHA256 of a content with the user's key, in hexadecimal digits; None where no key can be kept.

    The first signature makes the key.
    """
    key = next(_keys(), None) or _made()
    return None if key is None else _signature(key, content)


def is_signed(content: bytes, signature: str) -> bool:
    """Whether a signature is of this content and by a key of this user's."""
    return any(hmac.compare_digest(_signature(key, content).encode(), signature.encode()) for key in _keys())


def key_files() -> list[Path]:
    """Possible paths of the user's key: in the home folder, or if that is not writable, a temporary one."""
    folders = [temporary_home() / ".config"]
    with suppress(RuntimeError):  # the user has no home
        folders.insert(0, Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"))
    return [folder / "rlsched" / KEY for folder in folders]


def _signature(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, sha256).hexdigest()


def _keys() -> Iterator[bytes]:
    """The keys that are there and that others could neither have read nor written."""
    for file in key_files():
        with suppress(OSError):
            folder, shared = file.parent.resolve(), temporary_home().resolve()
            if shared in folder.parents and not is_private(shared):
                continue  # another user may have made it
            if is_private(folder) and is_private(file, shared=0o077):
                key = file.read_bytes()
                if len(key) == KEY_BYTES:
                    yield key


def _made() -> bytes | None:
    """A new key, in the first place where one can be kept."""
    for file in key_files():
        with suppress(OSError):
            _make(file)
            if (key := next(_keys(), None)) is not None:
                return key
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
