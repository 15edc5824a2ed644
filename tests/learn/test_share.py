"""Iterations that are shorter than usual, so that a run does not go far beyond its end."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlsched.cli.main import main
from rlsched.envs.episodes import EpisodeFeed
from rlsched.learn.algorithms.learners.reinforce import ReinforceEngine
from rlsched.learn.algorithms.learners.search import SearchEngine
from rlsched.learn.checkpoints import Standing
from rlsched.learn.config.training import make_config
from rlsched.learn.folder import RunFolder
from rlsched.learn.iteration_length import SLOW, share_of_iteration
from rlsched.learn.rllib.engine import RllibEngine
from rlsched.learn.run import Run
from rlsched.scenario import Scenario

from .conftest import TINY


@pytest.mark.parametrize(
    ("remaining", "usual", "end", "share"),
    [
        (420_000, 32_768, 420_000, 1.0),  # 13 iterations end 1.4 % beyond
        (5_000, 32_768, 5_000, 5_000 / 32_768),
        (33_000, 32_768, 33_000, 33_000 / 65_536),  # two shorten_all, not a whole one and a tiny one
        (1_000, 950, 1_000, 1_000 / 1_900),
        (900, 1_000, 1_000, 1.0),  # a tenth beyond at most
        (899, 1_000, 1_000, 0.899),
        (30.0, 20.0, 60.0, 0.75),
    ],
)
def test_iterations_are_shorter_where_whole_ones_end_too_late(
    remaining: float, usual: float, end: float, share: float
) -> None:
    assert share_of_iteration(remaining, usual, end, shorten_all=True) == share


def test_the_first_iteration_of_a_run_of_seconds_is_short() -> None:
    """How long one takes is known from the first on: a whole one may take longer than the run."""
    run = object.__new__(Run)
    run.began, run.iterated, run.standing = 4.0, 0.0, Standing(seconds=4.0)

    def share(minutes: float, *, shorten_all: bool = True) -> float:
        run.config = make_config({}, "test", [f"minutes={minutes}", "steps=1000000"])
        run.engine = SimpleNamespace(shortens_all=shorten_all, usual_decisions=whole)  # type: ignore[assignment]
        return run.next_share()

    whole = 32_768
    assert share(1.25) == 1.0
    assert share(0.1, shorten_all=False) == 1.0
    assert share(0.1) == pytest.approx(2 * SLOW / whole)
    run.iterated, run.standing = 0.05, Standing(seconds=5.0)  # so that a whole one takes 20 seconds
    assert share(0.1) == pytest.approx(1 / 20)


@pytest.mark.parametrize(
    ("remaining", "usual", "end", "share"),
    [
        (420_000, 32_768, 420_000, 1.0),
        (40_000, 32_768, 60_000, 1.0),  # a whole one, then a shorter one
        (7_232, 32_768, 60_000, (7_232 + 3_000) / 32_768),
        (50, 1_000, 100, 55 / 1_000),
        (900, 1_000, 1_000, 1.0),
        (899, 1_000, 1_000, 0.949),
    ],
)
def test_only_the_last_iteration_is_shorter(remaining: float, usual: float, end: float, share: float) -> None:
    assert share_of_iteration(remaining, usual, end, shorten_all=False) == share


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "whole", "half"),
    [
        (("algo=ppo", "sampling.runners=0", "sampling.replicas=4"), 256, 128),
        pytest.param(("algo=ppo", "sampling.runners=2"), 512, 256, marks=pytest.mark.long),
        (("algo=dqn", "sampling.runners=0", "dqn.learning_starts=64", "dqn.batch=32"), 256, 128),
        pytest.param(
            ("algo=appo", "sampling.runners=1", "appo.fragment=8"), 256, 128, marks=pytest.mark.long
        ),
    ],
)
def test_an_engine_samples_a_share_of_an_iteration(
    small: Scenario, ray_address: str, settings: tuple[str, ...], whole: int, half: int
) -> None:
    feed = EpisodeFeed(small)
    engine = RllibEngine(make_config({}, "test", [*TINY, *settings]).resolve(feed.scenario), feed, 0)
    try:
        steps = [0, *(engine.iterate(share=share).steps for share in (1.0, 0.5, 1.0))]
    finally:
        engine.stop()
    actual = [after - before for before, after in pairwise(steps)]
    if "algo=ppo" in settings:
        assert actual == [whole, half, whole]
    else:  # those sample while they learn
        assert whole <= actual[0] < 2 * whole
        assert half <= actual[1] < whole


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["bc", "cql", "rare"])
def test_of_a_dataset_a_share_is_read(
    short: Scenario, sjf_dataset: Path, ray_address: str, algo: str
) -> None:
    words = [f"algo={algo}", f"dataset={sjf_dataset}", f"{algo}.rows=1000", f"{algo}.minibatch=100"]
    feed = EpisodeFeed(short)
    engine = RllibEngine(make_config({}, "test", words).resolve(feed.scenario), feed, 0)
    try:
        steps = [0, *(engine.iterate(share=share).steps for share in (1.0, 0.25, 1.0))]
    finally:
        engine.stop()
    assert [after - before for before, after in pairwise(steps)] == [1000, 250, 1000]


@pytest.mark.parametrize(
    ("words", "whole", "part"),
    [
        (("algo=priority_search", "search.population=4", "search.episodes=8"), 32, 12),  # three for each
        (("algo=reinforce", "reinforce.trajectories=8"), 8, 3),
        (("algo=reinforce", "reinforce.episodes=5", "reinforce.trajectories=8"), 40, 8),  # one episode
        (("algo=reinforce", "reinforce.trajectories=8", "reinforce.workers=4"), 8, 8),  # two for each worker
    ],
)
def test_a_share_of_episodes_is_played(
    small: Scenario, words: tuple[str, ...], whole: int, part: int
) -> None:
    feed = EpisodeFeed(small)
    config = make_config({}, "test", [*TINY[4:], *words]).resolve(feed.scenario)
    engine = config.algorithm.open_engine(config, feed, 0, 0)
    assert isinstance(engine, SearchEngine | ReinforceEngine)
    guessed = engine.usual_decisions
    steps, played = [0], [0]
    for share in (1.0, 0.375, 1.0):
        steps.append(engine.iterate(share=share).steps)
        played.append(engine.episodes if isinstance(engine, SearchEngine) else engine.trajectories)
        assert engine.usual_decisions == pytest.approx(whole * steps[-1] / played[-1])
    assert [after - before for before, after in pairwise(played)] == [whole, part, whole]
    assert guessed == pytest.approx(steps[1], rel=0.3)


@pytest.mark.parametrize(("algo", "usual"), [("priority_search", 24 * 16), ("reinforce", 16)])
def test_a_run_of_episodes_ends_near_its_end(tmp_path: Path, algo: str, usual: int) -> None:
    """A whole iteration would end two thirds beyond it, or nearly so."""
    words = ["episode.jobs=32", "validation.episodes=2", "validation.every=100"]
    arguments = ["train", "--scenario", "lublin-256", "--algo", algo, "--out", str(tmp_path)]
    steps = int(1.6 * usual * 32)
    assert (
        main([*arguments, "--steps", str(steps), *(word for setting in words for word in ("--set", setting))])
        == 0
    )
    latest = RunFolder(tmp_path).latest()
    assert latest is not None
    assert steps <= latest[1].steps <= 1.1 * steps
