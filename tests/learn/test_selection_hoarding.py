"""Hoarding and unfinished jobs in the selection of the best policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rlsched.evaluate.bootstrap import bootstrap_columns
from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT
from rlsched.learn.selection import MARGIN
from tests.learn.test_selection import HEURISTIC, violation


def hoarded(parts: Sequence[int] = (0,), **matching: Sequence[float]) -> float:
    """What is told of a policy with these figures, where sjf has those of `HEURISTIC` in every episode."""
    sjf = {name: np.full(len(parts), value) for name, value in HEURISTIC.items()}
    changed = {name: np.array(item) for name, item in matching.items()}
    return violation(sjf | changed, sjf, np.array(parts))


def test_hoarding_is_what_is_beyond_the_limits() -> None:
    """Of spans and waits, the worse of the two."""
    assert hoarded(schedule_span=[2.0 * SPAN_LIMIT * MARGIN], wait=[1000 * WAIT_LIMIT * MARGIN]) == 0
    assert hoarded(schedule_span=[2.0 * SPAN_LIMIT]) == pytest.approx(1 / MARGIN - 1)
    assert hoarded(wait=[1000.0 * WAIT_LIMIT]) == pytest.approx(1 / MARGIN - 1)
    pair = hoarded(schedule_span=[8.0], wait=[1000.0 * WAIT_LIMIT])
    assert pair == pytest.approx(4 / (SPAN_LIMIT * MARGIN) - 1)
    assert pair < hoarded(schedule_span=[10.0])


def test_leaving_jobs_unfinished_is_hoarding() -> None:
    assert hoarded(completion_ratio=[0.95]) == 0
    assert hoarded(completion_ratio=[0.6]) == pytest.approx(0.5)
    assert hoarded(completion_ratio=[0.0]) > 10


def test_a_part_of_a_mixture_does_not_hide_behind_the_others() -> None:
    """Of the parts the worst counts, by the lower end of its interval; without parts the mean."""
    waits = [500.0] * 8 + [3000.0, 2000.0] * 4
    assert hoarded([0] * 16, wait=waits) == 0
    low = bootstrap_columns([np.array(waits[8:])])[0].low
    assert 2000 < low < 2500
    assert hoarded([0] * 8 + [1] * 8, wait=waits) == pytest.approx(low / 1000 / (WAIT_LIMIT * MARGIN) - 1)
    assert hoarded([0] * 4 + [2] * 4 + [1] * 8, wait=waits) == hoarded([0] * 8 + [1] * 8, wait=waits)
    assert hoarded([0] * 16, wait=[2000.0] * 16) == pytest.approx(2.0 / (WAIT_LIMIT * MARGIN) - 1)


def test_a_part_in_which_few_episodes_are_beyond_may_be_so_by_chance() -> None:
    waits = [1000.0] * 8 + [1000.0] * 7 + [9000.0]
    assert np.mean(waits[8:]) > 1000 * WAIT_LIMIT
    assert hoarded([0] * 8 + [1] * 8, wait=waits) == 0


def test_where_sjf_never_waits_a_part_may_wait_seconds_in_some_episodes_only() -> None:
    idle = {name: np.full(16, value) for name, value in {**HEURISTIC, "wait": 0.0}.items()}
    parts = np.arange(16) // 8
    assert violation(idle | {"wait": np.full(16, 1.0)}, idle, parts) == 0
    minutes = violation(idle | {"wait": np.full(16, 60.0)}, idle, parts)
    assert minutes == pytest.approx(60.0 / (WAIT_LIMIT * MARGIN) - 1)
    hardly = idle | {"wait": np.where(np.arange(16) % 8 == 0, 0.08, 0.0)}
    assert violation(hardly | {"wait": np.full(16, 60.0)}, hardly, parts) == pytest.approx(minutes, rel=1e-2)


@pytest.mark.parametrize("parts", [np.zeros(4, np.int64), np.array([0, 0, 1, 1])])
def test_a_policy_that_starts_no_job_is_scored_by_unfinished_jobs(parts: np.ndarray) -> None:
    """Such an episode has neither wait nor span."""
    sjf = {name: np.full(4, value) for name, value in HEURISTIC.items()}
    idle = sjf | {
        "wait": np.array([np.nan, 1000.0, 1000.0, 1000.0]),
        "schedule_span": np.array([np.nan, 2.0, 2.0, 2.0]),
        "completion_ratio": np.array([0.0, 0.5, 0.5, 0.5]),
    }
    assert violation(idle, sjf, parts) == pytest.approx(0.9 / 0.375 - 1)


def test_shares_of_what_sjf_waits_in_the_same_episodes() -> None:
    """Episodes that differ a hundredfold say as much as equal ones, where waits are twice as long in each."""
    sjf = {name: np.full(16, value) for name, value in HEURISTIC.items()}
    sjf["wait"] = np.geomspace(100.0, 10_000.0, 16)
    changed = sjf | {"wait": 2.0 * sjf["wait"]}
    assert violation(changed, sjf, np.arange(16) // 8) == pytest.approx(2.0 / (WAIT_LIMIT * MARGIN) - 1)


def test_a_queue_that_is_always_empty_allows_seconds() -> None:
    idle = {name: np.array([value]) for name, value in {**HEURISTIC, "wait": 0.0}.items()}
    waits = [violation(idle | {"wait": np.array([wait])}, idle, np.array([0])) for wait in (1.0, 2.0)]
    assert waits[0] == 0
    assert waits[1] > 0
