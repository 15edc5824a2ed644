"""A collection that was stopped goes on as if it had not been."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from rlsched import scenario
from rlsched.errors import BadInputError
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.offline.behavior import Behavior
from rlsched.offline.check import check
from rlsched.offline.collect import collect
from rlsched.offline.columns import matrix
from rlsched.offline.folder import DatasetFolder
from rlsched.offline.manifest import Manifest, read_manifest
from rlsched.offline.recipe import Recipe
from rlsched.offline.shards import episodes_of
from rlsched.scenario import Scenario
from rlsched.scenario.combined_file import parse_combined
from rlsched.settings_files import read_text, read_yaml
from rlsched.sim.layout import Layout

from .conftest import collected, nobody, recipe

STEPS = 12_000
ROOT = Path(__file__).parents[2]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def unbroken(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("datasets") / "unbroken"
    collected(short, recipe("sjf,qos", STEPS, noise=0.1), folder)
    return folder


def test_a_collection_has_the_requested_decisions(unbroken: Path) -> None:
    """And hardly more: the episodes of the last shard are those that are still needed."""
    manifest = read_manifest(unbroken)
    assert STEPS <= manifest.rows < 1.1 * STEPS
    assert len(manifest.shards) > 2
    assert check(unbroken, manifest) == []
    assert manifest.rows == sum(pq.read_metadata(unbroken / s.file).num_rows for s in manifest.shards)
    entries = [entry for shard in manifest.shards for entry in episodes_of(unbroken / shard.file)]
    assert manifest.episodes == len(entries)
    for item in manifest.behaviors:
        matching = [entry.reward for entry in entries if entry.behavior == item.behavior]
        assert abs(2 * item.episodes - manifest.episodes) <= 1
        assert item.reward.mean == pytest.approx(np.mean(matching))
        assert (item.reward.least, item.reward.most) == (min(matching), max(matching))


@pytest.mark.parametrize("rows", [1, 5000])
def test_one_that_was_stopped_becomes_the_same(
    short: Scenario, unbroken: Path, tmp_path: Path, rows: int
) -> None:
    folder, spec = DatasetFolder(tmp_path / "broken"), recipe("sjf,qos", STEPS, noise=0.1)
    recorded = 0

    def stop(more: int) -> None:
        nonlocal recorded
        recorded += more
        if recorded > rows:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(short, spec, folder, nobody, progress=stop)
    with pytest.raises(BadInputError, match=r"not finished; resume it: rlsched collect --resume --out"):
        read_manifest(folder.path)
    assert not list(folder.path.glob(".*"))
    whole = sorted(folder.path.glob("*.parquet"))
    retained = {path: path.stat().st_mtime_ns for path in whole}
    assert bool(whole) == (rows > 1)
    reported: list[int] = []
    collect(*folder.read(), folder, nobody, resume=True, begin=reported.append)
    assert reported == [sum(pq.read_metadata(path).num_rows for path in whole)]
    assert {path: path.stat().st_mtime_ns for path in whole} == retained
    assert files(folder.path) == files(unbroken)


@pytest.mark.parametrize("name", ["scenario.yaml", "recipe.yaml"])
def test_settings_that_were_edited_are_refused(unbroken: Path, tmp_path: Path, name: str) -> None:
    """Else rows of both were mixed."""
    shutil.copytree(unbroken, tmp_path / "edited")
    folder = DatasetFolder(tmp_path / "edited")
    file = folder.path / name
    file.write_text(file.read_text().replace("seed: ", "seed: 1").replace("tick_s: ", "tick_s: 1"))
    with pytest.raises(BadInputError, match=f"{name}: was edited since it was written; undo that, or coll"):
        collect(*folder.read(), folder, nobody, resume=True)


def test_one_that_was_killed_before_it_began_can_begin(
    unbroken: Path, short: Scenario, tmp_path: Path
) -> None:
    """The recipe, which tells what to go on with, is written last."""
    folder = DatasetFolder(tmp_path / "killed")
    folder.path.mkdir()
    (folder.path / "scenario.yaml").write_text("somebody's own: true\n")
    spec = recipe("sjf,qos", STEPS, noise=0.1)
    with pytest.raises(BadInputError, match="holds other files"):
        collect(short, spec, folder, nobody)
    (folder.path / "inputs.json").write_text("{}")
    with pytest.raises(BadInputError, match="holds other files"):
        collect(short, spec, folder, nobody)
    (folder.path / "inputs.json").write_bytes((unbroken / "inputs.json").read_bytes())
    (folder.path / ".recipe.yaml.123.part").write_text("beha")
    collect(short, spec, folder, nobody)
    assert files(folder.path) == files(unbroken)


@pytest.mark.slow
def test_one_that_was_killed_becomes_the_same(unbroken: Path, tmp_path: Path) -> None:
    """kill -9 in the middle of a shard; what it left of that is cleared away."""
    out = tmp_path / "killed"
    words = [sys.executable, "-m", "rlsched", "collect", "--scenario", "green-10", "--policy", "sjf,qos"]
    words += ["--noise", "0.1", "--steps", str(STEPS), "--out", str(out)]
    words += ["--set", "episode.max_ticks=100"]
    words += ["--set", "objective.costs={delayed_jobs: 10.0, suspension: 1.0}"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (out / "part-00000.parquet").exists():
            assert time.monotonic() < deadline
            time.sleep(0.001)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (out / ".part-00001.parquet.123.part").write_bytes(b"half")
    subprocess.run([*words[:4], "--resume", "--out", str(out)], check=True, capture_output=True)
    assert files(out) == files(unbroken)


def test_one_that_is_whole_can_grow(short: Scenario, dataset: Path) -> None:
    before = read_manifest(dataset)
    folder = DatasetFolder(dataset)
    simulated, spec = folder.read()
    assert collect(simulated, spec, folder, nobody, resume=True) == before
    more = spec.model_copy(update={"steps": before.rows + 1})
    after = collect(simulated, more, folder, nobody, resume=True)
    assert after.shards[: len(before.shards)] == before.shards
    assert len(after.shards) == len(before.shards) + 1
    assert check(dataset, after) == []


def test_few_decisions_are_few_episodes(short: Scenario, tmp_path: Path) -> None:
    """Not the thirty-two that are played side by side where many are wanted."""
    for requested in (1, 100, 1000):
        manifest = collected(short, recipe("sjf", requested), tmp_path / str(requested))
        assert requested <= manifest.rows < requested + 150


def test_a_trained_policy_is_recorded(short: Scenario, tmp_path: Path) -> None:
    """Greedy, with the chance 1; and sampling, with the chances that it has."""
    torch.manual_seed(2)
    network = Network(kind="priority", priority_units=2)
    layout = Layout.of(short.observation, short.decision, 2)
    net = build_policy(layout, network)
    NetworkPolicy(short, network, net, 2, {}).save(tmp_path / "policy")
    named = Behavior(policy=str(tmp_path / "policy"))
    sampling = named.model_copy(update={"sample": True, "name": "drawing"})
    spec = Recipe(behaviors=(named, sampling), steps=1000)
    manifest = collect(short, spec, DatasetFolder(tmp_path / "out"), lambda path: load_policy(Path(path)))
    assert [item.behavior for item in manifest.behaviors] == ["policy", "drawing"]
    table = pq.read_table([tmp_path / "out" / shard.file for shard in manifest.shards])
    mask = torch.tensor(matrix(table.column("action_mask"))).float()
    with torch.no_grad():
        logits = net(torch.tensor(matrix(table.column("obs"))), mask)
    actions = table.column("actions").to_numpy()
    logp = table.column("action_logp").to_numpy()
    drawing = np.array(table.column("behavior").to_pylist()) == "drawing"
    assert (logits.argmax(1).numpy() == actions)[~drawing].all()
    assert (logp[~drawing] == 0).all()
    expected = torch.log_softmax(logits, 1).numpy()[np.arange(len(actions)), actions]
    np.testing.assert_allclose(logp[drawing], expected[drawing], atol=1e-5)
    assert (logits.argmax(1).numpy() != actions)[drawing].any()


@pytest.mark.parametrize(
    ("behaviors", "line"),
    [
        ([{"policy": "sjff"}], "unknown policy 'sjff'"),
        ([{"policy": "sjf:easy"}], "unknown policy 'sjf:easy'"),
        ([{"policy": "sjf"}, {"policy": "sjf"}], "'sjf' is given twice"),
        ([{"policy": "sjf", "sample": True}], "there is nothing to sample"),
    ],
)
def test_who_cannot_play_is_refused_before_anything_is_written(
    short: Scenario, tmp_path: Path, behaviors: list[dict[str, object]], line: str
) -> None:
    spec = Recipe.model_validate({"behaviors": behaviors})
    with pytest.raises(BadInputError, match=line):
        collected(short, spec, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.fixture
def started_folder(short: Scenario, tmp_path: Path) -> DatasetFolder:
    """A collection that was stopped after some shards."""
    folder, recorded = DatasetFolder(tmp_path / "started_folder"), 0

    def stop(more: int) -> None:
        nonlocal recorded
        recorded += more
        if recorded > 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(short, recipe("sjf,qos", STEPS, noise=0.1), folder, nobody, progress=stop)
    assert folder.shard(1).exists()
    return folder


@pytest.mark.parametrize("whole", [False, True])
def test_it_does_not_go_on_from_a_damaged_shard(
    started_folder: DatasetFolder, unbroken: Path, whole: bool
) -> None:
    """It says which to remove; then that one is recorded again, and all is as it was."""
    if whole:
        collect(*started_folder.read(), started_folder, nobody, resume=True)
    path = started_folder.shard(1)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=r"part-00001\.parquet: .*; remove it: it is recorded again"):
        collect(*started_folder.read(), started_folder, nobody, resume=True)
    path.unlink()
    collect(*started_folder.read(), started_folder, nobody, resume=True)
    assert files(started_folder.path) == files(unbroken)


def test_it_does_not_go_on_with_another_policy(short: Scenario, tmp_path: Path) -> None:
    network = Network(kind="priority")
    net = build_policy(Layout.of(short.observation, short.decision, 2), network)
    NetworkPolicy(short, network, net, 2, {}).save(tmp_path / "policy")
    folder = DatasetFolder(tmp_path / "out")
    spec = Recipe(behaviors=(Behavior(policy=str(tmp_path / "policy")),), steps=100)
    collect(short, spec, folder, lambda path: load_policy(Path(path)))
    before = files(folder.path)
    with torch.no_grad():
        next(iter(net.parameters())).add_(1.0)
    NetworkPolicy(short, network, net, 2, {}).save(tmp_path / "policy")
    more = spec.model_copy(update={"steps": 300})
    with pytest.raises(BadInputError, match="was started with another policy"):
        collect(short, more, folder, lambda path: load_policy(Path(path)), resume=True)
    assert files(folder.path) == before


def test_a_policy_that_sees_otherwise_is_refused(short: Scenario, tmp_path: Path) -> None:
    """Also where only a scale is another, and every shape the same."""
    observed = short.observation.model_copy(update={"time_scale_s": 60})
    second = short.model_copy(update={"observation": observed})
    network = Network(kind="priority")
    net = build_policy(Layout.of(short.observation, short.decision, 2), network)
    NetworkPolicy(second, network, net, 2, {}).save(tmp_path / "policy")
    spec = Recipe(behaviors=(Behavior(policy=str(tmp_path / "policy")),), steps=100)
    with pytest.raises(BadInputError, match="was trained with another observation than scenario"):
        collect(short, spec, DatasetFolder(tmp_path / "out"), lambda path: load_policy(Path(path)))
    assert not (tmp_path / "out").exists()


def test_two_do_not_write_into_one_folder(short: Scenario, tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path / "out")
    with folder.locked():
        with pytest.raises(BadInputError, match="is being written by another process"):
            collect(short, recipe("sjf", 100), DatasetFolder(tmp_path / "out"), nobody)
        assert folder.path.is_dir()
    assert not (tmp_path / "out").exists()


def test_episodes_without_decisions_do_not_count(tmp_path: Path) -> None:
    few = scenario.load("lublin-256", ["episode.jobs=5"])  # most have room for all at once
    manifest = collected(few, recipe("sjf,fcfs", 30), tmp_path / "few")
    assert manifest.rows == sum(item.rows for item in manifest.behaviors)
    assert manifest.episodes == sum(item.episodes for item in manifest.behaviors)
    assert check(tmp_path / "few", manifest) == []


def test_what_is_there_is_not_written_over(short: Scenario, dataset: Path, tmp_path: Path) -> None:
    before = files(dataset)
    with pytest.raises(BadInputError, match="holds a dataset already"):
        collected(short, recipe("sjf", 100), dataset)
    assert files(dataset) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_bytes(b"mine")
    with pytest.raises(BadInputError, match="holds other files; name an --out that is new or empty"):
        collected(short, recipe("sjf", 100), tmp_path / "mine")


def test_nothing_to_decide_is_said(tmp_path: Path) -> None:
    idle = scenario.load("lublin-256", ["episode.jobs=1"])  # it starts at once
    with pytest.raises(BadInputError, match="has nothing to decide in its first"):
        collected(idle, recipe("sjf", 100), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_the_card_says_what_there_is(dataset: Path) -> None:
    manifest: Manifest = read_manifest(dataset)
    text = (dataset / "README.md").read_text("utf-8")
    assert f"{manifest.rows:,} decisions in {manifest.episodes:,} whole episodes" in text
    for item in manifest.behaviors:
        assert f"| `{item.behavior}` | {item.episodes:,} | {item.rows:,} |" in text
    for name in manifest.shape.columns().names:
        assert name in text


@pytest.mark.parametrize("path", sorted(ROOT.glob("datasets/*.yaml")), ids=lambda path: path.stem)
def test_the_recipes_that_come_with_it_can_be_recorded(path: Path, tmp_path: Path) -> None:
    values = read_yaml(read_text(path), str(path))
    simulated, spec = parse_combined(values, str(path), Recipe, ["episode.max_ticks=20", "steps=100"])
    manifest = collected(simulated, spec, tmp_path / "out")
    assert {item.behavior for item in manifest.behaviors} <= {item.label for item in spec.behaviors}
    assert check(tmp_path / "out", manifest) == []
