"""Every observed number of an episode that is small enough to be worked out on paper."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from rlsched.envs.env import SchedulingEnv
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.sim.columns import JOB_FEATURES, OUTLOOK_FEATURES, QUEUE_FEATURES
from rlsched.workloads.episodes import Episode

UNITS, WINDOW, EVENTS = 8, 3, 4
SCALE = 0.01

#          A   B   C   D   E
# submit   0   0   0   3  17
# takes   20  63   8   5   2
# asks    15  31   7   3   1
# units    4   2   7   2   1
#
# at 0    A, B, C wait; A starts; C is reserved for 15, when A is expected to leave it one unit to spare;
#         B would outlast that on two: nothing is left but to wait
# at 3    D comes; C is reserved for 15 again, D starts before it, then nothing is left
# at 8    D ends; B starts; C is alone and waits
# at 17   E comes; A is overdue
JOBS = JobTable.build(
    submit=[0, 0, 0, 3, 17],
    runtime=[20, 63, 8, 5, 2],
    requested=[15, 31, 7, 3, 1],
    demand=[4, 2, 7, 2, 1],
)
A, B, C = 0, 1, 2


def settings(window: int = WINDOW, tick_s: int = 1) -> Scenario:
    """1023 ticks are the longest time shown, so that log2(1 + ticks) / 10 is what is seen."""
    return Scenario.model_validate(
        {
            "cluster": {"tick_s": tick_s, "resources": [{"units": UNITS}]},
            "workload": {"kind": "lublin"},
            "decision": {"window": window},
            "observation": {
                "blocks": ["outlook", "jobs", "queue", "event_horizon"],  # the order must not matter
                "event_horizon": EVENTS,
                "time_scale_s": 1023 * tick_s,
            },
            "objective": {"reward": {"bounded_slowdown": 1.0, "wait_time": 0.5}},
            "episode": {"jobs": len(JOBS)},
        }
    )


def time(ticks: float) -> float:
    return log2(1 + ticks) / 10


def count(jobs: int) -> float:
    return log2(1 + jobs) / log2(1 + 100_000)


def rate(tenths: float) -> float:
    return log2(1 + tenths) / log2(1 + 1_000_000)


def job(
    asks: int,
    units: int,
    at_submit: tuple[int, int, int],
    waited: int,
    fits: int,
    legal: int,
    reserved: int,
    delay: int = 0,
) -> list[float]:
    queue, work, free = at_submit
    return [
        1,
        time(asks),
        units / UNITS,
        log2(1 + units) / log2(1 + UNITS),
        count(queue),
        time(work / UNITS),
        free / UNITS,
        time(waited),
        time(waited + asks),
        fits,
        legal,
        reserved,
        time(delay),
    ]


def events(*releases: tuple[int, int]) -> list[list[float]]:
    """(ticks until the release, units free after it); beyond the last one the cluster is empty."""
    rows = [[time(ticks), 1 - free / UNITS, free / UNITS] for ticks, free in releases]
    return rows + [[1, 0, 1]] * (EVENTS - len(releases))


def queue(
    waiting: int,
    backlog: int,
    queued: int,
    remaining: int,
    release: int,
    shadow: int | None,
    free: int,
    extra: int,
) -> list[float]:
    return [
        count(waiting),
        count(backlog),
        time(queued / UNITS),
        time(remaining / UNITS),
        time(release),
        0 if shadow is None else 1,
        0 if shadow is None else time(shadow),
        free / UNITS,
        extra / UNITS,
    ]


def outlook(to_come: int, work: int, last: int, queued: int, remaining: int, waiting: float) -> list[float]:
    return [
        to_come / 5,
        time(work / UNITS),
        time(last),
        time(queued / UNITS),
        time(remaining / UNITS),
        rate(10 * waiting),
        min(1, log2(1 + 3600 * waiting * SCALE) / 10),
        SCALE * 5,
    ]


NONE = [0.0] * 13
AT_A, AT_B, AT_C, AT_D, AT_E = (0, 0, 8), (1, 60, 8), (2, 122, 8), (2, 111, 4), (1, 49, 2)
RATE_A, RATE_B, RATE_C, RATE_D, RATE_E = 1 / 20, 1 / 63, 1 / 10, 1 / 10, 1 / 10

# action that led there, ticks it took, mask, and the four blocks
QUESTIONS = [
    (
        None,
        0,
        [1, 1, 1, 0],
        [job(15, 4, AT_A, 0, 1, 1, 0), job(31, 2, AT_B, 0, 1, 1, 0), job(7, 7, AT_C, 0, 1, 1, 0)],
        events(),
        queue(3, 0, 60 + 62 + 49, 0, 0, None, 8, 0),
        outlook(2, 10 + 2, 17, 80 + 126 + 56, 0, RATE_A + RATE_B + RATE_C),
    ),
    (
        0,
        0,
        [1, 1, 0, 0],
        [job(31, 2, AT_B, 0, 1, 1, 0), job(7, 7, AT_C, 0, 0, 1, 0, 15), NONE],
        events((15, 8)),
        queue(2, 0, 62 + 49, 60, 15, None, 4, 0),
        outlook(2, 12, 17, 126 + 56, 80, RATE_B + RATE_C),
    ),
    (  # C reserved; waited until D came, which drops the reservation
        1,
        3,
        [1, 1, 1, 0],
        [job(31, 2, AT_B, 3, 1, 1, 0), job(7, 7, AT_C, 3, 0, 1, 0, 12), job(3, 2, AT_D, 0, 1, 1, 0)],
        events((12, 8)),
        queue(3, 0, 62 + 49 + 6, 60 - 12, 12, None, 4, 0),
        outlook(1, 2, 14, 126 + 56 + 10, 80 - 12, RATE_B + RATE_C + RATE_D),
    ),
    (  # C reserved again: B fits but may not start, D may
        1,
        0,
        [0, 0, 1, 1],
        [job(31, 2, AT_B, 3, 1, 0, 0), job(7, 7, AT_C, 3, 0, 0, 1, 12), job(3, 2, AT_D, 0, 1, 1, 0)],
        events((12, 8)),
        queue(3, 0, 62 + 49 + 6, 60 - 12, 12, 12, 4, 1),
        outlook(1, 2, 14, 126 + 56 + 10, 80 - 12, RATE_B + RATE_C + RATE_D),
    ),
    (  # D started, and has ended at 8, two ticks late
        2,
        5,
        [1, 1, 0, 0],
        [job(31, 2, AT_B, 8, 1, 1, 0), job(7, 7, AT_C, 8, 0, 1, 0, 7), NONE],
        events((7, 8)),
        queue(2, 0, 62 + 49, 60 - 32, 7, None, 4, 0),
        outlook(1, 2, 9, 126 + 56, 80 - 32, RATE_B + RATE_C),
    ),
    (  # B started; at 17 A should have ended at 15, so it is expected one tick from now
        0,
        9,
        [1, 1, 0, 0],
        [job(7, 7, AT_C, 17, 0, 1, 0, 22), job(1, 1, AT_E, 0, 1, 1, 0), NONE],
        events((1, 6), (22, 8)),
        queue(2, 0, 49 + 1, 60 + 78 - 6 * 17, 1, None, 2, 0),
        outlook(0, 0, 0, 56 + 2, 80 + 142 - 6 * 17, RATE_C + RATE_E),
    ),
]


def test_every_column() -> None:
    env = SchedulingEnv(settings(), on_illegal="raise", privileged=True)
    for number, (action, elapsed, mask, jobs, releases, waiting, ahead) in enumerate(QUESTIONS):
        if action is None:
            obs, info = env.reset(options={"episodes": [Episode(JOBS, scale=SCALE)]})
        else:
            obs, _, terminated, truncated, info = env.step(action)
            assert not terminated
            assert not truncated
        where = f"question {number}"
        assert obs["action_mask"].tolist() == mask, where
        assert info["elapsed"] == elapsed, where
        check(obs["jobs"], jobs, JOB_FEATURES.names(1), where)
        check(obs["event_horizon"], releases, ("time", "used", "free"), where)
        check(obs["queue"], waiting, QUEUE_FEATURES.names(1), where)
        check(info["privileged"]["outlook"], ahead, OUTLOOK_FEATURES.names(0), where)
        assert env.observation_space.contains(obs)


def check(observed: np.ndarray, expected: list, names: tuple[str, ...], where: str) -> None:
    """Column by column, so that a failure names the one."""
    wanted = np.array(expected)
    assert observed.shape == wanted.shape
    assert observed.dtype == np.float32
    for column, name in enumerate(names):
        difference = np.abs(observed[..., column] - wanted[..., column]).max()
        assert difference < 1e-4, (where, name, observed[..., column], wanted[..., column])


def test_rewards_of_the_same_episode() -> None:
    """B and C wait for three ticks, then B, C (and D, who started) for five, then C for nine."""
    env = SchedulingEnv(settings())
    env.reset(options={"episodes": [Episode(JOBS, scale=SCALE)]})
    terms = {2: (3 * (RATE_B + RATE_C), 6), 4: (5 * (RATE_B + RATE_C), 10), 5: (9 * RATE_C, 9)}
    for number, (action, *_) in enumerate(QUESTIONS[1:], start=1):
        assert action is not None
        _, reward, _, _, info = env.step(action)
        slowdown, wait = terms.get(number, (0.0, 0))
        assert info["reward_terms"]["bounded_slowdown"] == pytest.approx(-slowdown)
        assert info["reward_terms"]["wait_time"] == pytest.approx(-wait)
        assert reward == pytest.approx(-SCALE * (slowdown + 0.5 * wait))


def test_the_end_of_the_same_episode() -> None:
    """E starts at 17 on what is free; C must wait for both A (20) and B (71)."""
    env = SchedulingEnv(settings())
    env.reset(options={"episodes": [Episode(JOBS, scale=SCALE)]})
    for action, *_ in QUESTIONS[1:]:
        env.step(action)  # type: ignore[arg-type]
    _, _, terminated, truncated, info = env.step(1)
    assert terminated
    assert not truncated
    assert info["metrics"]["makespan"] == 79
    waits = {A: 0, B: 8, C: 71, 3: 0, 4: 0}
    assert info["metrics"]["wait"] == pytest.approx(sum(waits.values()) / 5)
    assert info["metrics"]["schedule_span"] == pytest.approx(71 / 17)
    assert info["elapsed"] == 79 - 17
    assert info["action_mask"].tolist() == [0, 0, 0, 1]


def test_what_is_beyond_the_window_is_backlog() -> None:
    env = SchedulingEnv(settings(window=2))
    obs, _ = env.reset(options={"episodes": [Episode(JOBS, scale=SCALE)]})
    assert obs["jobs"].shape == (2, 13)
    check(obs["queue"], queue(3, 1, 60 + 62 + 49, 0, 0, None, 8, 0), QUEUE_FEATURES.names(1), "window of two")


def test_bounded_rates_are_per_second_whatever_the_tick() -> None:
    """At 10 s a tick a job of one tick counts as 10 s, and the same jobs are seen at the same rate."""
    env = SchedulingEnv(settings(tick_s=10), privileged=True)
    _, info = env.reset(options={"episodes": [Episode(JOBS, scale=SCALE)]})
    ahead = info["privileged"]["outlook"]
    waiting = (1 / 20 + 1 / 63 + 1 / 8) / 10
    assert ahead[5] == pytest.approx(rate(10 * waiting), abs=1e-4)
    assert ahead[6] == pytest.approx(log2(1 + 3600 * waiting * SCALE) / 10, abs=1e-4)
