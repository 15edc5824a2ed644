"""BC and MARWIL: from a dataset to a policy that does what the behaviours did."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner import Learner
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch

from rlsched import scenario
from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.algorithms.learners.cloning import SQUARES
from rlsched.learn.config.sections import WarmStart
from rlsched.learn.config.training import make_config, read_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.policy import load_policy
from rlsched.learn.rllib.build import build_config
from rlsched.learn.rllib.dataset import Dataset, flat
from rlsched.learn.rllib.scale import Returns
from rlsched.learn.warm_start import demonstrate
from rlsched.offline.collect import collect
from rlsched.offline.folder import DatasetFolder
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import RETURN, Reader
from rlsched.offline.recipe import Recipe, parse_behaviors
from rlsched.scenario import Scenario
from tests.offline.conftest import nobody

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_address")]


ROWS = 4000
MODULE = "default_policy"


def agreement(folder: Path, short: Scenario) -> float:
    """Share of decisions of sjf that a policy takes, too, in episodes that nobody has seen."""
    unseen = demonstrate(
        EpisodeFeed(short), WarmStart(teacher="sjf", decisions=3000), np.random.default_rng(9)
    )
    return float((load_policy(folder).act(unseen.obs, unseen.mask) == unseen.action).mean())


def train(out: Path, *words: object) -> int:
    settings = ["bc.rows=8192", "bc.minibatch=256", "validation.episodes=2", "averaging=0"]
    sets = [word for setting in settings for word in ("--set", setting)]
    return main(["train", *sets, *map(str, words), "--out", str(out)])


def test_a_clone_does_what_was_shown(short: Scenario, sjf_dataset: Path, tmp_path: Path) -> None:
    """From the dataset alone; and it goes on where it was left."""
    out = tmp_path / "run"
    assert train(out, "--algo", "bc", "--dataset", sjf_dataset, "--steps", 80_000) == 0
    folder = RunFolder(out)
    rows = folder.rows()
    assert [int(row["steps"]) for row in rows] == list(range(0, 81_921, 8192))
    assert float(rows[1]["agreement"]) < float(rows[-1]["agreement"])
    assert float(rows[-1]["agreement"]) > 0.95
    assert all(float(row["steps_per_second"]) > 0 for row in rows[1:])
    assert agreement(out / "start", short) < 0.8 < 0.95 < agreement(out, short)
    assert main(["train", "--resume", "--steps", "90000", "--out", str(out)]) == 0
    latest = folder.latest()
    assert latest is not None
    assert latest[1].steps == 90_112
    saved, newest = load_policy(out / "best").net.state_dict(), load_policy(latest[0]).net.state_dict()
    assert all(torch.equal(saved[name], newest[name]) for name in saved)  # the last one, not the best one


@pytest.mark.long
def test_marwil_learns_what_was_earned(tmp_path: Path) -> None:
    """With a gamma by which it matters less how near the end is, which nobody sees."""
    out, demonstration = tmp_path / "run", tmp_path / "shown"
    near = scenario.load("green-10", ["episode.max_ticks=100", "objective.gamma=0.99"])
    recipe = Recipe(behaviors=parse_behaviors("--policy", ["sjf"]), steps=4000)
    collect(near, recipe, DatasetFolder(demonstration), nobody)
    words = ("--algo", "marwil", "--dataset", demonstration, "--steps", 80_000)
    small = ("--set", "marwil.rows=8192", "--set", "marwil.minibatch=256")
    assert train(out, *words, *small) == 0
    rows = RunFolder(out).rows()
    assert float(rows[-1]["agreement"]) > 0.9
    norm, loss = float(rows[-1]["moving_avg_sqd_adv_norm"]), float(rows[-1]["vf_loss"])
    assert loss < norm < 4 * loss  # twice the loss: so advantages of usual size weigh e and 1 / e
    explained = [float(row["vf_explained_variance"]) for row in rows[1:]]
    assert np.mean(explained[-3:]) > explained[0]


def cloning_learner(short: Scenario, sjf_dataset: Path, algo: str) -> tuple[Learner, dict[str, np.ndarray]]:
    """A learner, and decisions of the dataset for it."""
    settings = ["rows=2048", "minibatch=256", "learning_rate=1e-2"]
    trained_config = make_config(
        {"algo": algo, "dataset": str(sjf_dataset)}, "test", [f"{algo}.{setting}" for setting in settings]
    )
    config = build_config(EpisodeFeed(short).scenario, trained_config.resolve(short), 2)
    data = Dataset(config)
    rows = dict(data.sample(512).policy_batches[MODULE])
    data.reader.close()
    spaces = {MODULE: (config.observation_space, config.action_space)}
    return config.build_learner(env=None, spaces=spaces), rows


def learn(learner: Learner, rows: dict[str, np.ndarray]) -> None:
    batch = MultiAgentBatch({MODULE: SampleBatch(rows)}, env_steps=len(rows["actions"]))
    learner.update(batch=batch, minibatch_size=256)


def test_marwil_does_what_earned_more_and_bc_what_was_done_more(short: Scenario, sjf_dataset: Path) -> None:
    """In one state: seven of ten did the one and earned nothing, three the other and earned 1."""
    preferred = {}
    for algo in ("bc", "marwil"):
        learner, rows = cloning_learner(short, sjf_dataset, algo)
        size = rows["obs"].shape[1] - 1 - (short.decision.window + 2)
        choices = rows["obs"][:, size:-1] > 0.5
        common, rare = np.flatnonzero(choices[(choices.sum(1) > 1).argmax()])[:2]
        state = rows["obs"][(choices.sum(1) > 1).argmax()]
        good = np.random.default_rng(0).random(512) < 0.3
        made = {
            "obs": np.repeat(state[None], 512, axis=0),
            "actions": np.where(good, rare, common),
        }
        if algo == "marwil":
            made["value_targets"] = good.astype(np.float32)
        for _ in range(8):
            learn(learner, made)
        with torch.no_grad():
            observed = {"obs": torch.from_numpy(state[None])}
            logits = learner.module[MODULE].forward_inference(observed)[Columns.ACTION_DIST_INPUTS]
        action = int(logits.argmax())
        preferred[algo] = {common: "common", rare: "rare"}[action]
        learner.shutdown()
    assert preferred == {"bc": "common", "marwil": "rare"}


def test_the_scale_of_marwils_advantages_goes_on_with_a_run(
    short: Scenario, sjf_dataset: Path, tmp_path: Path
) -> None:
    first, rows = cloning_learner(short, sjf_dataset, "marwil")
    for _ in range(4):
        learn(first, rows)
    second, _ = cloning_learner(short, sjf_dataset, "marwil")
    first.save_to_path(tmp_path)
    second.restore_from_path(tmp_path)
    reached = first.get_state()[SQUARES]
    assert second.get_state()[SQUARES] == reached
    assert reached[MODULE] == pytest.approx(float(first.moving_avg_sqd_adv_norms_per_module[MODULE]))
    for learner in (first, second):
        learn(learner, rows)
    assert second.get_state()[SQUARES] == pytest.approx(first.get_state()[SQUARES], rel=0.05)
    for learner in (first, second):
        learner.shutdown()


def test_learners_get_rows_as_environments_show_them(short: Scenario, sjf_dataset: Path) -> None:
    config = make_config({"algo": "marwil", "dataset": str(sjf_dataset)}, "test").resolve(short)
    feed = EpisodeFeed(short)
    described = build_config(feed.scenario, config, 2, returns=Returns(0.5, 1.0))
    data = Dataset(described)
    batch = data.sample(300).policy_batches["default_policy"]
    gamma = short.objective.gamma
    reader = Reader(
        sjf_dataset,
        read_manifest(sjf_dataset),
        ["obs", "action_mask", "actions", RETURN],
        seed=0,
        gamma=gamma,
    )
    rows = reader.take(300)
    size = rows["obs"].shape[1]
    assert (batch["obs"][:, :size] == rows["obs"]).all()
    assert (batch["obs"][:, size:-1] == rows["action_mask"]).all()
    assert (batch["obs"][:, -1] == 0).all()
    assert batch["obs"].shape[1:] == described.observation_space.shape
    assert (batch["actions"] == rows["actions"]).all()
    np.testing.assert_allclose(batch["value_targets"], 0.5 * rows[RETURN], rtol=1e-6)
    assert (flat(rows["obs"], rows["action_mask"]) == batch["obs"]).all()
    reader.close()
    data.reader.close()


def test_what_cannot_be_learned_from_is_said_before_anything_starts(
    sjf_dataset: Path, tmp_path: Path, no_ray: None, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"

    def refused(*words: object) -> str:
        assert train(out, *words) == 2
        assert not out.exists()
        return capsys.readouterr().err

    assert "dataset: is missing, which bc learns from" in refused("--algo", "bc", "--scenario", "green-10")
    assert "dataset: not supported by algo=ppo" in refused("--algo", "ppo", "--dataset", sjf_dataset)
    assert "none: no such folder" in refused("--algo", "bc", "--dataset", "none")
    wide = ("--scenario", "green-10", "--set", "decision.window=7")
    assert "was recorded with another decision than scenario 'green-10' has" in refused(
        "--algo", "bc", "--dataset", sjf_dataset, *wide
    )
    assert "sampling.runners: not supported by algo=bc" in refused(
        "--algo", "bc", "--dataset", sjf_dataset, "--set", "sampling.runners=2"
    )
    assert "bc.minibatch: value 256 is more than rows 16 a learner" in refused(
        "--algo", "bc", "--dataset", sjf_dataset, "--set", "bc.rows=16"
    )


def test_a_shard_that_is_gone_is_said_before_anything_starts(
    sjf_dataset: Path, tmp_path: Path, no_ray: None, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    for path in sjf_dataset.iterdir():
        if path.name != "part-00001.parquet":
            (folder / path.name).write_bytes(path.read_bytes())
    assert train(tmp_path / "run", "--algo", "bc", "--dataset", folder) == 2
    assert "part-00001.parquet: no such file; fetch it again" in capsys.readouterr().err


def test_goes_on_with_a_dataset_that_has_moved_but_with_no_other(
    sjf_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, was, now = tmp_path / "run", tmp_path / "was", tmp_path / "now"
    shutil.copytree(sjf_dataset, was)
    small = ("--set", "bc.rows=2048")
    assert train(out, "--algo", "bc", "--dataset", was, "--steps", 2048, *small) == 0
    was.rename(now)

    def go_on(steps: int, *words: object) -> int:
        return main(["train", "--resume", "--steps", str(steps), "--out", str(out), *map(str, words)])

    assert go_on(4096) == 2
    assert f"{was}: no such folder" in capsys.readouterr().err
    manifest = now / "dataset.json"
    whole = manifest.read_text()
    values = json.loads(whole)
    del values["checksum"]  # as of an older version
    manifest.write_text(json.dumps(values).replace("recorded by", "written by"))
    assert go_on(4096, "--dataset", now) == 2
    reported = capsys.readouterr().err
    assert f"{out}: was started with another dataset (" in reported
    assert "bring that back, or begin another run" in reported
    manifest.write_text(whole)
    assert go_on(4096, "--dataset", now) == 0
    assert [int(row["steps"]) for row in RunFolder(out).rows()] == [0, 2048, 4096]
    (out / "inputs.json").unlink()  # as versions before this one left it
    assert go_on(6144, "--dataset", now) == 2
    assert "--dataset: the run is of a version that did not record its inputs" in capsys.readouterr().err
    assert go_on(6144) == 0
    assert int(RunFolder(out).rows()[-1]["steps"]) == 6144
    assert (out / "inputs.json").exists()
    assert go_on(8192, "--trace", "datasets/sample.swf.gz") == 2
    assert "--trace: the run has no trace; leave it out" in capsys.readouterr().err


@pytest.mark.long
def test_learners_in_other_processes_clone_too(sjf_dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    more = ("--set", "learners=2", "--set", "bc.rows=2048", "--steps", "4096")
    assert train(out, "--algo", "bc", "--dataset", sjf_dataset, *more) == 0
    assert [int(row["steps"]) for row in RunFolder(out).rows()] == [0, 2048, 4096]


def test_a_training_file_may_leave_scenario_algorithm_and_dataset_to_others(
    short: Scenario, sjf_dataset: Path, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("bc: {rows: 4096}\n")
    simulated, config = read_config(path, (), {"algo": "bc", "dataset": str(sjf_dataset)})
    assert simulated.episode == short.episode
    assert (config.algo, config.bc.rows, config.dataset) == ("bc", 4096, sjf_dataset)


def test_rewards_of_another_objective_are_not_learned_from(
    sjf_dataset: Path, tmp_path: Path, no_ray: None, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--dataset", sjf_dataset, "--set", "objective.reward={wait_time: 1.0}")
    assert train(tmp_path / "run", "--algo", "marwil", *words) == 2
    assert "was recorded with another objective than scenario" in capsys.readouterr().err
