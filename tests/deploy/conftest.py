"""The shipped cluster files, and copies of them with something wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched.cli.cluster import refusal, served
from rlsched.deploy.check import check

ROOT = Path(__file__).parents[2]

Broken = Callable[..., list[str]]


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Broken:
    """`broken("aws.yaml", old, new, ...)`: the lines for a shipped file with other texts in it."""
    monkeypatch.chdir(ROOT)  # what is copied from there must be there
    shutil.copytree(ROOT / "clusters", tmp_path / "clusters")

    def look(name: str, *pairs: str) -> list[str]:
        path = tmp_path / "clusters" / name
        text = path.read_text()
        for old, new in zip(pairs[::2], pairs[1::2], strict=True):
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        path.write_text(text)
        _, problems = check(path, refusal, served)
        return [str(problem).removeprefix(f"{path}: ") for problem in problems]

    return look
