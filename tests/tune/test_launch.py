"""Sweeps on Ray Tune: from the command line, killed and resumed, with a lost node, with too few resources."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from ray.cluster_utils import Cluster

from rlsched.cli.main import main
from rlsched.errors import BadInputError
from rlsched.files import Alone
from rlsched.learn.checkpoints import Standing
from rlsched.learn.folder import RunFolder
from rlsched.learn.rllib.session import ray_session
from rlsched.tune import launch
from rlsched.tune.folder import SweepFolder
from rlsched.tune.launch import run_sweep
from rlsched.tune.progress import Progress
from rlsched.tune.results import load_outcomes
from rlsched.tune.sweep import Sweep
from rlsched.tune.sweep_file import read_sweep
from rlsched.tune.trial import SilentDisplay, Trial

from .conftest import write

pytestmark = pytest.mark.slow


def ignore_progress(progress: Progress) -> None:
    """Do nothing."""


def iterations(folder: RunFolder) -> list[int]:
    return [int(row["iteration"]) for row in folder.rows()]


@pytest.mark.long
def test_from_file_to_report(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny["objectives"] = [{"metric": "job_value_ratio"}, {"metric": "ppo.learning_rate"}]
    path, out = write(tmp_path / "rates.yaml", tiny), tmp_path / "out"
    result = tmp_path / "result.json"
    assert main(["tune", str(path), "--out", str(out), "--json", str(result)]) == 0
    output = capsys.readouterr().out
    assert "all tried: 2 of 2 trials completed" in output
    assert f"rlsched train {out}/best.yaml" in output
    values = json.loads(result.read_text())
    assert [trial["whole"] for trial in values["trials"]] == [True, True]
    assert (values["reason"], values["failed"]) == ("all tried", {})
    table = pd.read_parquet(out / "results.parquet")
    assert sorted(zip(table["set.ppo.learning_rate"], table["seed"], strict=True)) == [
        (rate, seed) for rate in (0.0001, 0.001) for seed in (0, 1)
    ]
    assert (table["steps"] >= 4096).all()
    for trial in SweepFolder(out).trials():
        for seed in (0, 1):
            folder = trial.run_folder(seed)
            assert iterations(folder) == list(range(9))
            assert folder.read()[1].seed == seed
    page = (out / "report.html").read_text()
    assert "rates" not in page
    assert "ppo.learning_rate" in page
    assert page.count("data:image/png") == 2
    assert main(["tune", str(path), "--out", str(out)]) == 2
    assert "holds a sweep already; add --resume" in capsys.readouterr().err
    (out / "report.html").unlink()
    assert main(["tune", "show", str(out)]) == 0
    assert (out / "report.html").exists()
    assert main(["tune", "--resume", "--out", str(out), "--set", "steps=5"]) == 2
    tiny["seeds"] = [0]
    assert main(["tune", str(write(path, tiny)), "--resume", "--out", str(out)]) == 2
    assert "was started with other settings" in capsys.readouterr().err


@pytest.mark.long
def test_a_killed_and_resumed_sweep_has_the_same_result(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path
) -> None:
    tiny["base"]["steps"] = 8192
    tiny["base"]["validation"]["every"] = 4
    tiny["seeds"] = [3]
    # A resumed run samples other episodes, so nearly equal trials may change their order.
    tiny["objectives"] = [{"metric": "ppo.learning_rate", "mode": "max"}]
    path = write(tmp_path / "sweep.yaml", tiny)
    killed, whole = SweepFolder(tmp_path / "killed"), SweepFolder(tmp_path / "whole")
    process = subprocess.Popen(
        [sys.executable, "-m", "rlsched", "tune", str(path), "--out", str(killed.path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = []
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            runs = [trial.run_folder(3) for trial in killed.trials()]
            started = [run for run in runs if run.latest() is not None]
            if started:
                break
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert started, "nothing was trained"
    assert not any(trial.done for trial in killed.trials()), "too late"
    for out, more in ((killed.path, ["--resume"]), (whole.path, [])):
        assert main(["tune", str(path), "--out", str(out), *more]) == 0
    tables = [pd.read_parquet(folder.results) for folder in (killed, whole)]
    for table in tables:
        assert table["whole"].all()
        assert not table.duplicated(["trial", "seed"]).any()
    figures = ["trial", "rank", "front", "set.ppo.learning_rate", "seed", "steps"]
    pd.testing.assert_frame_equal(tables[0][figures], tables[1][figures])
    assert tables[0]["job_value_ratio"].to_numpy() == pytest.approx(tables[1]["job_value_ratio"], abs=0.02)
    for trial in killed.trials():
        assert iterations(trial.run_folder(3)) == list(range(17))


@pytest.mark.long
def test_worse_trials_are_stopped_early(tiny: dict[str, Any], ray_address: str, tmp_path: Path) -> None:
    tiny["seeds"] = [0]
    tiny["space"] = {"ppo.learning_rate": {"log_uniform": [1e-5, 1e-2]}}
    tiny["search"] = {"kind": "asha", "samples": 6, "reduction_factor": 2}
    tiny["parallel"] = 1
    tiny["objectives"] = [
        {"metric": "ppo.learning_rate", "mode": "max"}
    ]  # so that the better trials are known
    sweep = Sweep.model_validate(tiny)
    rates = [point["ppo.learning_rate"] for point in sweep.points()]
    assert any(rate < np.median(rates[:k]) for k, rate in enumerate(rates) if k)
    folder = SweepFolder(tmp_path / "sweep")
    ended = run_sweep(sweep, folder, ignore_progress, resume=False, address=None)
    assert (ended.reason, ended.errors) == ("all tried", {})
    assert ended.progress.done + ended.progress.stopped == 6
    assert ended.progress.done >= 1
    assert ended.progress.stopped >= 1
    assert folder.trial({"ppo.learning_rate": max(rates)}).done
    steps = sorted(
        int(rows[-1]["steps"]) for rows in (trial.run_folder(0).rows() for trial in folder.trials())
    )
    assert set(steps) <= {1024, 2048, 4096}
    assert sum(step == 4096 for step in steps) == ended.progress.done
    before = {trial.path.name: (trial.read_run(0), trial.read_rung(1024)) for trial in folder.trials()}
    again = run_sweep(sweep, folder, ignore_progress, resume=True, address=None)
    assert (again.progress.done, again.progress.stopped) == (ended.progress.done, ended.progress.stopped)
    assert {
        trial.path.name: (trial.read_run(0), trial.read_rung(1024)) for trial in folder.trials()
    } == before


@pytest.mark.long
def test_optuna_resumes_with_its_results(tiny: dict[str, Any], ray_address: str, tmp_path: Path) -> None:
    """Evaluations with two objectives; half of the points exist already."""
    tiny |= {"policy": "packing:now", "episodes": 2, "base": {"scenario": "green-10"}}
    tiny["space"] = {"workload.load": {"uniform": [0.4, 1.2]}, "decision.window": {"values": [2, 5]}}
    tiny["objectives"] = [{"metric": "job_value_ratio"}, {"metric": "workload.load", "mode": "max"}]
    tiny["search"] = {"kind": "optuna", "samples": 3}
    folder = SweepFolder(tmp_path / "sweep")
    first = run_sweep(Sweep.model_validate(tiny), folder, ignore_progress, resume=False, address=None)
    assert (first.progress.done, first.errors) == (3, {})
    before = {trial.path.name: trial.read_run(0) for trial in folder.trials()}
    tiny["search"]["samples"] = 6
    more = Sweep.model_validate(tiny)
    write(folder.path / "sweep.yaml", more.model_dump(mode="json"))
    run_sweep(more, folder, ignore_progress, resume=True, address=None)
    after = {trial.path.name: trial.read_run(0) for trial in folder.trials()}
    assert len(after) == 6
    assert {name: after[name] for name in before} == before  # not even their seconds


@pytest.mark.long
def test_optuna_tries_each_point_once(tiny: dict[str, Any], ray_address: str, tmp_path: Path) -> None:
    """In a space of four points all four are tried, though nine are requested."""
    tiny |= {"policy": "packing:now", "episodes": 1, "seeds": [0], "set": ["episode.max_ticks=50"]}
    tiny["base"] = {"scenario": "green-10"}
    tiny["space"] = {"workload.load": {"values": [0.5, 1.0]}, "decision.window": {"integers": [4, 5]}}
    tiny["search"] = {"kind": "optuna", "samples": 9}
    folder = SweepFolder(tmp_path / "sweep")
    ended = run_sweep(Sweep.model_validate(tiny), folder, ignore_progress, resume=False, address=None)
    assert (ended.reason, ended.progress.done, ended.progress.trials) == ("all tried", 4, 4)
    assert len(folder.trials()) == 4


@pytest.mark.long
def test_the_error_of_a_failed_trial_is_reported(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny["failures"] = 0
    tiny["seeds"] = [0]
    path, out = write(tmp_path / "sweep.yaml", tiny), tmp_path / "out"
    sweep = read_sweep(path)
    for point in sweep.points()[:1]:
        trial = SweepFolder(out).trial(point)
        trial.create(point)
        (trial.path / "seed-0").touch()  # where a folder is to be
    assert main(["tune", str(path), "--out", str(out)]) == 1
    output = capsys.readouterr().out
    assert "1 of 2 trials completed, 1 failed" in output
    assert f"{trial.path.name} failed: " in output
    assert "seed-0" in output.split("failed: ")[1]


@pytest.mark.long
def test_the_error_of_a_trial_that_cannot_start_is_reported(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny["failures"] = 0
    path, out = write(tmp_path / "sweep.yaml", tiny), tmp_path / "out"
    (out / "trials").mkdir(parents=True)
    (out / "trials" / SweepFolder(out).trial(read_sweep(path).points()[1]).path.name).touch()
    assert main(["tune", str(path), "--out", str(out)]) == 1
    output = capsys.readouterr().out
    assert "1 of 2 trials completed, 1 failed" in output
    assert "failed: " in output.split("1 failed")[1]


def test_a_stopped_trial_is_not_completed(tiny: dict[str, Any], tmp_path: Path) -> None:
    """As after `ray stop`, or the end of a batch job: Ray Tune starts the trial again."""
    folder = SweepFolder(tmp_path / "sweep")
    tiny["seeds"] = [0]
    sweep = Sweep.model_validate(tiny)
    folder.create(sweep)
    point = sweep.points()[0]
    trial = Trial.__new__(Trial)
    trial.setup({"folder": str(folder.path), "point": point})

    class StoppingDisplay(SilentDisplay):
        """Asks for a stop after the first iteration."""

        def update(self, row: dict[str, float | int | None], standing: Standing) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rlsched.tune.trial.SilentDisplay", StoppingDisplay)
        with ray_session(None), pytest.raises(RuntimeError, match="asked to stop"):
            trial.step()
    assert not trial.trial.done
    assert not trial.trial.seed_done(0)
    latest = trial.trial.run_folder(0).latest()
    assert latest is not None
    assert 0 < latest[1].steps < 4096


def test_a_sweep_is_searched_by_one_process(tiny: dict[str, Any], ray_address: str, tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path / "sweep")
    sweep = Sweep.model_validate(tiny)
    folder.create(sweep)
    lock = Alone(folder.path)
    with pytest.raises(BadInputError, match="is searched by another process"):
        run_sweep(sweep, folder, ignore_progress, resume=True, address=None)
    lock.let_go()


@pytest.mark.long
def test_a_policy_that_violates_limits_ranks_last(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path
) -> None:
    tiny |= {"policy": "packing:now", "episodes": 3, "seeds": [0], "set": ["episode.max_ticks=300"]}
    tiny["base"] = {"scenario": "green-10"}
    tiny["space"] = {"objective.costs.delayed_jobs": {"values": [1.0, 1e6]}}
    folder = SweepFolder(tmp_path / "sweep")
    run_sweep(Sweep.model_validate(tiny), folder, ignore_progress, resume=False, address=None)
    _, _, results = load_outcomes(folder)
    assert [outcome.point["objective.costs.delayed_jobs"] for outcome in results] == [1e6, 1.0]
    cost = results[1].runs[0].figures["cost.delayed_jobs"]
    assert [outcome.excess for outcome in results] == [0.0, pytest.approx(cost - 1.0)]


def test_too_large_a_trial_is_refused_before_anything_starts(
    tiny: dict[str, Any], ray_address: str, tmp_path: Path
) -> None:
    tiny["space"] = {"sampling.runners": {"values": [0, 500]}}
    folder = SweepFolder(tmp_path / "sweep")
    with pytest.raises(BadInputError, match=r"a trial wants 501 CPUs, and Ray has \d+ here"):
        run_sweep(Sweep.model_validate(tiny), folder, ignore_progress, resume=False, address=None)
    assert not folder.path.exists()


@pytest.mark.long
def test_a_sweep_continues_without_a_lost_node(tiny: dict[str, Any], fresh_ray: None, tmp_path: Path) -> None:
    """Three nodes with one trial each; one node is lost after its first checkpoint."""
    tiny["base"]["steps"] = 16_384
    tiny["seeds"] = [0]
    tiny["space"] = {"ppo.learning_rate": {"values": [0.01, 0.001, 0.0001]}}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    folder = SweepFolder(tmp_path / "sweep")
    lost: list[float] = []

    def lose(progress: Progress) -> None:
        started = [trial for trial in folder.trials() if trial.run_folder(0).latest() is not None]
        if len(started) == 3 and not lost:
            lost.append(progress.share)
            cluster.remove_node(nodes[0])

    try:
        ended = run_sweep(Sweep.model_validate(tiny), folder, lose, resume=False, address=cluster.address)
    finally:
        cluster.shutdown()
    assert lost
    assert lost[0] < 1
    assert (ended.reason, ended.progress.done, ended.errors) == ("all tried", 3, {})
    for trial in folder.trials():
        assert iterations(trial.run_folder(0)) == list(range(33))


def test_wrong_arguments_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(launch, "run_sweep", lambda *_, **__: pytest.fail("nothing may start"))
    assert main(["tune", "--resume"]) == 2
    assert "no sweep is given; name its FILE or its --out" in capsys.readouterr().err
    assert main(["tune", "show", "runs/nowhere"]) == 2
    assert "runs/nowhere: holds no sweep" in capsys.readouterr().err
    assert main(["tune", "nowhere.yaml"]) == 2
    assert "nowhere.yaml: no such file" in capsys.readouterr().err
