"""Files that are small and stand for much, or have no end: one line, exit code 2, and soon."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rlsched.reading import LIMIT_VARIABLE
from tests.workloads.test_sacct import COLUMNS

from .conftest import Run

LAUGHS = "\n".join(
    ["a0: &a0 {x: 1}"] + [f"a{k}: &a{k}\n  <<: [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 10)]
)
POWER = ("simulate", "--scenario", "green-10", "--set")


def refused(rlsched: Run, *words: object) -> str:
    ran = rlsched(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert len(ran.err) < 1000
    return ran.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("trace", "info", "/dev/zero"), "/dev/zero: is binary, not text"),
        (("trace", "cut", "/dev/zero", "--out", "x.swf"), "/dev/zero: is binary, not text"),
        (("simulate", "--trace", "/dev/zero"), "/dev/zero: is binary, not text"),
        (("trace", "import", "sacct", "/dev/zero", "--out", "x.swf"), "line 1 is binary, not text"),
        ((*POWER, "power={kind: series, file: /dev/zero}"), "/dev/zero: is binary, not text"),
        (("train", "/dev/zero"), "/dev/zero: holds more than 1,048,576 bytes"),
        (("collect", "/dev/zero"), "/dev/zero: holds more than 1,048,576 bytes"),
        (("tune", "/dev/zero"), "/dev/zero: holds more than 1,048,576 bytes"),
        (("cluster", "check", "/dev/zero"), "/dev/zero: holds more than 1,048,576 bytes"),
    ],
)
def test_a_device_without_an_end(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in refused(rlsched, *words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", [("simulate", "--scenario"), ("train",), ("collect",), ("tune",)])
def test_yaml_that_stands_for_much(rlsched: Run, tmp_path: Path, command: tuple[str, ...]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(LAUGHS)
    assert "has more than 50,000 values, with those of its aliases" in refused(rlsched, *command, path)


def test_yaml_of_a_cluster_that_stands_for_much(rlsched: Run, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(LAUGHS)
    assert "has more than 50,000 values, with those of its aliases, line 11" in refused(
        rlsched, "cluster", "check", path
    )


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "info", "{}"),
        ("trace", "import", "sacct", "{}", "--out", "x.swf"),
        (*POWER, "power={{kind: series, file: {}}}"),
    ],
)
def test_data_that_unpacks_to_more_than_the_limit(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(LIMIT_VARIABLE, "1000000")
    Path("bomb.gz").write_bytes(gzip.compress(f"{COLUMNS}\n".encode() * 20_000))
    line = refused(rlsched, *(word.format("bomb.gz") for word in words))
    assert "bomb.gz: holds more than 1,000,000 bytes, unpacked; give less, or set RLSCHED_MAX_INPUT" in line
