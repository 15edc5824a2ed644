"""What is read of a file that somebody brings: up to a limit, whatever it unpacks to."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched import reading
from rlsched.errors import BadInputError
from rlsched.settings_files import read_text


def refused(path: Path, most: int = reading.DATA_BYTES) -> str:
    with pytest.raises(BadInputError) as caught:
        reading.read_data(path, "give a trace", most)
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_count_after_decompression(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "data"
    content = b"1 2 3\n" * 200_000
    path.write_bytes(gzip.compress(content) if packed else content)
    assert reading.read_data(path, "", len(content)) == content
    assert f"{path}: holds more than 1,199,999 bytes, unpacked; give less, or set" in refused(path, 1_199_999)


def test_the_limit_is_set_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"12345")
    monkeypatch.setenv(reading.LIMIT_VARIABLE, "4")
    assert "holds more than 4 bytes" in refused(path)
    with pytest.raises(BadInputError, match="holds more than 4 bytes"):
        read_text(path)
    monkeypatch.setenv(reading.LIMIT_VARIABLE, "5")
    assert reading.read_data(path, "", 1) == b"12345"
    for value in ("0", "-1", "1e9", "x", "9" * 5000):
        monkeypatch.setenv(reading.LIMIT_VARIABLE, value)
        assert refused(path).startswith("RLSCHED_MAX_INPUT_BYTES: value ")


def test_a_device_without_an_end() -> None:
    assert "/dev/zero: is binary, not text" in refused(Path("/dev/zero"))
    with pytest.raises(BadInputError, match="/dev/zero: holds more than 1,048,576 bytes"):
        read_text(Path("/dev/zero"))


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setattr(reading, "MOST_LINE_BYTES", 10)
    path = tmp_path / "data"
    path.write_bytes((f"1234567890{end}" * 9).encode())
    assert reading.read_data(path, "")
    path.write_bytes(f"1{end}12345678901{end}2".encode())
    assert "line 2 is longer than 10 bytes" in refused(path)


def test_lines_of_a_stream_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str, most: int = 100) -> list[str]:
        return list(reading.lines_of(io.BytesIO(text.encode()), "stdin", most))

    monkeypatch.setattr(reading, "MOST_LINE_BYTES", 10)
    assert read("a|b\n1|2\n") == ["a|b\n", "1|2\n"]
    assert "".join(read(' {"jobs": [1, 2, 3]}')) == ' {"jobs": [1, 2, 3]}'
    for text, problem in [
        ("a\n12345678901", "line 2 is longer than 10 bytes"),
        ("a\n\0", "line 2 is binary"),
        ("123\n" * 26, "holds more than 100 bytes"),
        ("{" * 101, "holds more than 100 bytes"),
    ]:
        with pytest.raises(BadInputError, match=problem):
            read(text)
    monkeypatch.setattr(reading, "MOST_IDLE_LINES", 3)
    assert len(read("a\n\n\n \nb\n\n\n\n")) == 8
    with pytest.raises(BadInputError, match="stdin: holds more than 3 lines that are blank"):
        read("a\n\n\r\n \n\t\n")


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_by_its_mark(tmp_path: Path, encoding: str, packed: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "data"
    path.write_bytes(packed("\ufeffKöln\r\n1 2\r\n".encode(encoding)))
    assert reading.read_data(path, "") == "Köln\r\n1 2\r\n".encode()
    with path.open("rb") as file:
        assert list(reading.lines_of(file, "data", 100)) == ["Köln\n", "1 2\n"]
    path.write_bytes(packed("\ufeff1 2".encode(encoding) + b"\0"))
    assert "is UTF-16 that cannot be read from byte 8 on; save it as UTF-8" in refused(path)
    path.write_bytes(packed("\ufeff1\0".encode(encoding)))
    assert "is binary, not text" in refused(path)
    path.write_bytes(packed("\ufeff \n".encode(encoding)))
    assert "is empty" in refused(path)


def test_streams_have_the_limits_of_files() -> None:
    def read(data: bytes, most: int = 100) -> bytes:
        return reading.read_stream(io.BytesIO(data), "stdin", "give a table", most)

    assert read(gzip.compress(b"\xef\xbb\xbfab")) == b"ab"
    for data, problem in [
        (b"a" * 101, "stdin: holds more than 100 bytes, unpacked"),
        (gzip.compress(b"a" * 101), "stdin: holds more than 100 bytes, unpacked"),
        (b"a\0", "stdin: is binary, not text; give a table"),
        (b" \n", "stdin: is empty; give a table"),
        (gzip.compress(b"abc")[:-3], "stdin: gzip data ends early"),
        (gzip.compress(b"abc")[:12] + b"xxxxxxxxxxxx", "stdin: gzip data is damaged"),
    ]:
        with pytest.raises(BadInputError, match=problem):
            read(data)
