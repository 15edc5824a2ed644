"""Pictures and texts of a cluster with a horizon."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rlsched import scenario
from rlsched.envs import picture_text
from rlsched.envs.cluster_view import ClusterView, places
from rlsched.envs.env import SchedulingEnv
from rlsched.envs.grid_picture import FREE, OFF, _Frame, draw_indexed, grid_cells
from rlsched.envs.palette import (
    BACKUP,
    DARK,
    DIM,
    DRAW,
    FORECAST,
    HUES,
    INK,
    PALE,
    PALETTE,
    SOLID,
    STORED,
    SUPPLY,
    UNUSED,
)
from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads.episodes import Episode
from tests.envs.examples import legal

WINDY = (
    "power.kind=synthetic",
    "power.level=0.4",
    "power.probability=0.5",
    "power.grid_kw=0.4",
    "power.battery={capacity_kwh: 6, charge_kw: 1.5, discharge_kw: 1.5}",
    "power.forecast_error=0.1",
    "decision.placement=horizon",
    "decision.suspend=true",
    "episode.max_ticks=80",
)
KINDS = {
    "windy": WINDY,
    "certain": (*WINDY, "power.forecast_error=0.0"),
    "now": (*WINDY, "decision.placement=now"),
    "no power": ("power=null", "decision.placement=horizon", "episode.max_ticks=80"),
    "one resource": ("cluster.resources=[{name: processors, units: 7}]", "episode.max_ticks=80"),
    "large": (*WINDY, "cluster.resources.0.units=1200", "power.grid_kw=40", "decision.window=40"),
    "far": ("decision.horizon=900", "episode.max_ticks=40", "workload.long=[10, 700]"),
    "eight": (
        "cluster.resources=[" + ", ".join(f"{{name: r{k}, units: {1 + 50 * k}}}" for k in range(8)) + "]",
        "episode.max_ticks=40",
    ),
    "no limits": ("decision.wait_pool=null", "episode.max_ticks=80", "decision.window=200"),
}


def green(kind: str) -> Scenario:
    return scenario.load("green-10", list(KINDS[kind]))


def moments(values: Scenario, render_mode: str, seed: int = 0) -> Iterator[SchedulingEnv]:
    """An episode of random legal actions, up to and with its end."""
    env = SchedulingEnv(values, render_mode=render_mode)
    _, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    done = False
    while not done:
        yield env
        _, _, terminated, truncated, info = env.step(int(legal(info["action_mask"][None], rng)[0]))
        done = terminated or truncated
    yield env


def of(env: SchedulingEnv) -> tuple[VectorSimulator, JobTable]:
    return env._vector.simulator, env._vector.episodes[0].jobs


@pytest.mark.parametrize("kind", ["windy", "now", "one resource", "large"])
def test_coloured_cells_are_the_units_that_are_held(kind: str) -> None:
    planned = suspended = 0
    for env in moments(green(kind), "ansi"):
        sim, jobs = of(env)
        view = ClusterView.of(sim, 0)
        planned += len(view.planned)
        suspended += places(sim, 0)["suspended"]
        for r, cells in enumerate(grid_cells(view, jobs)):
            used, on, units = view.used[r], view.on[r], view.units[r]
            np.testing.assert_array_equal((cells >= 0).sum(axis=1), used)
            np.testing.assert_array_equal((cells == FREE).sum(axis=1), np.maximum(0, on - used))
            np.testing.assert_array_equal((cells == OFF).sum(axis=1), units - np.maximum(on, used))
            held, counts = np.unique(cells[0][cells[0] >= 0], return_counts=True)
            np.testing.assert_array_equal(counts, jobs.demand[held, r])
    assert (planned > 0) == (kind in {"windy", "large"})
    assert suspended > 0 or kind not in {"windy", "now"}


POWER = PowerSeries(800.0 * np.array([1.0, 1.0, 1.0, 0.75, 1.0, 1.0]), np.zeros(6))


def by_hand() -> tuple[VectorSimulator, JobTable]:
    """Four processors and six ticks; 0 runs for five, 1 for three, 2 is planned behind it, 3 does not fit."""
    values = scenario.load(
        "green-10",
        [
            "cluster.resources=[{name: processors, units: 4}]",
            "decision.placement=horizon",
            "decision.horizon=6",
            "decision.window=2",
            "decision.time_rule=tick",
            "decision.skip_forced=false",
            "workload={kind: poisson, short: [1, 2], long: [3, 5]}",
        ],
    )
    sim = VectorSimulator(values, [4], 1, 4)
    jobs = JobTable.build(submit=[0, 0, 0, 0], runtime=[5, 3, 2, 6], demand=[1, 2, 2, 2])
    sim.load(0, jobs, power=POWER)
    for _ in range(3):
        sim.step(np.array([0]))
    return sim, jobs


def test_a_grid_by_hand() -> None:
    sim, jobs = by_hand()
    cells = grid_cells(ClusterView.of(sim, 0), jobs)[0]
    assert cells.tolist() == [
        [0, 1, 1, FREE],
        [0, 1, 1, FREE],
        [0, 1, 1, FREE],
        [0, 2, 2, OFF],
        [0, 2, 2, FREE],
        [FREE, FREE, FREE, FREE],
    ]


def test_a_picture_by_hand() -> None:
    sim, jobs = by_hand()
    image, frame = draw_indexed(sim, 0, jobs), _Frame.of(sim)

    def cell(row: int, column: int) -> set[int]:
        top, x0 = frame.top + row * frame.cell_h, frame.lefts[0] + column * frame.cell_w[0]
        part = image[top : top + frame.cell_h - 1, x0 : x0 + frame.cell_w[0] - 1]
        return set(np.unique(part).tolist())

    assert cell(0, 0) == {SOLID}
    assert cell(0, 2) == {SOLID + 1}
    assert cell(3, 1) == {SOLID + 2, PALE + 2}  # hatched
    assert cell(3, 3) == {DARK}
    assert cell(5, 0) == cell(0, 3) == {UNUSED}
    strip = image[frame.top : frame.top + 6 * frame.cell_h : frame.cell_h, frame.power : frame.power + 120]
    assert [DARK in row for row in strip] == [False, False, False, True, False, False]
    assert (strip == SUPPLY).sum() > 500
    assert (strip == DRAW).sum() == 12
    boxes = image[frame.top : frame.bottom - 80, frame.pool :]
    assert SOLID + 3 in boxes  # it waits, and may not be chosen
    assert INK not in boxes


def test_pictures_show_what_is_there() -> None:
    for env in moments(green("windy"), "rgb_array", seed=1):
        sim, jobs = of(env)
        frame, image = _Frame.of(sim), draw_indexed(sim, 0, jobs)
        np.testing.assert_array_equal(env.render(), PALETTE[image])
        view = ClusterView.of(sim, 0)
        for r in range(2):
            x0 = frame.lefts[r]
            right = x0 + 10 * frame.cell_w[r]
            colours = image[frame.top + 1 : frame.bottom : frame.cell_h, x0 + 1 : right : frame.cell_w[r]]
            assert colours.shape == (48, 10)
            np.testing.assert_array_equal((colours >= SOLID).sum(axis=1), view.used[r])
            dark = ((colours == DARK) | (colours >= DIM)).sum(axis=1)
            short = view.used[r] > view.on[r]
            np.testing.assert_array_equal(dark[~short], (view.units[r] - view.on[r])[~short])
        tank = image[frame.top : frame.bottom, frame.tank + 4] == STORED
        level = sim.state.episodes["battery_wh"][0] / 6000.0
        assert tank.mean() == pytest.approx(level, abs=0.02)
        row = image[frame.top + 8 + frame.cell_h, frame.power : frame.power + 120]
        assert set(row.tolist()) <= {FORECAST, DARK, DRAW}  # supply to come is not known
        now = image[frame.top, frame.power : frame.power + 120]
        assert set(now.tolist()) <= {SUPPLY, BACKUP, DARK, DRAW}
        framed = [image[frame.top, frame.pool + 3] == INK]
        assert framed == [bool(sim.mask[0, 0])]


@pytest.mark.parametrize(
    "kind",
    # The core for eight resources takes most of a minute to compile.
    [pytest.param(kind, marks=[pytest.mark.long] if kind == "eight" else []) for kind in KINDS],
)
@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_every_moment_can_be_rendered(kind: str, render_mode: str) -> None:
    shapes = set()
    for env in moments(green(kind), render_mode):
        picture = env.render()
        if render_mode == "ansi":
            assert "running" in picture
        else:
            assert picture.dtype == np.uint8
            shapes.add(picture.shape)
    if shapes:
        (shape,) = shapes  # films need frames of one size
        assert 300 <= shape[0] <= 600
        assert 600 <= shape[1] <= 1000


def test_the_colour_of_a_job_stays() -> None:
    """Whether it is planned or runs."""
    sim, jobs = by_hand()
    for _ in range(3):
        sim.step(np.array([sim.layout.num_actions - 1]))
    assert ClusterView.of(sim, 0).running.tolist() == [0, 2]
    frame, image = _Frame.of(sim), draw_indexed(sim, 0, jobs)
    assert image[frame.top + 1, frame.lefts[0] + 2 * frame.cell_w[0] + 1] == SOLID + 2


def test_a_text_by_hand() -> None:
    sim, jobs = by_hand()
    env = SchedulingEnv(sim.scenario, render_mode="ansi")
    env.reset(options={"episodes": [Episode(jobs, power=POWER)]})
    for _ in range(3):
        env.step(0)
    counts = "ready 1, wait 0, planned 1, running 2, suspended 0, finished 0, rejected 0"
    assert env.render().split("\n") == [
        f"tick 0   {counts}",
        "  processors  [##############################..........] 3 of 4 in use, 0 off",
        "               777#7.",
        "  power       supply 0.80 kW, draw 0.70 kW",
        "  running            units requested    age",
        "            1            1         5      0      5 left",
        "            2            2         3      0      3 left",
        "  planned            units requested    age",
        "            3            2         2      0  in      3",
        "  ready              units requested    age",
        "            4            2         6      0  fits never",
    ]


def test_hues_differ_from_all_other_colours() -> None:
    jobs, fixed = PALETTE[SOLID : SOLID + HUES].astype(int), PALETTE[:SOLID].astype(int)
    apart = np.abs(jobs[:, None] - fixed[None, [0, UNUSED, DARK]]).sum(axis=2)
    assert apart.min() > 100
    following = np.abs(jobs - np.roll(jobs, 1, axis=0)).sum(axis=1)
    assert following.min() > 80


def test_text_is_drawn_where_it_is_wanted() -> None:
    image = np.zeros((12, 40), np.uint8)
    picture_text.write(image, "Hj", 1, 2, 7)
    assert set(np.unique(image).tolist()) == {0, 7}
    rows, columns = np.nonzero(image)
    stem = np.flatnonzero(image[:, columns.min()])  # of the H
    assert stem.tolist() == list(range(stem[0], 8))  # down to the baseline
    assert len(stem) in {7, 8}
    assert columns.min() in {2, 3}
    assert rows.max() > 7  # the j reaches below the baseline
    assert columns.max() < 2 + picture_text.width("Hj")
    assert picture_text.width("Hj", 2) > 1.5 * picture_text.width("Hj")


def test_text_beyond_the_edges_is_cut_off() -> None:
    image = np.zeros((10, 40), np.uint8)
    picture_text.write(image[:4, :8], "WWWW", 2, 4, 9, scale=2)
    assert (image[:4, :8] == 9).any()
    image[:4, :8] = 0
    assert not image.any()
