"""Reading data files that people bring: plain or gzip, whole, and text."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from rlsched.errors import BadInputError

GZIP_MAGIC = b"\x1f\x8b"


def read_data(path: Path, remedy: str) -> bytes:
    """A data file in text form, plain or gzip, whole.

    Args:
        path: of the file.
        remedy: what to give instead, for messages.

    Raises:
        BadInputError: it is missing, cannot be read, is damaged, empty or binary.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise BadInputError(str(path), "no such file", remedy) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(str(path), f"cannot be read ({reason})", remedy) from None
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except EOFError:
            raise BadInputError(str(path), "gzip data ends early", "fetch the whole file again") from None
        except (OSError, zlib.error) as error:
            raise BadInputError(
                str(path), f"gzip data is damaged ({error})", "fetch the file again"
            ) from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise BadInputError(str(path), "is empty", remedy)
    if b"\0" in data:
        raise BadInputError(str(path), "is binary, not text", remedy)
    return data


def as_text(data: bytes) -> str:
    """The bytes as UTF-8, or else as Latin-1, which reads every byte: what matters is ASCII."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
