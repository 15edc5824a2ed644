"""Training runs, small but whole: the folder, going on after a kill or Ctrl-C, remote runners, evaluation.

At the beginning two runs in processes of their own are ended, one by a kill and one by Ctrl-C. All others,
and these two when they go on, train in this process, in one Ray session.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
import yaml
from ray.rllib.core.rl_module.rl_module import RLModule

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.learn.config.training import read_config
from rlsched.learn.engine import Progress
from rlsched.learn.folder import RunFolder
from rlsched.learn.pid import LimitCheck
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib import engine as rllib
from tests.learn.training_runs import (
    Stopped,
    alive,
    check_unbroken,
    children,
    command,
    learned,
    limit_of,
    rows,
    standing,
    start,
    stop,
)

from .conftest import SMALL
from .test_sampled_play import STEPS, play_drawing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def stopped(folders: Path) -> Iterator[dict[str, Stopped]]:
    """Two runs side by side, one killed and one interrupted; whatever is left of them is ended."""
    killed, interrupted = folders / "killed", folders / "interrupted"
    first, second = start(killed), start(interrupted)
    ended: dict[str, Stopped] = {}
    try:
        ended |= {
            "killed": stop(first, killed, (killed / "checkpoints" / "000002").is_dir, first.kill),
            "interrupted": stop(
                second,
                interrupted,
                lambda: (interrupted / "metrics.csv").is_file() and len(rows(interrupted)) > 0,
                lambda: os.killpg(second.pid, signal.SIGINT),  # Ctrl-C reaches every process of a terminal
            ),
        }
        yield ended
    finally:
        for run in ended.values():  # Ray's processes notice a kill -9 only after a minute
            for pid in filter(alive, run.processes):
                os.kill(pid, signal.SIGKILL)
        for process in (first, second):
            if process.poll() is None:
                remaining = children(process.pid)
                process.kill()
                process.wait()
                for pid in filter(alive, remaining):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def run(folders: Path, ray_address: str) -> Path:
    """A run that was left alone: two iterations."""
    folder = folders / "run"
    assert main(command(folder, "--json", folders / "run.json")) == 0
    return folder


def test_a_run_leaves_its_whole_folder(run: Path, folders: Path) -> None:
    assert {path.name for path in run.iterdir()} == {
        *("scenario.yaml", "train.yaml", "versions.json", "inputs.json", "validation.json", "metrics.csv"),
        *("tensorboard", "checkpoints", "start", "best", "process.json"),
    }
    simulated, config = RunFolder(run).read()
    assert simulated == scenario.load("lublin-256", SMALL)
    same, written = read_config(run / "train.yaml")  # so it trains the same problem again
    assert (same, written.resolve(same)) == (simulated, config)
    assert (config.steps, config.ppo.minibatch) == (512, 64)
    assert yaml.safe_load((run / "train.yaml").read_text())["sampling"]["fragment"] == 32
    actual = check_unbroken(run)
    assert len(actual) == 2
    for row in actual:
        for name in ("policy_loss", "vf_loss", "entropy", "validation_bounded_slowdown", "validation_wait"):
            assert row[name] != "", name
    assert {path.name for path in (run / "checkpoints").iterdir()} == {"000001", "000002"}
    last = standing(run)
    assert (last.iteration, last.steps) == (2, int(actual[-1]["steps"]))
    assert list((run / "tensorboard").glob("events.*"))
    for checkpoint in (run / "checkpoints").iterdir():
        assert load_policy(checkpoint).scenario == simulated.public
    summary = json.loads((folders / "run.json").read_text())
    assert (summary["schema"], summary["reason"]) == (1, "steps")
    assert (summary["steps"], summary["iterations"]) == (last.steps, 2)
    assert summary["scenario"] == simulated.model_dump(mode="json")
    reported = json.loads((run / "validation.json").read_text())["heuristics"]
    best = min(reported, key=lambda name: reported[name]["bounded_slowdown"])
    assert summary["best_heuristic"] == {
        **dict(zip(("policy", "backfill"), best.split(":"), strict=True)),
        "value": reported[best]["bounded_slowdown"],
    }
    assert summary["best"] == last.best_metric
    assert summary["before_training"] == float(rows(run)[0]["validation_bounded_slowdown"])
    assert summary["within_hoarding_limits"] == (last.best_excess == 0)
    for name, reported in summary["limits"].items():
        assert (
            reported["paid"]
            == last.best_checks[name].mean
            < last.best_checks[name].highest
            == reported["highest"]
        )
    about = load_policy(run).about
    assert about["validation"]["bounded_slowdown"] == pytest.approx(last.best_metric)
    assert about["validation"]["relative"] == pytest.approx(last.best_value)


def test_training_changes_the_policy_that_is_saved(run: Path) -> None:
    first, second = (
        load_policy(run / "checkpoints" / name).net.state_dict() for name in ("000001", "000002")
    )
    assert any(not torch.equal(first[name], second[name]) for name in first)
    assert all(torch.isfinite(value).all() for value in second.values())


NOOP_BIAS = "other_actions.0.2.bias"


def check_average(before: Path, after: Path, retained: float = 0.8) -> None:
    """The policy in a checkpoint is the average of the one before and of what was learned since.

    Calibration moves the bias of the no-op in both.
    """
    old, newest, actual = (
        load_policy(before).net.state_dict(),
        learned(after),
        load_policy(after).net.state_dict(),
    )
    assert actual.keys() == newest.keys()
    for name, value in actual.items():
        moved = value - (retained * old[name] + (1 - retained) * newest[name])
        if name == NOOP_BIAS:
            assert abs(float(moved)) * 6.0 / retained <= 1.31, "logits are six times the bias"
        else:
            torch.testing.assert_close(moved, torch.zeros_like(moved))
    assert any(not torch.equal(actual[name], newest[name]) for name in actual)


def test_the_policy_is_an_average_of_what_was_learned(run: Path) -> None:
    check_average(run / "start", run / "checkpoints" / "000001")
    check_average(run / "checkpoints" / "000001", run / "checkpoints" / "000002")


def test_a_trained_policy_never_draws_what_is_illegal(run: Path) -> None:
    policy = load_policy(run / "checkpoints" / "000002")
    simulated = scenario.parse(policy.scenario.model_dump(mode="json"), "test", ["episode.jobs=128"])
    counting = play_drawing(policy, simulated, STEPS)
    assert counting.steps >= STEPS
    assert counting.illegal == 0


def test_a_run_is_never_written_over(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run / "metrics.csv").read_bytes()
    assert main(command(run)) == 2
    assert "holds a run already; add --resume" in capsys.readouterr().err.splitlines()[-1]
    assert (run / "metrics.csv").read_bytes() == before


def test_a_refusal_is_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(command(run)) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "ppo.epochs=3"], "cannot change ppo.epochs; only steps and minutes may change"),
        (["--set", "episode.jobs=3"], "cannot change episode.jobs"),
        (["--seed", "4"], "cannot change seed"),
        (["--algo", "pppo"], "--algo: unknown algorithm 'pppo'; did you mean 'ppo'?"),
        (["--minutes", "0"], "--minutes: minutes: value 0"),
        (["--scenario", "lublin-256"], "uses the settings of its run"),
        (["--set", "steps=none"], "steps: value 'none'"),
    ],
)
def test_a_run_resumes_with_its_settings(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    capsys.readouterr()
    assert main(["train", "--resume", "--out", str(run), *arguments]) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: --")
    assert line.count("\n") == 1
    assert message in line


def test_a_run_of_an_older_version_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They wrote initial weights of networks into their settings, and no teacher as null."""
    older = tmp_path / "older"
    shutil.copytree(run, older)
    values = yaml.safe_load((older / "train.yaml").read_text())
    values["network"] |= {"prior": {}, "gain": 6.0}
    (older / "train.yaml").write_text(yaml.safe_dump(values | {"warm_start": None}))
    capsys.readouterr()
    assert main(["train", "--resume", "--out", str(older)]) == 2
    assert capsys.readouterr().err == f"error: {older}: is a run of an older version; begin another run\n"


