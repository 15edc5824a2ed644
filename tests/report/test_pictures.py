from __future__ import annotations

from io import BytesIO
from math import nan

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from rlsched.evaluate.results import Result
from rlsched.evaluate.statistics import EpisodeResult, PolicyLabel, Table, summarise
from rlsched.jobs import JobTable
from rlsched.report.gantt import LEGEND_IN, PANEL_IN, Gantt, Schedule, draw_gantt
from rlsched.report.gantt import WIDTH_IN as GANTT_WIDTH_IN
from rlsched.report.learning_curve import Curve, LearningCurves, draw_learning
from rlsched.report.plots import HEURISTICS_SHOWN, draw_comparison
from rlsched.report.style import DPI, LEARNED, shortened, to_png
from rlsched.report.words import number, scale_for, time_unit, written

NOTHING = np.array([])


def validated(name: str, steps: list[float], values: list[float]) -> Curve:
    """A run of which the first validated policy was selected."""
    selected = np.arange(len(steps)) == 0
    return Curve(name, NOTHING, NOTHING, np.array(steps), np.array(values), selected)


def opened(figure: Figure) -> Image.Image:
    image = Image.open(BytesIO(to_png(figure)))
    image.load()
    return image


def texts(figure: Figure) -> str:
    return "\n".join(item.get_text() for item in figure.findobj(mpl.text.Text))


@pytest.mark.parametrize("colour", ["wait", "size"])
def test_gantt_of_1024_jobs_has_its_size(schedules: list[Schedule], colour: str) -> None:
    figure = draw_gantt(Gantt("lublin_256", schedules, 256, colour=colour))  # type: ignore[arg-type]
    image = opened(figure)
    assert image.size == (round(GANTT_WIDTH_IN * DPI), int((PANEL_IN * 2 + LEGEND_IN) * DPI))
    assert "fcfs + none" in texts(figure)
    assert "last arrival" in texts(figure)


def test_gantt_draws_every_job_of_a_small_schedule_where_it_is() -> None:
    jobs = JobTable.build(submit=[0, 0, 60], runtime=[120, 60, 60], demand=[2, 2, 2])
    figure = draw_gantt(Gantt("small", [Schedule("by hand", jobs, np.array([0, 0, 60]))], 4))
    chart, queue = figure.axes[:2]
    corners = [path.vertices[:4] for path in chart.collections[0].get_paths()]
    assert [tuple(c.min(axis=0)) + tuple(c.max(axis=0)) for c in corners] == [
        (0, 0, 2, 2),
        (0, 2, 1, 4),
        (1, 2, 2, 4),
    ]
    assert queue.get_xlabel() == "time since the first submit (min)"
    assert chart.get_ylim() == (0, 4)


def test_queues_share_an_axis_that_shows_the_longest() -> None:
    jobs = JobTable.build(submit=[0] * 9, runtime=[10] * 9, demand=[1] * 9)
    quick = Schedule("all at once", jobs, np.zeros(9, np.int64))
    slow = Schedule("one by one", jobs, np.arange(9) * 10)
    for schedules in ([quick, slow], [slow, quick]):
        figure = draw_gantt(Gantt("order", schedules, 9))
        for queue in figure.axes[1:4:2]:
            assert queue.get_ylabel() == "waiting"
            assert queue.get_ylim()[1] >= 8


def test_gantt_counts_who_waits_and_who_never_started() -> None:
    jobs = JobTable.build(submit=[0, 10, 20], runtime=[100, 100, 100], demand=[4, 4, 4])
    figure = draw_gantt(Gantt("queue", [Schedule("one at a time", jobs, np.array([0, 100, -1]))], 4))
    line = figure.axes[1].get_lines()[0]
    waiting = dict(zip(np.asarray(line.get_xdata()) * 60, np.asarray(line.get_ydata()), strict=True))
    assert waiting == {0: 0, 10: 1, 20: 2, 100: 1, 200: 1}
    assert "1 never started" in texts(figure)


