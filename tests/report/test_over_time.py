"""Pictures of episodes tick by tick: power by source, jobs by place, and films."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from rlsched import scenario
from rlsched.envs.grid_picture import draw_indexed
from rlsched.envs.palette import PALETTE
from rlsched.errors import BadInputError
from rlsched.evaluate.history import History, record
from rlsched.evaluate.policies import HeuristicPolicy
from rlsched.evaluate.results import Result
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.report import over_time as films
from rlsched.report.html import write_report
from rlsched.report.over_time import Timeline, draw_jobs, draw_power, draw_summary, film, to_gif
from rlsched.report.panels import DONE, PLACES, POINTS, POWER, WAIT_POOL, Grain
from rlsched.report.style import DPI, to_png
from rlsched.report.words import TimeUnit
from rlsched.sim.simulator import VectorSimulator

WINDY = (
    "power.kind=synthetic",
    "power.level=0.4",
    "power.probability=0.5",
    "power.grid_kw=0.4",
    "power.battery={capacity_kwh: 6, charge_kw: 1.5, discharge_kw: 1.5}",
    "decision.wait_pool=10",
    "episode.max_ticks=120",
)


def opened(*settings: str) -> Session:
    return open_session(scenario.load("green-10", list(settings)), Choice(episodes=1))


def played(session: Session, *rules: str) -> list[History]:
    return [
        record(
            HeuristicPolicy("sjf", rule, scenario=session.scenario),
            session.episodes[0],
            session.units,
        )
        for rule in rules
    ]


@pytest.fixture(scope="module")
def session() -> Session:
    return opened(*WINDY)


@pytest.fixture(scope="module")
def windy(session: Session) -> Timeline:
    return Timeline("windy: <10> & 10", played(session, "now", "horizon"))


def texts(figure: Figure) -> str:
    return "\n".join(item.get_text() for item in figure.findobj(mpl.text.Text))


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def top_of(axes: Axes) -> float:
    """The highest edge of what is filled."""
    edges = [float(path.vertices[:, 1].max()) for area in axes.collections for path in area.get_paths()]
    return max(edges, default=0.0)


def test_power_by_source(windy: Timeline) -> None:
    figure = draw_power(windy)
    power, battery = figure.axes[:2]
    assert len(figure.axes) == 4
    assert [axes.get_ylabel() for axes in (power, battery)] == ["power (kW)", "battery\n(kWh)"]
    assert figure.axes[3].get_xlabel() == "time since the first submit (d)"
    assert legend(figure) == [
        "renewable, used at once",
        "battery",
        "grid",
        "renewable, into the battery",
        "renewable, curtailed",
        "draw",
        "draw of all units under load",
    ]
    history = windy.histories[0]
    draw = next(line for line in power.get_lines() if line.get_color() == "#1f2430")
    np.testing.assert_allclose(draw.get_ydata()[:-1], history.power_kw("energy_kwh"))
    grid = power.collections[2].get_paths()[0].vertices[:, 1]
    assert grid.max() <= draw.get_ydata().max() + 1e-9  # the sources end at the draw
    supply = history.direct_kw + history.power_kw("charged_kwh") + history.power_kw("curtailed_kwh")
    np.testing.assert_allclose(top_of(power), max(supply.max(), draw.get_ydata().max()))
    assert battery.get_ylim() == (0, 6)
    assert "kWh drawn" in texts(figure)
    assert "kg carbon" in texts(figure)


def test_jobs_by_place(windy: Timeline) -> None:
    figure = draw_jobs(windy)
    assert [axes.get_ylabel() for axes in figure.axes[:4]] == [
        "jobs",
        "wait pool\n(jobs)",
        "units (%)",
        "done\n(jobs)",
    ]
    assert not any(history.place("suspended").any() for history in windy.histories)
    assert legend(figure)[:4] == ["running", "planned", "ready pool", "wait pool"]
    for k, history in enumerate(windy.histories):
        jobs, wait, _, done = figure.axes[4 * k : 4 * k + 4]
        stack = sum(history.place(name)[:-1] for name in ("running", "planned", "suspended", "ready"))
        assert top_of(jobs) == np.max(stack)
        assert top_of(wait) == history.place("wait").max()
        finished = done.get_lines()[0].get_ydata()
        assert finished[-1] == history.played.finished.sum()
        assert f"{history.played.finished.sum()} finished" in texts(figure)
    for first, second in zip(figure.axes[:4], figure.axes[4:], strict=True):
        assert first.get_ylim() == second.get_ylim()  # the same height is as much
        assert first.get_ylim()[1] >= max(top_of(first), top_of(second))


def test_a_summary_has_a_column_per_policy(windy: Timeline) -> None:
    figure = draw_summary(windy)
    assert len(figure.axes) == 14
    assert "sjf + now" in texts(figure)
    assert "sjf + horizon" in texts(figure)
    assert figure.axes[0].get_position().x1 < figure.axes[7].get_position().x0
    image = Image.open(BytesIO(to_png(figure)))
    assert image.size[0] == 12 * DPI
    assert len(draw_summary(Timeline("one", windy.histories[:1])).axes) == 7


def test_nothing_is_cut_off_and_names_do_not_meet(windy: Timeline) -> None:
    long = "runs/a-policy-of-a-very-long-name/that-goes-on-and-on + policy"
    timeline = Timeline("long names", [replace(history, name=long) for history in windy.histories])
    for draw in (draw_power, draw_jobs, draw_summary):
        figure = draw(timeline)
        to_png(figure)  # lays it out
        box = figure.get_tightbbox()  # inches
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.get_figwidth()
        assert box.y1 <= figure.get_figheight()
        heads = [
            text
            for axes in figure.axes
            for text in (axes.title, axes._right_title, *axes.texts)  # type: ignore[attr-defined]
            if text.get_text()
        ]
        for k, first in enumerate(heads):
            for second in heads[:k]:
                assert not first.get_window_extent().overlaps(second.get_window_extent())


def test_without_power_or_battery_there_is_nothing_of_them() -> None:
    plain = Timeline("no power", played(opened("power=null", "episode.max_ticks=40"), "now"))
    assert not plain.powered
    with pytest.raises(ValueError, match="no power to draw"):
        draw_power(plain)
    assert len(draw_summary(plain).axes) == 5
    steady = Timeline("steady", played(opened("episode.max_ticks=40"), "now"))
    figure = draw_power(steady)
    assert len(figure.axes) == 1
    assert legend(figure) == [
        "renewable, used at once",
        "renewable, curtailed",
        "draw",
        "draw of all units under load",
    ]


def test_nothing_to_draw_is_refused(windy: Timeline) -> None:
    with pytest.raises(ValueError, match="give at least one policy"):
        draw_jobs(Timeline("empty", []))
    history = windy.histories[0]
    at_once = replace(history, **{name: getattr(history, name)[:1] for name in MOMENTS})
    with pytest.raises(ValueError, match="over at once"):
        draw_jobs(Timeline("short", [at_once]))


MOMENTS = ("places", "used", "on", "accounts", "battery_kwh", "value")


def test_an_episode_of_one_tick(windy: Timeline) -> None:
    history = windy.histories[0]
    short = replace(history, **{name: getattr(history, name)[:2] for name in MOMENTS})
    for draw in (draw_power, draw_jobs, draw_summary):
        assert to_png(draw(Timeline("short", [short, history])))
        assert to_png(draw(Timeline("short", [short])))


@pytest.mark.parametrize(
    ("ticks", "step"), [(1, 1), (POINTS, 1), (POINTS + 1, 2), (2000, 4), (8760, 24), (100_000, 200)]
)
def test_long_episodes_become_means(windy: Timeline, ticks: int, step: int) -> None:
    long = replace(windy.histories[0], value=np.zeros(ticks + 1))
    grain = Grain.of([long])
    assert grain.step == step
    rate = np.random.default_rng(0).random(ticks)
    times, means = grain.means(rate)
    assert len(times) <= POINTS + 1
    widths = np.diff(times) * grain.unit.seconds / 3600
    assert (means[:-1] * widths).sum() == pytest.approx(rate.sum())  # as much energy as there was
    times, levels = grain.levels(np.arange(ticks + 1))
    np.testing.assert_allclose(times * grain.unit.seconds / 3600, levels)
    assert levels[-1] == ticks


def test_means_by_hand() -> None:
    grain = Grain(ticks=5, step=2, tick_s=60, unit=TimeUnit("min", 60))
    times, means = grain.means(np.array([1, 3, 5, 7, 9]))
    assert times.tolist() == [0, 2, 4, 5]
    assert means.tolist() == [2, 6, 9, 9]
    times, levels = grain.levels(np.array([0, 1, 2, 3, 4, 5]))
    assert (times.tolist(), levels.tolist()) == ([0, 2, 4, 5], [0, 2, 4, 5])
    assert grain.span == 5


def test_only_what_is_there_is_explained(windy: Timeline) -> None:
    history = windy.histories[0]
    calm = replace(history, places=history.places * 0, accounts=history.accounts * 0, used=history.used * 0)
    assert [series.name for series in POWER.explained([calm])] == ["draw of all units under load"]
    assert PLACES.explained([calm]) == DONE.explained([calm]) == WAIT_POOL.explained([calm]) == []
    assert len(PLACES.explained([calm, history])) == len(PLACES.explained([history])) > 1
    assert to_png(draw_summary(Timeline("calm", [calm])))


def test_the_report_has_them_after_the_figures(tmp_path: Path, result: Result, windy: Timeline) -> None:
    page = write_report(tmp_path, result, timelines=[windy]).read_text("utf-8")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"comparison.png", "jobs-1.png", "power-1.png", "report.html", "results.json"}
    places = [page.index(f"<h2>{title}") for title in ("Figures", "Power by source: windy", "Jobs by place")]
    assert places == sorted(places)
    assert "&lt;10&gt; &amp; 10" in page
    assert "<10>" not in page


def test_a_film(session: Session) -> None:
    policy, episode = HeuristicPolicy("sjf", "horizon", scenario=session.scenario), session.episodes[0]
    frames: list[np.ndarray] = []

    def look(sim: VectorSimulator) -> None:
        frames.append(PALETTE[draw_indexed(sim, 0, episode.jobs)])

    record(policy, episode, session.units, ticks=12, look=look)
    gif, ticks = film(policy, episode, session.units, frames=12)
    assert ticks == 12
    image = Image.open(BytesIO(gif))
    assert image.format == "GIF"
    assert image.n_frames == 12  # type: ignore[attr-defined]
    assert image.info["loop"] == 0
    for k, frame in enumerate(frames):
        image.seek(k)
        assert image.info["duration"] == films.FRAME_MS
        np.testing.assert_array_equal(np.asarray(image.convert("RGB")), frame)
    assert film(policy, episode, session.units, frames=12) == (gif, ticks)
    assert film(policy, episode, session.units)[1] == 120


def test_an_episode_without_a_tick_is_no_film(session: Session) -> None:
    ending = session.scenario.model_copy(
        update={"episode": scenario.EpisodeSettings(jobs=None, end="no_new_job"), "power": None}
    )
    jobs = session.episodes[0].jobs.take(np.arange(1))
    episode = replace(session.episodes[0], jobs=jobs, power=None)
    with pytest.raises(BadInputError, match="over at once"):
        film(HeuristicPolicy("sjf", "now", scenario=ending), episode, session.units)
    with pytest.raises(BadInputError, match="sjf plays without a horizon"):
        film(HeuristicPolicy("sjf", "easy"), episode, session.units)


def test_a_film_of_one_frame() -> None:
    image = Image.open(BytesIO(to_gif([np.zeros((4, 6), np.uint8)])))
    assert image.size == (6, 4)
    assert np.asarray(image.convert("RGB")).reshape(-1, 3).tolist() == [PALETTE[0].tolist()] * 24


def test_a_folder_that_cannot_be_written_is_bad_input(
    tmp_path: Path, result: Result, windy: Timeline
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInputError, match="--report"):
        write_report(tmp_path / "file", result, timelines=[windy])
