"""`rlsched train --limit`: amounts, and shares of what is paid where nobody keeps any."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.cli.limits import Share, parse_limits
from rlsched.cli.main import main
from rlsched.cli.watch import RichDisplay
from rlsched.errors import BadInputError
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.sections import Network
from rlsched.learn.folder import RunFolder
from rlsched.learn.limits import UNCONSTRAINED, costs_of, with_limits, without_limits
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.plan import plan
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.report.words import number
from rlsched.scenario import RelativeLimit
from rlsched.sim.layout import Layout

from .conftest import Run

SHORT = ("--set", "episode.max_ticks=40")
LITTLE = (
    "sampling.envs_per_runner=8",
    "sampling.fragment=32",
    "cocorl.fragment=32",
    "cocorl.minibatch=64",
    "validation.episodes=2",
    "warm_start.decisions=500",
)
TRAIN = ("train", "--algo", "cocorl", "--scenario", "green-10", "--steps", "512", *SHORT)
TRAIN += tuple(word for setting in (*LITTLE, "validation.every=1") for word in ("--set", setting))


def test_amounts_and_shares() -> None:
    plain = scenario.load("green-10")
    limited = with_limits(plain, {"delayed_jobs": None, "suspension": 3.0})
    assert parse_limits(["delayed_jobs=7000"], plain) == {"delayed_jobs": 7000.0}
    assert parse_limits(["delayed_jobs=1.6:sjf"], plain) == {"delayed_jobs": RelativeLimit(1.6, "sjf")}
    assert parse_limits(["delayed_jobs=0", "rejected=auto:0.5"], plain) == {
        "delayed_jobs": 0.0,
        "rejected": Share(0.5),
    }
    assert parse_limits(["auto:0.6"], limited) == dict.fromkeys(("delayed_jobs", "suspension"), Share(0.6))
    for texts in (["delayed_jobs=5", "auto:0.6"], ["auto:0.6", "delayed_jobs=5"]):
        assert parse_limits(texts, limited) == {"delayed_jobs": 5.0, "suspension": Share(0.6)}
    with pytest.raises(BadInputError, match=r"'auto:0.6' is for what has a limit already; give each once"):
        parse_limits(["auto:0.5", "auto:0.6"], limited)


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (["delayd_jobs=1"], "--limit: unknown cost 'delayd_jobs'; did you mean 'delayed_jobs'?"),
        (
            ["delayed_jobs"],
            "--limit: 'delayed_jobs' names no amount; write delayed_jobs=AMOUNT, ",
        ),
        (["auto:0.5"], "--limit: 'auto:0.5' names no cost, and the scenario has none; write"),
        (["delayed_jobs=x"], "--limit: 'delayed_jobs=x': 'x' is no amount"),
        (["delayed_jobs=-1"], "--limit: 'delayed_jobs=-1': '-1' is no amount"),
        (["delayed_jobs=nan"], "--limit: 'delayed_jobs=nan': 'nan' is no amount"),
        (
            ["delayed_jobs=auto:80%"],
            "--limit: 'delayed_jobs=auto:80%': '80%' is no share; write it as in auto:0.8",
        ),
        (["delayed_jobs=auto:1:sjf"], "--limit: 'delayed_jobs=auto:1:sjf': 'auto:1:sjf' is no amount"),
        (["delayed_jobs=auto"], "--limit: 'delayed_jobs=auto': 'auto' is no amount"),
        (["delayed_jobs=1", "delayed_jobs=2"], "--limit: 'delayed_jobs=2' is for what has a limit already"),
    ],
)
def test_what_is_no_limit(texts: list[str], line: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_limits(texts, scenario.load("green-10"))
    assert str(caught.value).startswith(line)


def test_long_waits_may_be_limited_without_a_horizon() -> None:
    plain = scenario.load("lublin-256", ["objective.costs={}"])
    limits = parse_limits(["job_starvation=0", "long_waits=1.2:sjf", "unused_capacity=9000"], plain)
    assert with_limits(plain, limits).objective.limits == {  # type: ignore[arg-type]
        "job_starvation": 0.0,
        "long_waits": RelativeLimit(1.2, "sjf"),
        "unused_capacity": 9000.0,
    }


def test_costs_that_are_not_counted_there_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"--limit: objective.costs.delayed_jobs: is counted only with"):
        with_limits(scenario.load("lublin-256"), {"delayed_jobs": 1.0})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["train", "--algo", "dqn", "--scenario", "green-10", "--limit", "delayed_jobs=7000"],
            "error: --limit: is not kept by dqn; use --algo ppo",
        ),
        (
            [*TRAIN, "--limit", "delayed_jobs=7000", "--unconstrained", "runs/some"],
            "error: --unconstrained: not supported without --limit auto",
        ),
        (
            [*TRAIN, "--limit", "delayed_jobs=auto:1", "--unconstrained", "runs/none"],
            "error: runs/none: holds no trained policy",
        ),
        (
            [*TRAIN, "--set", "objective.costs={delayed_jobs: -5}"],
            "error: --set: objective.costs.delayed_jobs: value -5",
        ),
        (
            [*TRAIN, "--set", "cocorl.fragment=24", "--limit", "delayed_jobs=7000"],
            "error: --set: sampling.fragment: value 32 is no multiple of cocorl.fragment 24",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(rlsched: Run, tmp_path: Path, words: list[str], line: str) -> None:
    ran = rlsched(*words, "--out", tmp_path / "run")
    assert (ran.code, ran.err.count("\n")) == (2, 1), ran.err
    assert ran.err.startswith(line)
    assert not (tmp_path / "run").exists()


def test_a_policy_that_sees_something_else_is_refused(rlsched: Run, tmp_path: Path) -> None:
    second = scenario.load("green-10", ["decision.window=7"])
    layout = Layout.of(second.observation, second.decision, 2)
    network = Network(kind="priority")
    NetworkPolicy(second, network, build_policy(layout, network), 2, {}).save(tmp_path / "other")
    words = ("--limit", "delayed_jobs=auto:0.5", "--unconstrained", tmp_path / "other")
    ran = rlsched(*TRAIN, *words, "--out", tmp_path / "run")
    assert ran.code == 2
    assert ran.err.startswith(f"error: --unconstrained: '{tmp_path}/other' was trained with another decision")


def test_who_needs_a_limit_says_so(rlsched: Run, tmp_path: Path) -> None:
    ran = rlsched(*TRAIN, "--out", tmp_path / "run")
    assert ran.code == 2
    assert ran.err.startswith("error: objective.costs: has no cost with a limit, which cocorl keeps")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
@pytest.mark.long
def test_a_share_is_of_the_cost_without_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A policy is trained for it beside the run, once, and may be named for others."""
    out, second = tmp_path / "run", tmp_path / "other"
    assert main([*TRAIN, "--limit", "delayed_jobs=auto:0.5", "--out", str(out)]) == 0
    reference = out / UNCONSTRAINED
    message = capsys.readouterr().out
    words = ["--limit", "delayed_jobs=auto:25", "--unconstrained", str(reference), "--out", str(second)]
    assert main([*TRAIN, *words, "--set", "episode.max_ticks=400"]) == 0
    said_then = capsys.readouterr().out
    assert (
        "delayed_jobs: its multiplier is still the initial one" in said_then
    )  # no episode has ended or is far beyond
    file = tmp_path / "figures.json"
    targets = ["--json", str(file), "--report", str(tmp_path / "page")]
    words = ["evaluate", str(out), str(reference), "--against", "sjf", "--episodes", "3"]
    assert main([*words, *targets]) == 0
    assert "Are limits kept?" in capsys.readouterr().out
    assert "Are limits kept?" in (tmp_path / "page" / "report.html").read_text()
    values = json.loads(file.read_text())
    (check,) = values["limits"]  # the other policy has none
    episodes = [episode for episode in values["episodes"] if episode["policy"] == str(out)]
    costs = [episode["metrics"]["cost.delayed_jobs"] for episode in episodes]
    assert (check["policy"], check["cost"], check["per"]) == (str(out), "delayed_jobs", "episode")
    assert list(check) == ["policy", "cost", "per", "limit", "paid", "low", "high", "seeds_above", "kept"]
    assert check["paid"] == pytest.approx(sum(costs) / 3)
    assert check["low"] <= check["paid"] <= check["high"]
    assert check["limit"] == RunFolder(out).read()[0].objective.limits["delayed_jobs"]
    assert check["kept"] == (check["paid"] <= check["limit"])
    had, free = RunFolder(reference).read()
    assert free.algo == "ppo"
    assert had.objective.costs == {"delayed_jobs": None}
    simulated, config = RunFolder(out).read()
    assert config.algo == "cocorl"
    assert free.model_copy(update={"network": config.network}) == without_limits(config)
    planned = plan(simulated, config, RunFolder(tmp_path / "none"), resume=False)
    (cost,) = costs_of(planned, load_policy(reference), ["delayed_jobs"]).values()
    assert cost > 0
    assert simulated.objective.limits == {"delayed_jobs": pytest.approx(0.5 * cost)}
    assert RunFolder(second).read()[0].objective.limits["delayed_jobs"] > 0.25 * cost  # of longer episodes
    assert not (second / UNCONSTRAINED).exists()
    rows = RunFolder(out).rows()
    assert all(row["validation_limited.delayed_jobs"] for row in rows)
    assert "multiplier is still the initial one" not in message
    latest = RunFolder(out).latest()
    assert latest is not None
    check = latest[1].best_checks["delayed_jobs"]
    best, where = check.mean, check.verdict
    assert f"delayed_jobs: {number(best)} in validation, {where} its limit of {number(0.5 * cost)}" in message
    assert main([*TRAIN, "--limit", "delayed_jobs=auto:0.5", "--out", str(out)]) == 2
    assert "holds a run already" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("ray_address")
def test_who_was_stopped_before_the_run_began_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the same command; not with another scenario, nor other settings."""
    out = tmp_path / "run"
    words = [*TRAIN, "--limit", "delayed_jobs=auto:0.5", "--out", str(out)]
    reference = RunFolder(out / UNCONSTRAINED)

    class Stopping(RichDisplay):
        """Presses Ctrl-C as soon as something was learned."""

        def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
            super().update(row, standing)
            signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlsched.cli.watch.RichDisplay", Stopping)
        assert main(words) == 130
    assert "restart      with the same command" in capsys.readouterr().out
    stopped = reference.latest()
    assert stopped is not None
    assert stopped[1].steps < 512
    assert not (out / "train.yaml").exists()
    for second in (["--set", "workload.load=0.6"], ["--set", "cocorl.learning_rate=1e-4"]):
        assert main([*words, *second]) == 2
        assert "unconstrained: was trained with other settings" in capsys.readouterr().err
    assert reference.latest() == stopped
    assert main(words) == 0
    ended = reference.latest()
    assert ended is not None
    assert ended[1].steps >= 512
    assert [int(row["iteration"]) for row in reference.rows()] == list(range(ended[1].iteration + 1))
    assert RunFolder(out).read()[0].objective.limits
