"""Settings small enough to train in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray

from rlsched import scenario
from rlsched.learn.config.training import TrainConfig, make_config
from rlsched.offline.collect import collect
from rlsched.offline.folder import DatasetFolder
from rlsched.offline.recipe import Recipe, parse_behaviors
from rlsched.scenario import Scenario
from tests.offline.conftest import nobody

SMALL = ("episode.jobs=64", "decision.window=32")
TINY = (
    "sampling.envs_per_runner=8",
    "sampling.fragment=32",
    "ppo.minibatch=64",
    "ppo.epochs=2",
    "validation.episodes=4",
    "validation.every=1",
    "warm_start.decisions=0",
)


@pytest.fixture(scope="session")
def small() -> Scenario:
    """Episodes of 64 jobs."""
    return scenario.load("lublin-256", SMALL)


@pytest.fixture(scope="session")
def tiny() -> TrainConfig:
    """Iterations of 256 decisions."""
    return make_config({}, "test", TINY)


@pytest.fixture(scope="session")
def short() -> Scenario:
    """Episodes of 100 ticks, without the privileged block, as datasets of it are."""
    return scenario.load("green-10", ["episode.max_ticks=100"]).public


@pytest.fixture(scope="session")
def sjf_dataset(short: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of what sjf did in them."""
    folder = tmp_path_factory.mktemp("datasets") / "sjf"
    recipe = Recipe(behaviors=parse_behaviors("--policy", ["sjf"]), steps=4000)
    collect(short, recipe, DatasetFolder(folder), nobody)
    return folder


@pytest.fixture
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray must not be asked for."""

    def refuse(*_: object, **__: object) -> None:
        pytest.fail("Ray was asked for")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
