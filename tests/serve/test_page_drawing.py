from __future__ import annotations

import random
import re

import pytest
from msgspec.structs import replace

from rlsched.serve.api.schema import (
    FAR,
    ClusterState,
    Decision,
    PlannedJob,
)
from rlsched.serve.page.drawing import Frame, Line, TimeAxis, compact, levels, step_chart
from rlsched.serve.page.gantt import time_axis
from rlsched.serve.page.history import (
    ROLLING,
    agreement_chart,
    ahead_charts,
    by_time,
    point,
    span,
    used_ahead,
)
from rlsched.serve.page.html import page
from rlsched.serve.page.schedule import MAX_JOBS, Schedule, arrange, uses
from tests.serve.pages import (
    NOW,
    POLICIES,
    answered,
    busy,
    page_data,
    record,
    running,
    waiting,
)


def test_units_are_those_of_the_policy_where_the_state_does_not_say() -> None:
    item = busy()
    assert point(item, [100]).free == 50
    assert point(item, []).free is None
    content = ClusterState(now=NOW, running=item.state.running, units=[60])
    assert point(replace(item, state=content), [100]).free == 10
    out = ClusterState(now=NOW, running=item.state.running, free=[5])
    assert point(replace(item, state=out), [100]).free == 5
    assert arrange(out, answered([]), 100).out == 45


def test_the_last_sent_state_is_the_newest() -> None:
    def content(*pairs: tuple[int, float]) -> list[int]:
        some = [record(ClusterState(now=now), answered([]), ago=-at) for now, at in pairs]
        random.Random(2).shuffle(some)
        return [item.state.now for item in by_time(some)]

    assert content((10, 1), (20, 2), (30, 3)) == [10, 20, 30]
    assert content((10, 1), (10, 2)) == [10]
    assert content((100, 1), (200, 2), (0, 3), (10, 4)) == [0, 10]  # a trace is played once more
    assert content((100, 1), (200, 2), (150, 3)) == [100, 150]
    assert content((30, 1), (10, 1), (20, 1)) == [10, 20, 30]  # of one request


def overlapping(result: Schedule) -> list[tuple[object, object]]:
    bars = [*result.bars, *result.stairs]
    return [
        (a, b)
        for k, a in enumerate(bars)
        for b in bars[:k]
        if a.low < b.high and b.low < a.high and a.use.begin < b.use.end and b.use.begin < a.use.end
    ]


@pytest.mark.parametrize("seed", range(30))
def test_no_unit_is_held_twice(seed: int) -> None:
    rng = random.Random(seed)
    many = 600 if seed % 5 == 0 else 30
    held = [running(k, rng.randint(1, 9), -rng.randint(0, 900), rng.randint(-300, 900)) for k in range(many)]
    queue = [waiting(1000 + k, rng.randint(1, 20), requested=rng.randint(1, 900)) for k in range(12)]
    planned = [
        PlannedJob(
            id=2000 + k, submit=0, requested=300, demand=[rng.randint(1, 9)], at=NOW + rng.randint(1, 900)
        )
        for k in range(5)
    ]
    used = sum(job.demand[0] for job in held)
    state = ClusterState(now=NOW, running=held, waiting=queue, planned=planned)
    free, decisions = rng.randint(20, 60), []
    units = used + free
    suspended = held[0]
    decisions.append(Decision(suspended.id, "suspend", NOW, 0.5))
    room = free + suspended.demand[0]
    for job in queue:
        if job.demand[0] <= room:
            room -= job.demand[0]
            decisions.append(Decision(job.id, "start", NOW, 0.5))
        else:
            decisions.append(
                Decision(job.id, rng.choice(("plan", "reserve")), NOW + rng.randint(1, 900), 0.5)
            )
    answer = answered(decisions)
    result = arrange(state, answer, units)
    assert overlapping(result) == []
    assert result.units == units  # what is free holds what starts, also what a suspended job leaves
    assert all(0 <= bar.low < bar.high <= units for bar in result.bars)
    drawn: dict[object, int] = {}
    for bar in result.bars:
        drawn[bar.use.job] = drawn.get(bar.use.job, 0) + bar.high - bar.low
    expected = {use.job: use.units for part in uses(state, answer) for use in part}
    assert all(drawn[job] == expected[job] for job in drawn)
    assert len(drawn) + result.small + result.left_out + result.without_room == len(expected)
    if many > MAX_JOBS:
        assert len(drawn) <= MAX_JOBS
        small = used - sum(drawn[job.id] for job in held if job.id in drawn)
        assert sum(bar.high - bar.low for bar in result.stairs) == small
        assert max(result.stairs, key=lambda bar: bar.use.end).low == 0


