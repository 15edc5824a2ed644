"""What hoarding costs candidates: by hand, and in a loop that is closed."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.evaluate.hoarding import SPAN_LIMIT, WAIT_LIMIT
from rlsched.jobs import FloatArray
from rlsched.learn.algorithms.learners.hoarding import FAR, GOAL, hoarding_penalties
from rlsched.learn.algorithms.priority_search import Search
from rlsched.learn.config.sections import Pid
from rlsched.learn.pid import Control, control
from rlsched.learn.selection import MARGIN

PID = Pid(kp=0.0, ki=0.5, kd=0.0)
SJF = {"wait": np.array([100.0, 300.0, 50.0]), "schedule_span": np.ones(3), "completion_ratio": np.ones(3)}
PARTS = np.array([0, 0, 1])


def candidate(*waits: float, span: float = 1.0, finished: float = 1.0) -> dict[str, FloatArray]:
    return {
        "wait": np.array(waits),
        "schedule_span": np.full(3, span),
        "completion_ratio": np.full(3, finished),
    }


CANDIDATES = [candidate(100, 300, 50), candidate(200, 600, 50, span=2), candidate(600, 1800, 50)]


def test_the_first_generation_pays_nothing_and_sets_the_multipliers() -> None:
    """By the middle candidate, means of all episodes of a part: twice the wait of sjf on the first."""
    amounts, prices = hoarding_penalties({}, CANDIDATES, SJF, PARTS, PID)
    assert amounts.tolist() == [0.0, 0.0, 0.0]
    costs = {name: price.cost for name, price in prices.items()}
    spans = dict.fromkeys(("0 schedule_span", "1 schedule_span"), 1 / (SPAN_LIMIT * MARGIN))
    waits = {"0 wait": 2 / (WAIT_LIMIT * MARGIN), "1 wait": 1 / (WAIT_LIMIT * MARGIN)}
    jobs = {"0 unfinished": 1.0, "1 unfinished": 1.0}
    assert costs == pytest.approx(spans | waits | jobs)
    assert prices["0 wait"] == control(None, costs["0 wait"], GOAL, PID)
    assert prices["0 unfinished"].error == 0.0  # what sjf has, though that is above the goal
    assert [name for name, price in prices.items() if price.multiplier > 0] == ["0 wait"]


def test_a_part_pays_by_its_share_of_the_episodes() -> None:
    _, prices = hoarding_penalties({}, CANDIDATES, SJF, PARTS, PID)
    costs, moved = hoarding_penalties(prices, CANDIDATES, SJF, PARTS, PID)
    price = prices["0 wait"].multiplier
    shares = np.array([1.0, 2.0, 6.0]) / (WAIT_LIMIT * MARGIN)
    assert costs == pytest.approx(2 / 3 * price * shares)
    assert moved["0 wait"].multiplier == pytest.approx(2 * price)


def test_giving_jobs_up_is_no_way_to_a_short_wait() -> None:
    """Half of the jobs are rejected, and nobody waits: that is paid for, once most do it."""
    lost = [candidate(1, 1, 1, finished=0.5)] * 2 + [candidate(200, 600, 100)]
    _, prices = hoarding_penalties({}, lost, SJF, PARTS, PID)
    costs, _ = hoarding_penalties(prices, lost, SJF, PARTS, PID)
    assert costs[0] == costs[1] > costs[2] > 0


def test_who_starts_nothing_pays_for_the_worst_and_stops_nobody() -> None:
    idle = candidate(np.nan, np.nan, np.nan, span=np.nan, finished=0.0)
    _, prices = hoarding_penalties({}, [*CANDIDATES, idle, CANDIDATES[1]], SJF, PARTS, PID)
    costs, moved = hoarding_penalties(prices, [*CANDIDATES, idle, CANDIDATES[1]], SJF, PARTS, PID)
    assert np.isfinite(costs).all()
    assert costs.argmax() in {2, 3}
    assert all(np.isfinite(price.multiplier) for price in moved.values())
    nobody, still = hoarding_penalties(prices, [idle, idle], SJF, PARTS, PID)
    assert still["0 wait"] == prices["0 wait"]
    assert np.isfinite(nobody).all()


def test_one_generation_far_beyond_does_not_set_the_price_for_long() -> None:
    wild = [candidate(1e5, 3e5, 5e4)] * 3
    _, prices = hoarding_penalties({}, wild, SJF, PARTS, Search().pid)
    assert prices["0 wait"].cost == FAR
    assert prices["0 wait"].multiplier < 1.5


def test_what_no_episode_is_of_keeps_its_price() -> None:
    _, prices = hoarding_penalties({}, CANDIDATES, SJF, PARTS, PID)
    second = [{name: value[2:] for name, value in item.items()} for item in (*CANDIDATES, SJF)]
    costs, moved = hoarding_penalties(prices, second[:-1], second[-1], PARTS[2:], PID)
    assert moved["0 wait"] == prices["0 wait"]
    assert costs.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("slope", [0.5, 1.5])
def test_prices_bring_noisy_waits_to_the_limit(slope: float) -> None:
    """Candidates wait less where it costs more, seen through few episodes: the mean comes to the goal."""
    rng = np.random.default_rng(0)
    prices: dict[str, Control] = {}
    allowed, recorded = WAIT_LIMIT * MARGIN, []
    for _ in range(400):
        price = prices["0 wait"].multiplier if prices else 0.0
        wait = allowed * (1.6 - slope * price) * rng.lognormal(-0.08, 0.4)
        actual = [candidate(*(wait * part * SJF["wait"])) for part in (0.8, 1.0, 1.3)]
        _, prices = hoarding_penalties(prices, actual, SJF, np.zeros(3, np.int64), Search().pid)
        recorded.append(wait / allowed)
    assert np.mean(recorded[200:]) == pytest.approx(GOAL, abs=0.05)
