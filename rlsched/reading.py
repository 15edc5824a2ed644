"""Reading files that people bring: plain or gzip, as text, and never more than a limit."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TextIO, cast

from rlsched.errors import BadInputError

GZIP_MAGIC = b"\x1f\x8b"

LIMIT_VARIABLE = "RLSCHED_MAX_INPUT_BYTES"
"""Environment variable with the most bytes that are read of any file, after decompression."""

DATA_BYTES = 2**29
"""Read of a data file where the variable is not set."""

MOST_LINE_BYTES = 2**20
"""Longer lines are no rows of a table."""

_CHUNK_BYTES = 2**20


def most_bytes(usual: int) -> int:
    """The most bytes to read of a file.

    Args:
        usual: where the environment variable `LIMIT_VARIABLE` is not set.

    Raises:
        BadInputError: the variable is no number of bytes.
    """
    text = os.environ.get(LIMIT_VARIABLE, "")
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
        raise BadInputError(LIMIT_VARIABLE, f"value {text!r}", "set a number of bytes from 1 on, or unset it")
    return int(text)


def too_large(where: str, most: int) -> BadInputError:
    """The error of a file with more than `most` bytes."""
    remedy = f"give less, or set {LIMIT_VARIABLE} to more"
    return BadInputError(where, f"holds more than {most:,} bytes, unpacked", remedy)


def too_long(where: str, line: int) -> BadInputError:
    """The error of a file with a line that is too long; lines count from 1."""
    return BadInputError(
        where, f"line {line} is longer than {MOST_LINE_BYTES:,} bytes", "end each row with a line break"
    )


def read_data(path: Path, remedy: str, usual: int = DATA_BYTES) -> bytes:
    """A data file in text form, plain or gzip, whole.

    Args:
        path: of the file.
        remedy: what to give instead, for messages.
        usual: most bytes of it, unpacked, where `LIMIT_VARIABLE` does not say it.

    Raises:
        BadInputError: it is missing, cannot be read, is damaged, empty, binary or too large, or has a line
            that is too long.
    """
    try:
        with path.open("rb") as file:
            data = _read_text_bytes(file, str(path), remedy, most_bytes(usual))
    except FileNotFoundError:
        raise BadInputError(str(path), "no such file", remedy) from None
    except EOFError:
        raise BadInputError(str(path), "gzip data ends early", "fetch the whole file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        problem = f"gzip data is damaged ({error})"
        raise BadInputError(str(path), problem, "fetch the file again") from None
    except BadInputError:
        raise
    except (OSError, ValueError) as error:  # a name with a null byte is the latter
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BadInputError(str(path), f"cannot be read ({reason})", remedy) from None
    if not data or data.isspace():
        raise BadInputError(str(path), "is empty", remedy)
    if data[:64].lstrip()[:1] not in (b"{", b"["):  # JSON stands on one line, or on many
        _check_lines(data, str(path))
    return data


def _read_text_bytes(file: IO[bytes], where: str, remedy: str, most: int) -> bytes:
    """What a file holds, unpacked, without a byte order mark; a device without an end fails early."""
    if cast("io.BufferedReader", file).peek(2)[:2] == GZIP_MAGIC:
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    data = bytearray()
    while chunk := file.read(_CHUNK_BYTES):
        if b"\0" in chunk:
            raise BadInputError(where, "is binary, not text", remedy)
        data += chunk
        if len(data) > most:
            raise too_large(where, most)
    if data.startswith(b"\xef\xbb\xbf"):
        del data[:3]
    return bytes(data)


def _check_lines(data: bytes, where: str) -> None:
    """Refuse a line that is too long; looks at about one line in `MOST_LINE_BYTES`."""
    begin = 0
    while len(data) - begin > MOST_LINE_BYTES:
        end = begin + MOST_LINE_BYTES + 1
        last = max(data.rfind(b"\n", begin, end), data.rfind(b"\r", begin, end))
        if last < 0:
            ends = data.count(b"\n", 0, begin) or data.count(b"\r", 0, begin)
            raise too_long(where, ends + 1)
        begin = last + 1


def lines_of(text: TextIO, where: str, most: int) -> Iterator[str]:
    """The lines of a text that is too large to be held as a whole; JSON comes in parts of any length.

    Args:
        text: to read.
        where: what errors call it.
        most: characters of it.

    Raises:
        BadInputError: it is too large, binary, or has a line that is too long.
    """
    count, number, first = 0, 0, ""
    while line := text.readline(MOST_LINE_BYTES + 1):
        number += 1
        count += len(line)
        if "\0" in line:
            raise BadInputError(where, f"line {number} is binary, not text", "give a text file")
        first = first or line.lstrip("\ufeff \t\r\n")[:1]
        if len(line) > MOST_LINE_BYTES and first not in ("{", "["):
            raise too_long(where, number)
        if count > most:
            raise too_large(where, most)
        yield line


def as_text(data: bytes) -> str:
    """The bytes as UTF-8, or else as Latin-1, which reads every byte: what matters is ASCII."""
    return data.decode(encoding_of(data))


def encoding_of(data: bytes) -> str:
    """`utf-8` where the bytes are that, else `latin-1`."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