def test_jobs_look_as_they_are() -> None:
    state = ClusterState(
        now=NOW,
        running=[
            running("runs", 1, -9, 9),
            running("late", 1, -9, -1),
            running("due", 1, -9, 0),
            running("out", 1, -9, 9),
        ],
        waiting=[waiting("starts", 1, requested=50, ran=20), waiting("waits", 1), waiting("kept", 1)],
        planned=[PlannedJob(id="before", submit=0, requested=7, demand=[1], at=NOW + 5)],
        suspended=[waiting("again", 1, requested=90, ran=30)],
    )
    answer = answered(
        [
            Decision("starts", "start", NOW, 0.5),
            Decision("kept", "reserve", NOW + 3, 0.5),
            Decision("again", "plan", NOW + 4, 0.5),
            Decision("out", "suspend", NOW, 0.5),
        ]
    )
    result = {
        use.job: (use.look, use.begin - NOW, use.end - NOW) for part in uses(state, answer) for use in part
    }
    assert result == {
        "runs": ("runs", -9, 9),
        "late": ("overdue", -9, 1),
        "due": ("runs", -9, 1),
        "out": ("suspends", -9, 0),
        "starts": ("starts", 0, 30),
        "kept": ("reserved", 3, 3603),
        "again": ("planned", 4, 64),
        "before": ("planned", 5, 12),
    }
    text = page(POLICIES, page_data([record(state, answer)]))
    for look in ("runs", "overdue", "suspends", "starts", "reserved", "planned"):
        assert text.count(f'<rect class="bar {look}" x="1"') == 1  # in the legend
    for words in (
        "runs: 1 unit, runs, began 9 s ago, for another 9 s",
        "late: 1 unit, should have ended, began 9 s ago",
        "again: 1 unit, planned, in 4 s, for 60 s",
    ):
        assert f"<title>{words}</title>" in text


def test_bars_stand_where_their_times_are() -> None:
    item = busy()
    result = arrange(item.state, item.answer, 100)
    axis = time_axis(result)
    text = page(POLICIES, page_data([item]))
    bar = re.search(
        r'<rect class="bar runs" x="([\d.]+)%" y="([\d.]+)" width="([\d.]+)%" height="([\d.]+)"><title>r1',
        text,
    )
    x, y, width, height = map(float, bar.groups())
    whole = axis.end - axis.begin
    assert x == pytest.approx(100 * (NOW - 600 - axis.begin) / whole, abs=0.01)
    assert width == pytest.approx(100 * 3600 / whole, abs=0.01)
    assert (y, height) == pytest.approx(
        (320 * 0.7, 320 * 0.3), abs=0.1
    )  # 30 of 100 units, from the lowest on