def test_gantt_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_gantt(Gantt("empty", [], 4))


def test_gantt_of_one_instant_and_of_nobody() -> None:
    jobs = JobTable.build(submit=[7], runtime=[1], demand=[1])
    assert opened(draw_gantt(Gantt("one", [Schedule("a", jobs, np.array([7]))], 1)))
    assert opened(draw_gantt(Gantt("none", [Schedule("a", jobs, np.array([-1]))], 1)))


def test_the_same_picture_gives_the_same_bytes(schedules: list[Schedule]) -> None:
    first, second = (to_png(draw_gantt(Gantt("twice", schedules[:1], 256))) for _ in range(2))
    assert first == second


def test_comparison_is_sorted_logarithmic_and_coloured(result: Result) -> None:
    hoarder = PolicyLabel("<script>alert('x')</script>", "fit")
    figure = draw_comparison(result.summary, hoarders={hoarder})
    slowdown = figure.axes[0]
    assert slowdown.get_xscale() == "log"  # 8 to 302
    names = [label.get_text() for label in slowdown.get_yticklabels()]
    assert names[::-1][1:] == ["runs/ppo + commit", "sjf + greedy", "fcfs + none"]
    colours = {label.get_text(): label.get_color() for label in slowdown.get_yticklabels()}
    assert colours["runs/ppo + commit"] != colours["sjf + greedy"] == colours["fcfs + none"]
    assert "hollow: does not count" in texts(figure)
    assert figure.axes[3].get_xscale() == "linear"  # spans 1.1 to 3.2
    assert opened(figure).size[0] == 12 * DPI


def test_comparison_of_many_heuristics_says_what_it_leaves_out() -> None:
    episodes = [
        EpisodeResult(f"h{k:02}", "none", e, 0, None, {"wait": 100.0 * k + e})
        for k in range(30)
        for e in range(3)
    ]
    figure = draw_comparison(summarise(Table.of(episodes)))
    assert len(figure.axes[0].get_yticklabels()) == HEURISTICS_SHOWN
    assert "18 weaker heuristics not drawn" in texts(figure)


def test_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="was measured"):
        draw_comparison(summarise(Table.of([EpisodeResult("a", "none", 0, 0, None, {"wait": nan})])))


def test_learning_curve_with_a_heuristic_far_off() -> None:
    steps = np.arange(1, 50) * 8192.0
    values = 20 + 60 * np.exp(-steps / 1e5)
    selected = np.array([True, False, True, True, False])  # the last one was lower, but hoarded
    curve = Curve("ppo", steps, values, steps[::10], values[::10], selected)
    learning = LearningCurves("bounded_slowdown", [curve], {"sjf + greedy": 36.0, "fcfs + none": 7273.0})
    figure = draw_learning(learning)
    assert figure.axes[0].get_ylim()[1] < 200
    assert "beyond this axis: fcfs + none 7,273" in texts(figure)
    assert f"selected {number(values[30])}" in texts(figure)
    assert opened(figure).size == (9 * DPI, 5 * DPI)


def test_learning_curve_with_one_point_and_gaps() -> None:
    curve = Curve("a", np.array([0.0]), np.array([nan]), NOTHING, NOTHING, NOTHING > 0)
    assert opened(draw_learning(LearningCurves("utilization", [curve], {})))
    with pytest.raises(ValueError, match="no curve has a point"):
        draw_learning(LearningCurves("wait", [], {}))


GREEN = {"packing + now": 0.836, "hvf + horizon": 0.828, "fcfs + horizon": 0.8279, "qos + horizon": 0.826}


