"""The console entry: exit codes, start-up, listings, pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rlsched.cli import simulate
from rlsched.scenario import load, names
from rlsched.sim.priorities import PRIORITIES

from .conftest import Run

HEAVY = ("ray", "torch", "pandas", "pyarrow", "matplotlib")


def fresh(code: str) -> str:
    """What a new interpreter prints."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    ).stdout


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["scenarios"], ["simulate", "--scenario", "lublin-256", "--episodes", "1"]],
)
def test_a_quick_command_loads_nothing_heavy(arguments: list[str]) -> None:
    code = f"import sys; from rlsched.cli.main import main; code = main({arguments})"
    loaded = f"print('loaded', code, [name for name in {HEAVY} if name in sys.modules])"
    assert "loaded 0 []" in fresh(f"{code}; {loaded}")


def test_help_lists_the_commands() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "rlsched", "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for command in ("simulate", "evaluate", "scenarios", "policies", "objectives", "algorithms", "bench"):
        assert command in printed


def test_every_command_teaches_with_an_example(rlsched: Run) -> None:
    commands = (["simulate"], ["evaluate"], ["scenarios"], ["scenarios", "show"], ["policies"])
    for command in (*commands, ["objectives"], ["algorithms"], ["bench", "core"]):
        ran = rlsched(*command, "--help")
        assert ran.code == 0
        assert "Example: rlsched" in ran.out


def test_without_a_command_it_helps(rlsched: Run) -> None:
    ran = rlsched()
    assert (ran.code, ran.err) == (0, "")
    assert "simulate" in ran.out
    assert rlsched("--version").out.startswith("rlsched ")


def test_failures_are_one_line_and_a_traceback_on_demand(
    rlsched: Run, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the disk\nis full")

    monkeypatch.setattr(simulate.options, "choice", fail)
    ran = rlsched("simulate", "--trace", trace)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "failed: RuntimeError: the disk is full (--debug shows where)\n"
    assert "Traceback" in rlsched("simulate", "--trace", trace, "--debug").err
    monkeypatch.setenv("RLSCHED_DEBUG", "1")
    assert "Traceback" in rlsched("simulate", "--trace", trace).err


def test_an_interrupt_in_process(rlsched: Run, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate.options, "choice", interrupt)
    ran = rlsched("simulate", "--trace", trace)
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_interrupt_too(
    number: signal.Signals, rlsched: Run, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate.options, "choice", lambda *_, **__: signal.raise_signal(number))
    before = signal.signal(number, lambda *_: None)  # else it ends all tests where nobody answers it
    try:
        ran = rlsched("simulate", "--trace", trace)
    finally:
        signal.signal(number, before)
    assert (ran.code, ran.out, ran.err) == (130, "", "interrupted\n")


def test_an_interrupt_in_code_of_a_string_has_its_exit_code(tmp_path: Path) -> None:
    """As dataclasses have, which imports make: `python -m` would die by SIGINT."""
    (tmp_path / "command.py").write_text("""import sys; from rlsched.cli import main
main.execute = lambda _: exec("raise KeyboardInterrupt")
sys.exit(main.main([]))""")
    command = [sys.executable, "-m", "command"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


@pytest.mark.slow
def test_an_interrupt_writes_nothing(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, "-m", "rlsched", "simulate", "--scenario", "lublin-256"]
    with subprocess.Popen(
        [*command, "--episodes", "100000", "--json", str(figures)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(6)  # at its work, also on a machine that is slow
        process.send_signal(signal.SIGINT)
        _, line = process.communicate(timeout=60)
    assert process.returncode == 130
    assert line == "interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_goes_away(trace: Path) -> None:
    command = f"{sys.executable} -m rlsched simulate --trace {trace} --json - 2>&1 | true"
    assert subprocess.run(["bash", "-c", command], capture_output=True, timeout=60).stdout == b""
    remaining = command.replace("2>&1 | true", "| true").replace("| true", "2> >(cat >&2) | true")
    line = subprocess.run(["bash", "-c", remaining], capture_output=True, text=True, timeout=60).stderr
    assert "Traceback" not in line
    assert "BrokenPipe" not in line


def test_listings(rlsched: Run) -> None:
    for command, key in (("scenarios", "name"), ("policies", "name"), ("algorithms", "name")):
        ran = rlsched(command)
        listed = rlsched(command, "--json", "-").json
        assert listed["schema"] == 1
        for row in listed[command]:
            assert row[key] in ran.out
    assert [row["name"] for row in rlsched("scenarios", "--json", "-").json["scenarios"]] == names()
    assert [row["name"] for row in rlsched("policies", "--json", "-").json["policies"]] == list(PRIORITIES)
    assert "ppo" in rlsched("algorithms").out


def test_objectives_say_formula_unit_and_source(rlsched: Run) -> None:
    listed = rlsched("objectives", "--json", "-").json
    for term in listed["terms"]:
        assert all(term[key] for key in ("name", "formula", "unit", "source"))
    assert {preset["name"] for preset in listed["objectives"]} >= {"slowdown", "makespan"}
    assert "Feitelson" in rlsched("objectives").out


@pytest.mark.parametrize("name", names())
def test_a_shown_scenario_reads_as_itself(rlsched: Run, tmp_path: Path, name: str) -> None:
    printed = rlsched("scenarios", "show", name).out
    copy = tmp_path / "copy.yaml"
    copy.write_text(printed)
    assert load(copy) == load(name)
    changed = rlsched("scenarios", "show", copy, "--set", "cluster.resources.0.units=7").out
    assert yaml.safe_load(changed)["cluster"]["resources"][0]["units"] == 7


@pytest.mark.parametrize("group", ["dataset", "tune"])
def test_a_group_without_a_command_shows_its_help(rlsched: Run, group: str) -> None:
    match = rlsched(group)
    assert (match.code, match.err) == (2, "")
    assert "Commands" in match.out