def test_a_few_long_jobs_do_not_squeeze_the_others() -> None:
    held = [running(k, 1, -600, 600) for k in range(9)] + [running("long", 1, -NOW, FAR // 2)]
    result = arrange(ClusterState(now=NOW, running=held), answered([]), 10)
    assert time_axis(result) == TimeAxis(NOW - 8 * 600, NOW + 8 * 600, NOW)
    assert "parts of 1 job." in page(
        POLICIES, page_data([record(ClusterState(now=NOW, running=held), answered([]))])
    )


@pytest.mark.parametrize("seed", range(10))
def test_units_ahead_are_counted_tick_by_tick(seed: int) -> None:
    rng = random.Random(seed)
    held = [running(k, rng.randint(1, 9), -rng.randint(0, 9000), rng.randint(-300, 9000)) for k in range(20)]
    queue = [waiting(100 + k, rng.randint(1, 9), requested=rng.randint(1, 9000)) for k in range(9)]
    actions = ("start", "plan", "reserve")
    decisions = []
    for job in queue:
        action = rng.choice(actions)
        decisions.append(
            Decision(job.id, action, NOW + (0 if action == "start" else rng.randint(1, 9000)), 0.5)
        )
    state, answer = ClusterState(now=NOW, running=held, waiting=queue), answered(decisions)
    result = used_ahead(state, answer, 900, 12)
    parts = [use for part in uses(state, answer) for use in part if use.look != "reserved"]
    for k, level in enumerate(result):
        time_s = NOW + 900 * k
        assert level == sum(use.units for use in parts if use.begin <= time_s < use.end)


def test_power_is_shown_only_where_states_carry_it() -> None:
    bare = ClusterState(now=NOW)
    assert ahead_charts(bare, answered([]), 900, 4, "cpu") == ""
    assert "Power" not in page(POLICIES, page_data([record(bare, answered([]))]))
    state = ClusterState(now=NOW, units_on=[[10, 7]], supply_kw=[1.5, 0.0, 99.0])
    drawn = ahead_charts(state, answered([]), 900, 2, "cpu")
    assert "10 units are on now, at least 7 over the next 2 ticks; 0 are used now" in drawn
    assert "1.50 kW now, between 0 and 1.50 kW" in drawn  # what lies beyond the horizon is not shown


def levels_of(path: str) -> list[tuple[float, float, float]]:
    """(from, to, height) of the level parts of a path."""
    result, x, y = [], 0.0, 0.0
    for letter, numbers in re.findall(r"([MHV])([-\d. ]+)", path):
        values = [float(number) for number in numbers.split()]
        if letter == "M":
            x, y = values
        elif letter == "V":
            y = values[0]
        else:
            result.append((x, values[0], y))
            x = values[0]
    return result


def test_lines_stay_until_the_next_point() -> None:
    frame = Frame("t", "d", TimeAxis(0, 100, 100), [0, 10], 100)
    points = [(0, 5.0), (10, 5.0), (20, 10.0), (40, None), (60, 0.0), (100, 0.0)]
    drawn = step_chart(frame, [Line("<l>", "first", points)])
    path = re.search(r'<path class="line first" d="([^"]+)"/></svg>', drawn.partition("</ul>")[2])[1]
    assert levels_of(path) == [(0, 200, 50), (200, 400, 0), (600, 1000, 100)]
    assert "&lt;l&gt;" in drawn


def test_a_single_point_is_a_dot() -> None:
    frame = Frame("t", "d", TimeAxis(0, 100, 100), [0, 10], 100)
    assert 'd="M500 50.0H500"' in step_chart(frame, [Line("l", "first", [(0, None), (50, 5.0)])])


def test_agreement_is_of_the_last_states() -> None:
    rng = random.Random(3)
    agrees = [rng.choice((True, False, None)) for _ in range(60)]
    some = [
        record(ClusterState(now=NOW + k), answered([], agrees=value), ago=60 - k)
        for k, value in enumerate(agrees)
    ]
    points = [point(item, [100]) for item in by_time(some)]
    axis = span(points, NOW + 59)
    assert axis is not None
    drawn = agreement_chart(points, axis)
    content = [value for value in agrees if value is not None][-ROLLING:]
    share = 100 * sum(content) / len(content)
    assert f"agreement <b>{share:.3g} %</b>" in drawn.replace(".0 %", " %")
    assert drawn.count('<line class="failed"') == agrees.count(None) + 1  # and one in the legend
    assert f"The policy failed in {agrees.count(None)} of 60 states." in drawn


@pytest.mark.parametrize("length", [1, 7, 59, 60, 600, 5000, 86_400, 10**6, 10**9, 10**12])
def test_ticks_are_few_and_where_people_expect_them(length: int) -> None:
    axis = TimeAxis(NOW - length / 3, NOW + 2 * length / 3, NOW)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 9
    (now,) = [tick for tick in ticks if tick.label == "now"]
    assert now.at == NOW
    assert not now.spare
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "y": 31_536_000}
    for tick in ticks:
        if tick.label != "now":
            value, unit = tick.label.replace("−", "-").replace(",", "").split()  # noqa: RUF001
            assert float(value) * sizes[unit] == pytest.approx(tick.at - NOW, rel=1e-2)
            assert axis.begin <= tick.at <= axis.end


@pytest.mark.parametrize("top", [0, 0.003, 1, 3, 10, 64, 99.5, 240, 2**31, 1e12])
def test_marks_hold_the_largest_value(top: float) -> None:
    for whole in (True, False):
        marks = levels(top, whole=whole)
        assert marks[0] == 0
        assert top <= marks[-1] * (1 + 1e-9)
        assert 2 <= len(marks) <= 6
        if whole:
            assert all(mark == int(mark) for mark in marks)
    assert len(compact(marks[-1])) <= 8


def test_numbers_of_axes_are_short() -> None:
    assert [compact(value) for value in (0, 1500, 99_999, 100_000, 262_144, 2.5e6, 2**31, 1e12)] == [
        "0",
        "1,500",
        "99,999",
        "100 k",
        "262.1 k",
        "2.5 M",
        "2.147 G",
        "1 T",
    ]
