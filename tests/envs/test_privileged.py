"""Nothing that an agent sees, or a dataset holds, tells of jobs to come or of what running jobs have left.

The strongest of these tests changes the future and looks for it: two episodes are alike up to some tick and
differ afterwards, in jobs that have not arrived and in how long the running ones really run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.envs.vector import SchedulingVectorEnv
from rlsched.jobs import IntArray, JobTable
from rlsched.scenario import PRIVILEGED, Scenario
from rlsched.workloads.episodes import Episode

REGISTERED = sorted(name for name in gymnasium.registry if name.startswith("rlsched/"))
DECISIONS = 60


def settings_of(name: str, small_trace: Path) -> Scenario:
    """The scenario of a registered environment, with a trace where it needs one, in short episodes."""
    chosen = scenario.load(name.removeprefix("rlsched/"))
    changes = ["episode.jobs=80"] if chosen.episode.end != "max_ticks" else ["episode.max_ticks=150"]
    if chosen.workload.kind == "swf":
        changes = [changes[0].replace("150", "30"), f"workload.file={small_trace}"]
    return scenario.load(name.removeprefix("rlsched/"), changes)


def blocks_of(space: gymnasium.Space[Any]) -> set[str]:
    assert isinstance(space, gymnasium.spaces.Dict)
    return set(space.spaces)


@pytest.mark.parametrize("name", REGISTERED)
def test_privileged_blocks_are_in_info_only_on_request(name: str, small_trace: Path) -> None:
    chosen = settings_of(name, small_trace)
    requested = set(chosen.observation.blocks) & PRIVILEGED
    assert requested  # every shipped scenario has a critic that may look ahead
    plain = gymnasium.make(name, scenario=chosen)
    obs, info = plain.reset(seed=0)
    assert not PRIVILEGED & (blocks_of(plain.observation_space) | set(obs) | set(info))
    assert "privileged" not in info

    several = gymnasium.make_vec(
        name, num_envs=2, vectorization_mode="vector_entry_point", scenario=chosen, privileged=True
    )
    obs, info = several.reset(seed=0)
    assert not PRIVILEGED & (blocks_of(several.observation_space) | set(obs))
    assert set(info["privileged"]) == requested
    assert all(len(ahead) == 2 for ahead in info["privileged"].values())
    *_, info = several.step(info["action_mask"].argmax(axis=1))
    assert set(info["privileged"]) == requested

    sizes = {
        privileged: gymnasium.make(name, scenario=chosen, flat=True, privileged=privileged)
        for privileged in (False, True)
    }
    flats = {privileged: env.reset(seed=0) for privileged, env in sizes.items()}
    assert np.array_equal(flats[False][0], flats[True][0])
    assert flats[False][1] == {}
    assert set(flats[True][1]) == {"privileged"}
    for env in (plain, several, *sizes.values()):
        env.close()


def with_another_future(jobs: JobTable, start: IntArray, tick: int, rng: np.random.Generator) -> JobTable:
    """The same jobs up to a tick: later ones are others, and those that run or wait then end sooner.

    Args:
        jobs: in submit order.
        start: (jobs,) ticks; -1 where a job has not started.
        tick: nothing before it differs.
        rng: draws the others.
    """
    later, started = jobs.submit > tick, (start >= 0) & (start <= tick)
    order = np.arange(len(jobs))
    order[later] = rng.permutation(order[later])
    shorter = (jobs.requested[order] + 1) // 2
    runtime = np.where(started, np.minimum(jobs.runtime, np.maximum(tick - start + 1, 1)), 1)
    runtime[started & (start + jobs.runtime <= tick)] = jobs.runtime[started & (start + jobs.runtime <= tick)]
    return replace(
        jobs,
        runtime=np.where(later, shorter, runtime),
        demand=np.where(later[:, None], jobs.demand[order], jobs.demand),
        requested=np.where(later, shorter, jobs.requested),
        qos=np.where(later, jobs.qos[order], jobs.qos),
    )


def played(
    envs: SchedulingVectorEnv, episode: Episode, actions: list[int] | None
) -> Iterator[tuple[Any, int, int]]:
    """Observation, tick and action of every decision: these actions, or the first legal one each time."""
    obs, info = envs.reset(options={"episodes": [episode]})
    for number in range(DECISIONS):
        action = int(info["action_mask"].argmax()) if actions is None else actions[number]
        yield obs, int(envs.simulator.now[0]), action
        obs, _, terminated, truncated, info = envs.step(np.array([action]))
        if terminated or truncated:
            return


@pytest.mark.parametrize("name", REGISTERED)
def test_no_observation_depends_on_what_lies_ahead(name: str, small_trace: Path) -> None:
    chosen = settings_of(name, small_trace)
    feed = EpisodeFeed(chosen)
    rng = np.random.default_rng(0)
    envs = SchedulingVectorEnv(chosen, 1, feed=feed, on_illegal="raise")
    whole = SchedulingVectorEnv(chosen, 1, feed=feed, privileged=True)
    compared = differences = ends = 0
    for _ in range(4):
        episode = feed.training(rng)
        first = list(played(envs, episode, None))
        starts = envs.simulator.starts(0)
        if len(first) < 4:
            continue
        tick = first[len(first) // 2][1]
        jobs = with_another_future(episode.jobs, starts, tick, rng)
        started = (starts >= 0) & (starts <= tick)
        ends += int((jobs.runtime != episode.jobs.runtime)[started].sum())
        changed = replace(episode, jobs=jobs)
        actions = [action for *_, action in first]
        for (observed, now, _), (same, late, _) in zip(first, played(envs, changed, actions), strict=False):
            if max(now, late) >= tick:
                break
            assert now == late
            for block, values in observed.items():
                assert np.array_equal(values, same[block]), (block, now)
            compared += 1
        ahead = [whole.reset(options={"episodes": [e]})[1]["privileged"] for e in (episode, changed)]
        differences += any(not np.array_equal(ahead[0][block], ahead[1][block]) for block in ahead[0])
    assert compared >= 8
    assert differences  # there was another future to be seen,
    assert ends  # and running jobs that end at another time
