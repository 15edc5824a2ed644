"""`rlsched evaluate --gate`: policies that are behind stand back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlsched.cli.evaluate import STANDS_BACK
from tests.gated import EPISODE, JOBS, export_by_length, write_site

from .conftest import Run
from .contract import check_contract

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
    given = ("--trace", site, "--offsets", ROWS, "--jobs", EPISODE, "--gate", "--json", "-")
    ran = rlsched("evaluate", good, *given)
    assert ran.code == 0, ran.err
    check_contract(ran.json)
    (told,) = ran.json["gate"]
    assert (told["policy"], told["passes"], told["against"]) == (str(good), True, "level")
    assert (told["episodes"], told["difference"]) == (5, 0.0)
    assert f"\n{good} passes the gate: level with area + conservative in bounded slowdown: " in ran.err

    file = tmp_path / "figures.json"
    ran = rlsched("evaluate", bad, good, *given[:-1], file)
    assert (ran.code, STANDS_BACK) == (3, 3)
    told = {one["policy"]: one for one in json.loads(file.read_text())["gate"]}
    assert (told[str(bad)]["passes"], told[str(good)]["passes"]) == (False, True)
    (line,) = [line for line in ran.out.splitlines() if line.startswith(str(bad)) and "stands back" in line]
    assert "stands back: worse than area + conservative in bounded slowdown: " in line
    assert line.endswith("; let area + conservative act instead")


def test_without_a_gate_nothing_is_judged(rlsched: Run, site: Path, bad: Path) -> None:
    ran = rlsched("evaluate", bad, "--trace", site, "--offsets", "0", "--jobs", EPISODE, "--json", "-")
    assert ran.code == 0
    assert "gate" not in ran.json


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--offsets", "0,20,40"), "error: --gate: 3 different episodes: too few for an interval; play at"),
        (("-n", 20, "--jobs", JOBS // 5), "error: --gate: 1 different episode: too few for an interval; "),
    ],
)
def test_too_few_episodes_are_refused(
    rlsched: Run, site: Path, good: Path, more: tuple[object, ...], said: str
) -> None:
    ran = rlsched("evaluate", good, "--trace", site, "--jobs", EPISODE, *more, "--gate")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(said)


def test_a_gate_wants_a_heuristic(rlsched: Run, good: Path, bad: Path) -> None:
    """With a horizon greedy sjf runs only where hoarding is looked for."""
    ended = ("--scenario", "green-10", "--against", str(bad), "-n", 5)
    ran = rlsched("evaluate", good, *ended, "--gate")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("error: --gate: no heuristic is in the comparison; name one with --against")
