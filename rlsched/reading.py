"""Reads text files of users, plain or gzip, up to a limit of bytes."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Generator, Hashable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, TextIO, TypeVar, cast

from rlsched.errors import BadInputError

Result = TypeVar("Result")

GZIP_MAGIC = b"\x1f\x8b"

LIMIT_VARIABLE = "RLSCHED_MAX_INPUT_BYTES"
"""Environment variable: largest file, bytes after decompression."""

DATA_BYTES = 2**29
"""Largest data file, unless the variable is set."""

MOST_LINE_BYTES = 2**20
"""Longest line of a table."""

MOST_IDLE_LINES = 1_000_000
"""Most useless lines in a file: gzip may hide millions, and each takes time."""

WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""First bytes of UTF-16."""

_CHUNK_BYTES = 2**20


def most_bytes(usual: int) -> int:
    """The largest file, bytes.

    Args:
        usual: unless the environment variable `LIMIT_VARIABLE` is set.

    Raises:
        BadInputError: the variable is not a number of bytes.
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
    """The error of a file with a line beyond `MOST_LINE_BYTES`; lines count from 1."""
    return BadInputError(
        where, f"line {line} is longer than {MOST_LINE_BYTES:,} bytes", "end each row with a line break"
    )


def too_idle(where: str) -> BadInputError:
    """The error of a file with more than `MOST_IDLE_LINES`."""
    problem = f"holds more than {MOST_IDLE_LINES:,} lines that are blank or no jobs"
    return BadInputError(where, problem, "leave them out")


def read_data(path: Path, remedy: str, usual: int = DATA_BYTES) -> bytes:
    """Read a text file; see `read_stream`.

    Args:
        path: of the file.
        remedy: for messages.
        usual: most bytes, unpacked, unless `LIMIT_VARIABLE` is set.

    Raises:
        BadInputError: it is missing, or cannot be read as text.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise BadInputError(str(path), "no such file", remedy) from None
    except (OSError, ValueError) as error:  # a name with a null byte is the latter
        raise _unreadable(str(path), error, remedy) from None
    with file:
        return read_stream(file, str(path), remedy, usual)


def read_stream(stream: IO[bytes], where: str, remedy: str, usual: int = DATA_BYTES) -> bytes:
    """Read the text of a stream, plain or gzip, without a byte order mark; UTF-16 becomes UTF-8.

    Args:
        stream: to read.
        where: its name in messages.
        remedy: for messages.
        usual: most bytes, unpacked, unless `LIMIT_VARIABLE` is set.

    Raises:
        BadInputError: it cannot be read, is damaged, empty, binary or too large, or has a line that is too
            long.
    """
    try:
        data = _read_text_bytes(stream, where, remedy, most_bytes(usual))
    except BadInputError:
        raise
    except EOFError:
        raise BadInputError(where, "gzip data ends early", "fetch the whole file again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadInputError(where, f"gzip data is damaged ({error})", "fetch the file again") from None
    except (OSError, ValueError) as error:
        raise _unreadable(where, error, remedy) from None
    if not data or data.isspace():
        raise BadInputError(where, "is empty", remedy)
    if data[:64].lstrip()[:1] not in (b"{", b"["):  # JSON may be one long line
        _check_lines(data, where)
    return data


def _unreadable(where: str, error: OSError | ValueError, remedy: str) -> BadInputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return BadInputError(where, f"cannot be read ({reason})", remedy)


def _unpacked(stream: IO[bytes]) -> gzip.GzipFile | io.BufferedReader:
    """The content of a stream, decompressed if it is gzip."""
    file = cast("io.BufferedReader", stream)
    if not hasattr(stream, "peek"):
        file = io.BufferedReader(cast("io.RawIOBase", stream))
    return gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == GZIP_MAGIC else file


def _read_text_bytes(stream: IO[bytes], where: str, remedy: str, most: int) -> bytes:
    """The content of a stream; UTF-16 as UTF-8. An endless device fails early."""
    file = _unpacked(stream)
    is_wide = file.peek(2)[:2] in WIDE_MARKS
    data = bytearray()
    while chunk := file.read(_CHUNK_BYTES):
        if not is_wide and b"\0" in chunk:
            raise BadInputError(where, "is binary, not text", remedy)
        data += chunk
        if len(data) > most:
            raise too_large(where, most)
    if is_wide:
        return _narrowed(data, where, remedy)
    if data.startswith(codecs.BOM_UTF8):
        del data[:3]
    return bytes(data)


def _narrowed(data: bytearray, where: str, remedy: str) -> bytes:
    """UTF-16 as UTF-8: Excel's "Unicode text", and files that `>` of PowerShell 5 writes."""
    try:
        text = data.decode("utf-16")
    except UnicodeDecodeError as error:
        problem = f"is UTF-16 that cannot be read from byte {error.start} on"
        raise BadInputError(where, problem, "save it as UTF-8") from None
    if "\0" in text:
        raise BadInputError(where, "is binary, not text", remedy)
    return text.encode()


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


def lines_of(stream: IO[bytes], where: str, most: int) -> Generator[str]:
    """The lines of a text, plain or gzip, that is too large for memory; JSON comes in parts of any length.

    Args:
        stream: to read; it stays open.
        where: its name in errors.
        most: largest number of characters.

    Raises:
        BadInputError: it is too large or binary, has a line that is too long, or too many blank lines.
        OSError, EOFError, zlib.error: it cannot be read.
    """
    file = _unpacked(stream)
    is_wide = file.peek(2)[:2] in WIDE_MARKS
    # UTF-16 has surrogates of its own, so surrogateescape cannot keep invalid bytes there.
    encoding, errors = ("utf-16", "replace") if is_wide else ("utf-8", "surrogateescape")
    text = io.TextIOWrapper(cast("IO[bytes]", file), encoding, errors)
    try:
        yield from _lines(text, where, most)
    finally:
        text.detach()


def _lines(text: TextIO, where: str, most: int) -> Iterator[str]:
    count, number, idle, first = 0, 0, 0, ""
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
        idle = idle + 1 if line.isspace() else 0
        if idle > MOST_IDLE_LINES:
            raise too_idle(where)
        yield line


def read_once(read: Callable[..., Result], path: Path, **options: Hashable) -> Result:
    """The result of a function of a file, which is called again only once the file has changed."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return read(path, **options)  # raises the error that fits
    state = (path.resolve(), status.st_mtime_ns, status.st_size)
    return cast("Result", _read_state(read, path, state, **options))


@lru_cache(maxsize=8)
def _read_state(
    read: Callable[..., object], path: Path, state: tuple[object, ...], **options: Hashable
) -> object:
    return read(path, **options)


def as_text(data: bytes) -> str:
    """The bytes as UTF-8, or else as Latin-1, which reads every byte; only ASCII matters."""
    return data.decode(encoding_of(data))


def encoding_of(data: bytes) -> str:
    """`utf-8` if the bytes are valid UTF-8, else `latin-1`."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