def test_the_policy_is_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = [str(run), "--episodes", "2", "--against", "sjf,area", "--json", "-"]
    assert main(["evaluate", *arguments]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {episode["policy"] for episode in values["episodes"]} == {str(run), "sjf", "area"}
    assert len(values["episodes"]) == 6
    assert main(["evaluate", *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == values["episodes"]


@pytest.mark.long
def test_a_killed_run_goes_on_from_its_last_checkpoint(stopped: dict[str, Stopped], ray_address: str) -> None:
    killed = stopped["killed"]
    assert killed.code == -signal.SIGKILL
    folder = killed.folder
    before = standing(folder)
    settings = {name: (folder / name).read_bytes() for name in ("scenario.yaml", "train.yaml")}
    # What the kill may leave behind, too: a row after the checkpoint, and half a checkpoint.
    remaining = rows(folder)[1 : before.iteration + 1]
    with (folder / "metrics.csv").open("a") as file:
        file.write(f"{before.iteration + 1},99999,1.5,")
    half = folder / "checkpoints" / f".{before.iteration + 1:06d}.new"
    (half / "rllib").mkdir(parents=True, exist_ok=True)
    steps = before.steps + 512  # two iterations
    assert main(["train", "--resume", "--out", str(folder), "--steps", str(steps)]) == 0
    last = before.iteration + 2
    check_average(folder / "checkpoints" / f"{last - 1:06d}", folder / "checkpoints" / f"{last:06d}")
    actual = check_unbroken(folder)
    assert len(actual) == before.iteration + 2
    assert actual[: before.iteration] == remaining
    after = standing(folder)
    assert (after.iteration, after.steps) == (len(actual), int(actual[-1]["steps"]))
    assert after.steps >= steps
    assert (folder / "scenario.yaml").read_bytes() == settings["scenario.yaml"]
    saved = yaml.safe_load(settings["train.yaml"])
    assert yaml.safe_load((folder / "train.yaml").read_text()) == saved | {"steps": steps}
    assert not list((folder / "checkpoints").glob(".*"))


@pytest.mark.long
def test_ctrl_c_saves_and_the_run_goes_on(stopped: dict[str, Stopped], ray_address: str) -> None:
    interrupted = stopped["interrupted"]
    assert interrupted.code == 130, interrupted.err
    assert interrupted.err.endswith("interrupted\n")
    assert "Traceback" not in interrupted.err
    assert "stopping after this iteration" in interrupted.err
    assert "stopped: interrupted" in interrupted.out
    assert f"rlsched train --resume --out {interrupted.folder}" in interrupted.out.replace("\n", "")
    actual = check_unbroken(interrupted.folder)
    before = standing(interrupted.folder)
    assert (before.iteration, before.steps) == (len(actual), int(actual[-1]["steps"]))
    steps = before.steps + 256
    assert main(["train", "--resume", "--out", str(interrupted.folder), "--steps", str(steps)]) == 0
    again = check_unbroken(interrupted.folder)
    assert again[: len(actual)] == actual
    assert len(again) == len(actual) + 1


def test_a_run_that_was_long_enough_just_ends(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    assert main(["train", "--resume", "--out", str(copy)]) == 0
    assert rows(copy) == rows(run)


@pytest.mark.long
def test_remote_runners_train_the_same_kind_of_policy(run: Path, folders: Path) -> None:
    folder = folders / "runners"
    assert main(command(folder, "--set", "sampling.runners=1", steps=256)) == 0
    assert len(check_unbroken(folder)) == 1
    remote, local = load_policy(folder), load_policy(run)
    assert remote.scenario == local.scenario
    assert remote.network == local.network
    shapes = [
        {name: value.shape for name, value in policy.net.state_dict().items()} for policy in (remote, local)
    ]
    assert shapes[0] == shapes[1]
    assert remote.layout == local.layout
    spaces = [space_of(path) for path in (folder, run)]
    assert spaces[0] == spaces[1]


def space_of(folder: Path) -> tuple[object, object]:
    """Observation and action space of the module in the last checkpoint."""
    latest = RunFolder(folder).latest()
    assert latest is not None
    path = latest[0] / "rllib" / "learner_group" / "learner" / "rl_module" / "default_policy"
    module = RLModule.from_checkpoint(path)
    return module.observation_space, module.action_space


def test_what_validation_says_of_limits_goes_into_the_next_iteration(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a run that goes on, which goes no more than a tenth beyond its steps."""
    handed: list[Mapping[str, LimitCheck]] = []
    iterate = rllib.RllibEngine.iterate

    def iterated(
        engine: rllib.RllibEngine, fraction: float, checks: Mapping[str, LimitCheck], share: float
    ) -> Progress:
        handed.append(checks)
        return iterate(engine, fraction, checks, share)

    monkeypatch.setattr(rllib.RllibEngine, "iterate", iterated)
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    assert main(["train", "--resume", "--out", str(folder), "--set", "steps=900"]) == 0
    assert [int(row["steps"]) for row in rows(folder)] == [0, 256, 512, 712, 968]
    assert len(handed) == 2
    for row, checks in zip(rows(folder)[2:], handed, strict=False):
        assert set(checks) == {"wait_time", "makespan"}
        for name, check in checks.items():
            mean = float(row[f"validation_limited.{name}"])
            assert (check.limit, check.mean) == (limit_of(folder, name), mean)
            assert check.highest == pytest.approx(mean + float(row[f"validation_margin.{name}"]))
            assert check.highest > mean
