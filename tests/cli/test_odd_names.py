"""Names of files that look like markup, or are too long."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from rlsched import scenario
from rlsched.cli import output

from ..priorities import priority_policy
from .conftest import Run

NAME = "[red]x[/red] [/]"
LONG = "n" * 260


@pytest.fixture(autouse=True)
def _existing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(NAME).mkdir(parents=True)


def test_traces(rlsched: Run, trace: Path) -> None:
    part = f"{NAME}/:fire:.swf"
    ran = rlsched("trace", "cut", trace, "--jobs", 50, "--out", part)
    assert (ran.code, ran.out) == (0, f"written      {part}: 50 jobs, rows 0 to 49\n")
    assert f"rlsched workload describe --trace '{part}'" in rlsched("trace", "info", part).out
    ran = rlsched("simulate", "--trace", part, "--policy", "fcfs", "--set", "episode.jobs=null")
    assert ran.code == 0, ran.err


def test_an_import_of_sacct(rlsched: Run) -> None:
    listed = Path(NAME) / "sacct.txt"
    listed.write_text(
        "JobID|User|Partition|State|Submit|Start|End|ElapsedRaw|AllocCPUS\n1|a|b|COMPLETED|1|2|9|7|4\n"
    )
    ran = rlsched("trace", "import", "sacct", listed, "--out", f"{NAME}/site.swf")
    assert ran.code == 0, ran.err
    assert f"written      {NAME}/site.swf\n" in ran.out


def test_datasets(rlsched: Run) -> None:
    out = f"{NAME}/data"
    words = ("collect", "--scenario", "green-10", "--policy", "sjf", "--steps", 50, "--out", out)
    ran = rlsched(*words, "--set", "episode.max_ticks=20")
    assert ran.code == 0, ran.err
    assert f"dataset      {out} (" in ran.out
    assert rlsched("dataset", "info", out).code == 0
    ran = rlsched("dataset", "mix", out, "--out", f"{NAME}/more", "--steps", 20)
    assert f"dataset      {NAME}/more (" in ran.out
    ran = rlsched("dataset", "check", out)
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.slow
def test_policies(rlsched: Run) -> None:
    run = f"{NAME}/run"
    small = scenario.load(
        "lublin-256", ["decision.window=8", "observation.blocks=[jobs, queue]", "episode.jobs=30"]
    )
    priority_policy(small, {"requested": -1.0}, noop=-1.0).save(Path(run))
    ran = rlsched("export", run, f"{NAME}/policy")
    assert ran.code == 0, ran.err
    assert f"exported     {run} to {NAME}/policy: " in ran.out
    ran = rlsched("evaluate", run, "--against", "fcfs:easy", "--episodes", 1)
    assert ran.code == 0, ran.err
    assert run in ran.out


def test_what_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; elsewhere nothing is shown of it."""
    printed = io.StringIO()
    terminal = Console(file=printed, force_terminal=True, width=100)
    monkeypatch.setattr(output, "console", lambda *, stderr: terminal)
    with output.busy(f"reading {NAME}"):
        pass
    assert f"reading {NAME}" in printed.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "--scenario", "lublin-256", "--json", LONG),
        ("simulate", "--scenario", "lublin-256", "--report", LONG),
        ("simulate", "--trace", LONG),
        ("scenarios", "--json", LONG),
        ("train", "--scenario", "lublin-256", "--out", LONG),
        ("evaluate", LONG),
        ("export", LONG, "policy"),
        ("collect", "--scenario", "green-10", "--policy", "sjf", "--out", LONG),
        ("dataset", "info", LONG),
        ("trace", "import", "sacct", "/dev/null", "--out", LONG),
        ("tune", LONG),
    ],
)
def test_a_name_that_is_too_long(rlsched: Run, words: tuple[str, ...]) -> None:
    ran = rlsched(*words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
    assert LONG in ran.err
    assert "too long" in ran.err
    assert [path.name for path in Path().iterdir()] == [NAME.partition("/")[0]]


@pytest.mark.parametrize("name", ["n" * 255, "é" * 127])
def test_a_name_as_long_as_names_may_be(rlsched: Run, name: str) -> None:
    assert rlsched("scenarios", "--json", name).code == 0
    assert Path(name).is_file()
