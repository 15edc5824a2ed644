"""`--gate` of `rlsched evaluate`, `serve` and `advise slurm`: policies that are behind fail it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlsched.cli.evaluate import FAILS_GATE
from tests.gated import EPISODE, JOBS, export_by_length, write_site

from .conftest import Run
from .contract import check_contract
from .slurm_policy import NOW, SINFO, SQUEUE

ROWS = ",".join(str(JOBS - EPISODE * k) for k in range(5, 0, -1))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("site") / "site.swf")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_by_length(tmp_path_factory.mktemp("policies") / "good", longest=False)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_by_length(tmp_path_factory.mktemp("policies") / "bad", longest=True)


def test_evaluate_says_who_passes_and_ends_accordingly(
    rlsched: Run, site: Path, good: Path, bad: Path, tmp_path: Path
) -> None:
    arguments = ("--trace", site, "--offsets", ROWS, "--jobs", EPISODE, "--gate", "--json", "-")
    ran = rlsched("evaluate", good, *arguments)
    assert ran.code == 0, ran.err
    check_contract(ran.json)
    (values,) = ran.json["gate"]
    assert (values["policy"], values["passes"], values["against"]) == (str(good), True, "level")
    assert (values["episodes"], values["difference"]) == (5, 0.0)
    assert f"\n{good} passes the gate: level with area + conservative in bounded slowdown: " in ran.err

    file = tmp_path / "figures.json"
    ran = rlsched("evaluate", bad, good, *arguments[:-1], file)
    assert (ran.code, FAILS_GATE) == (3, 3)
    values = {verdict["policy"]: verdict for verdict in json.loads(file.read_text())["gate"]}
    assert (values[str(bad)]["passes"], values[str(good)]["passes"]) == (False, True)
    (line,) = [
        line for line in ran.out.splitlines() if line.startswith(str(bad)) and "fails the gate" in line
    ]
    assert "fails the gate: worse than area + conservative in bounded slowdown: " in line
    assert line.endswith("; use area + conservative instead")


def test_without_a_gate_there_is_no_verdict(rlsched: Run, site: Path, bad: Path) -> None:
    ran = rlsched("evaluate", bad, "--trace", site, "--offsets", "0", "--jobs", EPISODE, "--json", "-")
    assert ran.code == 0
    assert "gate" not in ran.json


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--offsets", "0,20,40"), "error: --gate: 3 different episodes: too few for an interval; play at"),
        (("-n", 20, "--jobs", JOBS // 5), "error: --gate: 1 different episode: too few for an interval; "),
    ],
)
def test_too_few_episodes_are_refused(
    rlsched: Run, site: Path, good: Path, more: tuple[object, ...], line: str
) -> None:
    ran = rlsched("evaluate", good, "--trace", site, "--jobs", EPISODE, *more, "--gate")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(line)


def test_a_gate_wants_a_heuristic(rlsched: Run, good: Path, bad: Path) -> None:
    """With a horizon greedy sjf runs only where hoarding is looked for."""
    ended = ("--scenario", "green-10", "--against", str(bad), "-n", 5)
    ran = rlsched("evaluate", good, *ended, "--gate")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("error: --gate: no heuristic is in the comparison; name one with --against")


def test_advice_is_the_heuristics_where_the_policy_stands_back(
    rlsched: Run, site: Path, good: Path, bad: Path
) -> None:
    def advice(*words: object) -> dict[str, object]:
        slurm = ("--squeue", SQUEUE, "--sinfo", SINFO, "--at", NOW, "--json", "-")
        advised: dict[str, object] = rlsched("advise", "slurm", *words, *slurm).json
        return advised

    values = advice(bad, "--gate", site)
    assert values["decided_by"] == "fallback"
    assert isinstance(values["fallback"], dict)
    assert (values["decisions"], values["fallback"]["name"]) == (values["fallback"]["decisions"], "area:easy")
    (note,) = [note for note in values["notes"] if "fails the gate" in note]
    assert note.startswith(
        "the policy fails the gate on site.swf: worse than area + conservative in bounded "
    )
    assert note.endswith("; area:easy decides, and the policy is its shadow")
    values = advice(bad, "--gate", site, "--fallback", "fcfs:easy")
    assert isinstance(values["fallback"], dict)
    assert (values["decided_by"], values["fallback"]["name"]) == ("fallback", "fcfs:easy")
    values = advice(good, "--gate", site)
    assert values["decided_by"] == "policy"
    (note,) = [note for note in values["notes"] if "passes" in note]
    assert note.startswith("the policy passes the gate on site.swf: level with area + conservative ")
    assert not [note for note in advice(bad)["notes"] if "gate" in note or "fails the gate" in note]


def test_gates_that_mean_nothing(rlsched: Run, site: Path, good: Path, tmp_path: Path) -> None:
    slurm = ("--squeue", SQUEUE, "--sinfo", SINFO)
    (tmp_path / "sizeless.swf").write_text("1 0 -1 60 1 -1 -1 1 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n" * 3)
    for words, line in (
        (("serve", good, "--gate", tmp_path / "none.swf"), "error: --gate: cannot read "),
        (("serve", good, "--gate", site, "--set", "gate.jobs=40"), "error: --gate: 3 different episodes: "),
        (("serve", good, "--gate", site, "--set", "gate.episodes=0"), "error: --set: gate.episodes: value 0"),
        (("serve", good, "--set", "gate.jobs=40"), "error: --set: gate.trace: "),
        (("advise", "slurm", good, "--gate", tmp_path / "none.swf", *slurm), "error: --gate: cannot read "),
        (("advise", "slurm", "--url", "http://127.0.0.1:1", "--gate", site, *slurm), "error: --gate: value "),
        (
            ("advise", "slurm", good, "--gate", tmp_path / "sizeless.swf", *slurm),
            f"error: --gate: {tmp_path / 'sizeless.swf'}: ",
        ),
    ):
        ran = rlsched(*words)
        assert (ran.code, ran.out) == (2, ""), ran
        last = ran.err.splitlines()[-1]
        assert last.startswith(line), last
