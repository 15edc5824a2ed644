"""What is said to people beside the results."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import rlsched
from rlsched.cli import output
from rlsched.cli.main import main
from rlsched.cli.tables import plain_table
from rlsched.cli.watch import ProgressBar


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


def test_commands_have_a_home_before_anything_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray Tune asks for it while it is imported, matplotlib and the compiled code soon after."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "none"))
    assert main(["policies", "--json", str(tmp_path / "p.json")]) == 0
    assert os.environ["HOME"] == str(tmp_path / f"rlsched-{os.getuid()}")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_bar_keeps_its_share_and_its_time_however_long_its_text(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    bar = ProgressBar()
    bar.progress.update(bar.task, completed=0.42, text="best so far " + "x" * 300)
    with bar.console.capture() as printed:
        bar.console.print(bar.progress.get_renderable())
    (line,) = printed.get().splitlines()
    assert "42%" in line
    assert "best so far" in line
    assert line.rstrip().endswith("0:00:00")


def test_control_characters_of_files_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = plain_table(["\x1b[3m"])
    table.add_row("\x07")
    table.add_row("\udcff")
    console = output.console()
    console.print(table)
    console.print("Computer \x1b]0;owned\x07 \u202e x")
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(printed)
    printed = "".join(printed.split())
    for text in ("\\x1b[3m", "\\x07", "\\udcff", "Computer\\x1b]0;owned\\x07\\u202ex"):
        assert text in printed
