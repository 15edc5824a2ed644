"""The controller of a multiplier, against the sums that it stands for, written out over the whole history."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlsched.learn.config.sections import Pid
from rlsched.learn.pid import Control, LimitCheck, control

COSTS = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=60)
PIDS = st.builds(
    Pid,
    kp=st.floats(0.0, 10.0),
    ki=st.floats(0.0, 1.0),
    kd=st.floats(0.0, 10.0),
    error_smoothing=st.floats(0.0, 0.99),
    cost_smoothing=st.floats(0.0, 0.99),
    delay=st.integers(1, 20),
    integral_limit=st.floats(0.0, 20.0),
    largest_error=st.none() | st.floats(0.1, 20.0),
    initial=st.floats(0.0, 2.0),
)


def controlled(costs: list[float], limit: float, pid: Pid) -> list[Control]:
    actual: list[Control] = []
    for cost in costs:
        actual.append(control(actual[-1] if actual else None, cost, limit, pid))
    return actual


def averages(values: list[float], smoothed: float) -> list[float]:
    """Each a weighted sum of all until then."""
    return [
        sum(
            value * (smoothed**t if k == 0 else (1.0 - smoothed) * smoothed ** (t - k))
            for k, value in enumerate(values[: t + 1])
        )
        for t in range(len(values))
    ]


@given(COSTS, st.floats(0.0, 50.0), PIDS)
def test_parts_are_the_sums_that_they_stand_for(costs: list[float], limit: float, pid: Pid) -> None:
    actual = controlled(costs, limit, pid)
    largest = pid.largest_error or 1000.0
    counted = [min(max(cost - limit, -largest), largest) for cost in costs]
    errors = averages(counted, pid.error_smoothing)
    smooth = averages(costs, pid.cost_smoothing)
    integral = pid.initial
    for t, state in enumerate(actual):
        integral = min(max(integral + pid.ki * counted[t], 0.0), pid.integral_limit)
        rise = max(0.0, smooth[t] - smooth[max(0, t - pid.delay)])
        assert state.error == costs[t] - limit  # as it was, whatever counts
        assert state.proportional == pytest.approx(errors[t], abs=1e-6)
        assert state.integral == pytest.approx(integral, abs=1e-6)
        assert state.derivative == pytest.approx(rise, abs=1e-6)
        expected = max(0.0, pid.kp * errors[t] + integral + pid.kd * rise)
        assert state.multiplier == pytest.approx(expected, abs=1e-4)
        assert len(state.smoothed) <= pid.delay + 1


@given(COSTS, PIDS)
def test_a_limit_of_nothing_is_one(costs: list[float], pid: Pid) -> None:
    for state in controlled(costs, 0.0, pid):
        assert all(isfinite(value) for value in (*state.smoothed, state.multiplier, state.error))
        assert state.multiplier >= 0.0


@given(COSTS, COSTS, PIDS)
def test_who_is_written_down_goes_on_alike(before: list[float], after: list[float], pid: Pid) -> None:
    whole = controlled(before + after, 1.0, pid)
    state = Control.model_validate_json(controlled(before, 1.0, pid)[-1].model_dump_json())
    for cost, expected in zip(after, whole[len(before) :], strict=True):
        state = control(state, cost, 1.0, pid)
        assert state == expected


def test_plain_lagrange_adds_errors_up() -> None:
    plain = Pid(kp=0, ki=0.5, kd=0, integral_limit=2.0)
    actual = [state.multiplier for state in controlled([3.0, 2.0, 0.0, 0.0, 9.0], 1.0, plain)]
    assert actual == [1.0, 1.5, 1.0, 0.5, 2.0]


def test_an_error_counts_only_so_far() -> None:
    cut = Pid(kp=2, ki=0.5, kd=0, error_smoothing=0.5, largest_error=1.0)
    actual = [state.multiplier for state in controlled([40.0, 1.0, 0.0], 1.0, cut)]
    assert actual == pytest.approx([2 * 1 + 0.5, 2 * 0.5 + 0.5, max(0.0, 2 * -0.25 + 0.0)])


def test_costs_that_rise_are_answered_before_they_are_too_high() -> None:
    rising = [0.1 * t for t in range(9)]
    damped = controlled(rising, 1.0, Pid(kp=0.0, ki=0.1, kd=2.0, cost_smoothing=0.0, delay=4))
    assert all(state.error < 0 for state in damped)
    assert damped[-1].multiplier == pytest.approx(2.0 * 0.4)
    falling = controlled(rising[::-1], 1.0, Pid(kp=0.0, ki=0.1, kd=2.0))
    assert [state.derivative for state in falling] == [0.0] * len(rising)


@pytest.mark.parametrize(
    ("mean", "highest", "excess", "margin", "verdict"),
    [
        (80.0, 90.0, -0.1, 0.1, "within"),
        (100.0, 100.0, 0.0, 0.0, "within"),
        (95.0, 105.0, 0.05, 0.1, "within on average, not by interval,"),
        (200.0, 220.0, 1.2, 0.1, "above"),
    ],
)
def test_the_upper_end_of_the_interval_decides_on_a_limit(
    mean: float, highest: float, excess: float, margin: float, verdict: str
) -> None:
    check = LimitCheck(limit=100.0, mean=mean, highest=highest, unit=100.0)
    assert (check.excess, check.margin, check.verdict) == (
        pytest.approx(excess),
        pytest.approx(margin),
        verdict,
    )


def test_of_a_limit_of_0_an_excess_is_a_share_of_the_cheapest_heuristic() -> None:
    check = LimitCheck(limit=0.0, mean=2.0, highest=3.0, unit=6.0)
    assert (check.excess, check.margin, check.verdict) == (0.5, 0.5, "above")
    nothing = LimitCheck(limit=0.0, mean=0.0, highest=0.0, unit=6.0)
    assert (nothing.excess, nothing.margin, nothing.verdict) == (0.0, 0.0, "within")
