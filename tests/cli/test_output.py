"""What is said to people beside the results."""

from __future__ import annotations

from pathlib import Path

import pytest

import rlsched
from rlsched.cli import output


def test_a_first_run_says_that_it_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "sim" / "__pycache__"
    cache.mkdir(parents=True)
    monkeypatch.setattr(rlsched, "__file__", str(tmp_path / "__init__.py"))
    output.announce_compiling()
    assert "compiling the simulator, once" in capsys.readouterr().err
    (cache / "step.nbi").touch()
    output.announce_compiling()
    assert capsys.readouterr().err == ""
