"""Lines that the check writes about a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rlsched.cli.cluster import check_service, refusal
from rlsched.deploy.check import check
from rlsched.deploy.findings import Report

ROOT = Path(__file__).parents[2]

CheckText = Callable[[str, str], list[str]]


def check_file(path: Path) -> Report:
    """Check a file as the command does."""
    return check(path, refusal, check_service)


@pytest.fixture
def check_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CheckText:
    """`check_text("aws.yaml", text)`: the findings for a text, without the name of the file."""
    monkeypatch.chdir(ROOT)  # relative paths in files begin there

    def findings(name: str, text: str) -> list[str]:
        path = tmp_path / Path(name).name
        path.write_text(text, "utf-8")
        return [str(problem).removeprefix(f"{path}: ") for problem in check_file(path).problems]

    return findings
