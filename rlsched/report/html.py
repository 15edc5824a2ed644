"""The report: a self-contained HTML file, its pictures, and its figures as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from math import isnan
from pathlib import Path

import yaml

from rlsched.errors import BadInputError
from rlsched.evaluate.measures import measure
from rlsched.evaluate.results import Result, to_json
from rlsched.evaluate.statistics import PolicyLabel, SummaryRow, headline, order_by, verdict
from rlsched.files import write_whole
from rlsched.report.gantt import Gantt, draw_gantt
from rlsched.report.learning_curve import LearningCurves, draw_learning
from rlsched.report.markup import fact_list, folded, head, image, page, section, settings_text
from rlsched.report.over_time import Timeline, draw_jobs, draw_power
from rlsched.report.plots import draw_comparison, learned_colours
from rlsched.report.style import to_png
from rlsched.report.tables import comparison_table, count_table, hoarding_table, limits_table, seeds_table
from rlsched.report.words import Scale, episode_length, scale_for, sizes
from rlsched.versions import versions

_PACKAGES = ("rlsched", "numpy", "numba", "gymnasium", "ray", "torch", "matplotlib")


def write_report(
    folder: str | Path,
    result: Result,
    gantts: Sequence[Gantt] = (),
    learning: Sequence[LearningCurves] = (),
    timelines: Sequence[Timeline] = (),
) -> Path:
    """Write report.html, its pictures as PNG, and results.json to a folder; returns the path of report.html.

    All pictures are drawn before the first file is written. Files are written atomically, the page last: if
    it exists, the report is complete. The jobs and power of `timelines` are drawn over time.

    Raises:
        BadInputError: the folder cannot be written to.
        ValueError: a picture cannot be drawn.
    """
    pictures: dict[str, tuple[str, bytes]] = {}  # file name to caption and PNG
    metrics = _headline(result)
    if metrics:
        hoarders = _hoarders(result)
        picture = draw_comparison(result.summary, metrics, hoarders)
        pictures["comparison.png"] = ("All policies, by metric", to_png(picture))
    colours = {str(Path(label.policy)): colour for label, colour in learned_colours(result.summary).items()}
    for k, curves in enumerate(learning, start=1):
        pictures[f"learning-{k}.png"] = (curves.caption, to_png(draw_learning(curves, colours)))
    for k, gantt in enumerate(gantts, start=1):
        pictures[f"gantt-{k}.png"] = (f"Schedules: {gantt.title}", to_png(draw_gantt(gantt)))
    for k, timeline in enumerate(timelines, start=1):
        if timeline.powered:
            pictures[f"power-{k}.png"] = (f"Power by source: {timeline.title}", to_png(draw_power(timeline)))
        pictures[f"jobs-{k}.png"] = (f"Jobs by place: {timeline.title}", to_png(draw_jobs(timeline)))
    rendered = render(result, pictures)
    figures = json.dumps(to_json(result), allow_nan=False, indent=1)
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, (_, png) in pictures.items():
            write_whole(target / name, png)
        write_whole(target / "results.json", figures.encode())
        write_whole(target / "report.html", rendered.encode())
    except OSError as error:
        raise BadInputError(
            "--report", f"cannot write to {target} ({error})", "name another folder"
        ) from None
    return target / "report.html"


def render(result: Result, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    """Render the page, with pictures in its order: file name to caption and PNG."""
    title = f"{result.scenario.name}: comparison of schedulers"
    settings = yaml.safe_dump(result.scenario.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    parts = [
        head(title, result.scenario.description),
        section("In short", "".join(f"<p>{line}</p>" for line in findings(result))),
        section("What was compared", fact_list(_facts(result)) + settings_text(settings)),
        *(section(caption, image(caption, png)) for caption, png in list(pictures.values())[:1]),
        section("Figures", _comparison(result)),
    ]
    tables = (
        ("Do the seeds agree?", result.seeds, seeds_table(result.seeds, _headline(result))),
        ("Does the result count?", result.hoarding, hoarding_table(result.hoarding)),
        ("Are limits kept?", result.limits, limits_table(result.limits)),
    )
    parts += [section(title, content) for title, rows, content in tables if rows]
    parts += [section(caption, image(caption, png)) for caption, png in list(pictures.values())[1:]]
    parts += [section("Repairs", count_table(result.repairs)), version_section()]
    return page(escape(title), "\n".join(parts))


def version_section() -> str:
    """The versions of this package, of those that it uses, and of Python."""
    return section("Versions", fact_list(versions(_PACKAGES)))


def _hoarders(result: Result) -> set[PolicyLabel]:
    return {PolicyLabel(breach.policy, breach.backfill) for breach in result.hoarding if breach.breached}


def _headline(result: Result) -> list[str]:
    """The first metrics of the page: the headline, or else the first four that were measured."""
    measured = [row for row in result.summary if not isnan(row.mean)]
    return list(headline(measured)) or list(dict.fromkeys(row.metric for row in measured))[:4]


def findings(result: Result) -> list[str]:
    """The result in words, as HTML: the best policies by the first metric, among those that count."""
    metrics = _headline(result)
    if not metrics:
        return ["Nothing could be measured: no job finished."]
    metric = metrics[0]
    rows = [row for row in order_by(result.summary, metric) if not isnan(row.mean)]
    hoarders = _hoarders(result)
    counting = [row for row in rows if row.label not in hoarders]
    scale = scale_for(measure(metric).unit, [row.high for row in rows])
    named = escape(metric.replace("_", " "))
    lines = []
    heuristic = next((row for row in counting if not row.learned), None)
    if heuristic:
        lines.append(f"Best heuristic by mean {named}: {_mean_text(heuristic, scale)}.")
    learned = next((row for row in counting if row.learned), None)
    if learned:
        line = f"Best learned policy: {_mean_text(learned, scale)}."
        if heuristic and (comparison := verdict(learned)):
            wins = f"{100 * learned.wins:.0f} % of the episodes"
            line += f" It is {comparison} than the best heuristic, and at least as good in {wins}."
        elif heuristic:
            line += " The episodes do not show a clear difference to the best heuristic."
        lines.append(line)
    lines += [
        f'<span class="worse">{escape(str(label))} does not count</span>: it hoards jobs, see below.'
        for label in sorted(hoarders)
    ]
    return lines


def _mean_text(row: SummaryRow, scale: Scale) -> str:
    name = escape(str(row.label))
    interval = f"{scale(row.low)} to {scale(row.high)}{scale.suffix}"
    return f"<b>{name}</b> with {scale(row.mean)}{scale.suffix} (95 % interval {interval})"


def _comparison(result: Result) -> str:
    """Tables of the headline metrics, and of the other ones in a collapsed section."""
    hoarders = _hoarders(result)
    first = _headline(result)
    tables = {
        metric: comparison_table(result.summary, metric, hoarders)
        for metric in dict.fromkeys((*first, *(row.metric for row in result.summary)))
    }
    other_tables = [html for metric, html in tables.items() if metric not in first]
    several = ", over seeds and episodes where a policy has several seeds" if result.seeds else ""
    note = (
        "<p>Every policy ran the same episodes. Intervals are 95 % percentile bootstrap intervals of the"
        f" mean{several}. Differences are paired by episode, policy minus the best heuristic of that metric;"
        " they are called better or worse only if their interval excludes zero. Wins: the share of episodes"
        " in which a policy is at least as good.</p>"
    )
    more = folded(f"{len(other_tables)} more metrics", "".join(other_tables)) if other_tables else ""
    return note + "".join(tables[metric] for metric in first) + more


def _facts(result: Result) -> dict[str, str]:
    scenario = result.scenario
    episode_units = [episode.units for episode in result.episodes if episode.units is not None]
    units = [sizes(resource_units) for resource_units in zip(*episode_units, strict=True)] or [
        f"{count:,}" for count in scenario.cluster.units
    ]
    resources = ", ".join(
        f"{resource.name}: {many}" for resource, many in zip(scenario.cluster.resources, units, strict=True)
    )
    episodes = {(episode.episode, episode.seed, episode.offset) for episode in result.episodes}
    offsets = sorted({offset for _, _, offset in episodes if offset is not None})
    seeds = sorted({seed for _, seed, _ in episodes})
    facts = {
        "Scenario": scenario.name,
        "Workload": str(getattr(scenario.workload, "file", scenario.workload.kind)),
        "Cluster": resources,
        "Protocol": result.protocol or "none",
        "Episodes": f"{len(episodes):,} of {episode_length(scenario)}",
        "Seeds": _listed(seeds),
    }
    if offsets:
        facts["Offsets"] = _listed(offsets)
    return {name: escape(value) for name, value in facts.items()}


def _listed(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:12]))
    return text + (f", … ({len(numbers):,} in all)" if len(numbers) > 12 else "")
