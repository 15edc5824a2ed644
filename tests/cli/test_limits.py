"""`rlsched train --limit`: amounts, and shares of what is paid where nobody keeps any."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.cli.limits import Share, parse_limits
from rlsched.cli.main import main
from rlsched.errors import BadInputError
from rlsched.learn.folder import RunFolder
from rlsched.learn.limits import UNCONSTRAINED, costs_of, with_limits, without_limits
from rlsched.learn.session import ray_session

from .conftest import Run

SHORT = ("--set", "episode.max_ticks=40")
LITTLE = (
    "sampling.envs_per_runner=8",
    "sampling.fragment=32",
    "cocorl.minibatch=64",
    "validation.episodes=2",
)
TRAIN = ("train", "--algo", "cocorl", "--scenario", "green-10", "--steps", "512", *SHORT)
TRAIN += tuple(word for setting in (*LITTLE, "validation.every=1") for word in ("--set", setting))


def test_amounts_and_shares() -> None:
    plain = scenario.load("green-10")
    limited = with_limits(plain, {"delayed_jobs": None, "suspension": 3.0})
    assert parse_limits(["delayed_jobs=7000"], plain) == {"delayed_jobs": 7000.0}
    assert parse_limits(["delayed_jobs=0", "rejected=auto:0.5"], plain) == {
        "delayed_jobs": 0.0,
        "rejected": Share(0.5),
    }
    assert parse_limits(["auto:0.6"], limited) == dict.fromkeys(("delayed_jobs", "suspension"), Share(0.6))


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (["delayd_jobs=1"], "--limit: unknown cost 'delayd_jobs'; did you mean 'delayed_jobs'?"),
        (["delayed_jobs"], "--limit: 'delayed_jobs' names no cost, and the scenario has none; write"),
        (["auto:0.5"], "--limit: 'auto:0.5' names no cost, and the scenario has none; write"),
        (["delayed_jobs=x"], "--limit: 'delayed_jobs=x': 'x' is no amount"),
        (["delayed_jobs=-1"], "--limit: 'delayed_jobs=-1': '-1' is no amount"),
        (["delayed_jobs=nan"], "--limit: 'delayed_jobs=nan': 'nan' is no amount"),
        (["delayed_jobs=auto"], "--limit: 'delayed_jobs=auto': 'auto' is no amount"),
        (["delayed_jobs=1", "delayed_jobs=2"], "--limit: 'delayed_jobs' is given twice; give each once"),
    ],
)
def test_what_is_no_limit(texts: list[str], line: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_limits(texts, scenario.load("green-10"))
    assert str(caught.value).startswith(line)


def test_costs_that_are_not_counted_there_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"--limit: objective.costs.delayed_jobs: is counted only with"):
        with_limits(scenario.load("lublin-256"), {"delayed_jobs": 1.0})


def test_who_needs_a_limit_says_so(rlsched: Run, tmp_path: Path) -> None:
    found = rlsched(*TRAIN, "--out", tmp_path / "run")
    assert found.code == 2
    assert found.err.startswith("error: objective.costs: has no cost with a limit, which cocorl keeps")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_share_is_of_what_is_paid_without_limits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy is trained for it beside the run, once, and may be named for others."""
    out, other = tmp_path / "run", tmp_path / "other"
    with ray_session(None):
        assert main([*TRAIN, "--limit", "delayed_jobs=auto:0.5", "--out", str(out)]) == 0
        reference = out / UNCONSTRAINED
        words = ["--limit", "delayed_jobs=auto:0.25", "--unconstrained", str(reference), "--out", str(other)]
        assert main([*TRAIN, *words]) == 0
    had, free = RunFolder(reference).read()
    assert free.algo == "ppo"
    assert had.objective.costs == {"delayed_jobs": None}
    simulated, config = RunFolder(out).read()
    assert config.algo == "cocorl"
    assert free.model_copy(update={"network": config.network}) == without_limits(config)
    (paid,) = costs_of(simulated, config, reference, ["delayed_jobs"]).values()
    assert paid > 0
    assert simulated.objective.limits == {"delayed_jobs": pytest.approx(0.5 * paid)}
    assert RunFolder(other).read()[0].objective.limits == {"delayed_jobs": pytest.approx(0.25 * paid)}
    assert not (other / UNCONSTRAINED).exists()
    rows = RunFolder(out).rows()
    assert all(row["validation_limited.delayed_jobs"] for row in rows)
    capsys.readouterr()
    assert main([*TRAIN, "--limit", "delayed_jobs=auto:0.5", "--out", str(out)]) == 2
    assert "holds a run already" in capsys.readouterr().err