def test_learning_curve_of_a_share_shows_every_heuristic_that_leaves_it_room() -> None:
    curve = validated("search", [0.0, 3e6, 7e6], [0.835, 0.845, 0.862])
    figure = draw_learning(LearningCurves("job_value_ratio", [curve], GREEN))
    axes = figure.axes[0]
    drawn = {
        round(float(np.asarray(line.get_ydata())[0]), 2)
        for line in axes.lines
        if "-" not in str(line.get_marker())
    }
    assert {83.6, 82.8, 82.79, 82.6} <= drawn
    assert 82 < axes.get_ylim()[0] < axes.get_ylim()[1] < 87
    assert axes.get_xlim()[0] < 0
    for label in ("job value ratio (%)", "higher is better", "search, selected 83.5", "packing + now  83.6"):
        assert label in texts(figure)
    assert "decisions" in axes.get_xlabel()
    named = [note for note in axes.texts if note.get_text().partition("  ")[0] in GREEN]
    heights = sorted(note.xy[1] for note in named)
    assert len(heights) == 4
    assert min(np.diff(heights)) >= 0.05 - 1e-9
    assert heights[0] > 0
    assert heights[-1] <= 1


def test_learning_curve_is_not_pressed_flat_by_heuristics() -> None:
    curve = validated("ppo", [0.0, 1e5, 2e5], [0.8613, 0.8587, 0.8611])
    figure = draw_learning(LearningCurves("job_value_ratio", [curve], GREEN))
    low, high = figure.axes[0].get_ylim()
    assert high - low < 0.5  # per cent; the curve spans 0.26
    assert "beyond this axis: packing + now 83.6, hvf + horizon 82.8" in texts(figure)


def test_learning_curve_of_one_point_stands_against_the_best_heuristic() -> None:
    curve = validated("new", [0.0], [0.83])
    figure = draw_learning(LearningCurves("job_value_ratio", [curve], GREEN))
    assert figure.axes[0].get_ylim()[1] > 83.6
    assert opened(figure)


def test_learning_curves_of_runs_of_very_different_length_can_all_be_read() -> None:
    short = validated("ppo", [0.0, 2e5, 1.5e6], [0.86, 0.859, 0.861])
    long = validated("search", [0.0, 3e6, 8e7], [0.835, 0.85, 0.862])
    similar = validated("other", [0.0, 3e6, 6e7], [0.835, 0.85, 0.862])
    figure = draw_learning(LearningCurves("job_value_ratio", [short, long], {}))
    axes = figure.axes[0]
    assert axes.transLimits.transform(axes.transScale.transform((1.5e6, 86.0)))[0] > 0.3
    assert opened(figure)
    assert (
        draw_learning(LearningCurves("job_value_ratio", [long, similar], {})).axes[0].get_xscale() == "linear"
    )


def test_learning_curves_have_the_colours_of_the_other_pictures() -> None:
    curves = [validated(name, [0.0, 1e5], [0.8, 0.81]) for name in ("a", "b", "c")]
    figure = draw_learning(LearningCurves("job_value_ratio", curves, {}), {"b": LEARNED[0]})
    handles = {line.get_label(): line.get_color() for line in figure.axes[0].lines}
    assert handles["b, selected 80"] == LEARNED[0]
    assert len({handles[f"{name}, selected 80"] for name in "abc"}) == 3


def test_drawing_changes_no_settings_of_the_user(result: Result) -> None:
    before = dict(mpl.rcParams)
    to_png(draw_comparison(result.summary))
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1.234, "1.23"),
        (35.97, "36.0"),
        (303.49, "303"),
        (19753.53, "19,754"),
        (-0.0456, "\u22120.0456"),
        (1e-9, "0"),
        (nan, "\u2013"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_units() -> None:
    assert written(7200.0, "s") == "2 h"
    assert written(90.0, "s") == "90 s"
    assert written(0.795, "share") == "79.5 %"
    assert written(nan, "s") == "\u2013"
    assert scale_for("s", [10.0, nan, 90_000.0]).suffix == " h"
    assert time_unit(200_000).name == "d"
    assert shortened("x" * 50, 10) == "…" + "x" * 9
