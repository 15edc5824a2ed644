"""Costs within limits: what cocorl pays and earns at rising loads, beside policies and orders that keep none.

In every case (green-10 at a load; a trace with GPUs and qos, fed by the wind and sun of a file) a policy is
trained that keeps no limits, and others that keep job hours of delay within shares of what that one pays; at
loads also with plain Lagrange, and at one with a memory. All are evaluated with every common order on the
same 96 episodes (24 of a trace), which no training saw. A share counts as possible where some order pays no
more than that. One more case keeps delay and brown energy at once, at a site with wind, sun and a grid, under
a PID controller and plain Lagrange: from random weights, twice as many decisions.
Half a million decisions a run: about a minute on one quiet core, three with a memory; of traces, which are
left out where their folder is not there, half as many, from a policy that was shown an order: three minutes.
Run: `make study-cocorl`, or with `--seeds 1 --scale 0.1` for a look; what was done is not done again.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from benchmarks.cocorl_cases import (
    CASES,
    CONTROLLERS,
    COST,
    DATA,
    EPISODES,
    LOADS,
    ORDERS,
    OTHERWISE,
    SHARES,
    SITE,
    STEPS,
    TRACES,
    run_of,
    share_of,
)
from benchmarks.studies import StudyOptions, at_a_time, evaluate, study_options, train
from rlsched.evaluate.bootstrap import Interval, bootstrap_columns
from rlsched.evaluate.statistics import EpisodeResult
from rlsched.files import write_whole
from rlsched.report.style import HEURISTIC, LEARNED, house_style, new_figure, quiet_axes, to_png

TWO, TWO_LIMITS = "two-limits", {"delayed_jobs": 1500, "brown_energy": 1250}

SETTLED = 1.05
"""Share of a limit that counts as on it."""

METRICS = {
    "job_value_ratio": ("value of finished jobs", 100.0),
    "completion_ratio": ("jobs finished", 100.0),
    "utilization": ("utilization", 100.0),
    f"cost.{COST}": ("job hours of delay", 1.0),
}


class LimitResult(NamedTuple):
    """One policy that keeps a limit.

    Attributes:
        over: what it pays beyond its share of what is paid without limits, paired by episode.
        cost: on average.
        value: share of the value that it earns.
        ahead: of the best order that costs no more, in points; NaN where each costs more.
        order: that one.
    """

    over: Interval
    cost: float
    value: float
    ahead: Interval
    order: str


def learn(study: StudyOptions, name: str, seed: int) -> None:
    """Train without limits, then within shares of what that pays."""
    case, free = CASES[name], run_of(study, name, "free", seed)
    steps = ["--steps", str(round(study.scale * case.steps))]
    # As `rlsched train --limit auto` would.
    words = [*case.scenario, "--algo", "ppo", "--set", "ppo.learning_rate=0.001", *case.training, *steps]
    train(free, words, seed=seed, threads=study.threads)
    for kind in case.kinds:
        limit = ["--limit", f"{COST}=auto:{share_of(kind)}", "--unconstrained", str(free)]
        matching = [*limit, *OTHERWISE.get(kind, []), *(case.within or case.training), *steps]
        words = [*case.scenario, "--algo", "cocorl", *matching]
        train(run_of(study, name, kind, seed), words, seed=seed, threads=study.threads)


def results_of(study: StudyOptions, name: str) -> list[EpisodeResult]:
    """All policies and orders of a case on the same episodes."""
    case = CASES[name]
    runs = [run_of(study, name, kind, seed) for kind in ("free", *case.kinds) for seed in range(study.seeds)]
    words = [*case.scenario, "--against", ",".join(ORDERS)]
    return evaluate(runs, words, study.folder / f"{name}.json", episodes=case.episodes)


def values_of(results: Sequence[EpisodeResult], policy: str, metric: str) -> NDArray[np.float64]:
    """(episode,) values of a metric, by episode."""
    result = {item.episode: item.metrics[metric] for item in results if item.policy == policy}
    return np.array([result[episode] for episode in sorted(result)])


def orders_of(results: Sequence[EpisodeResult]) -> list[str]:
    """The orders that were played."""
    return list(dict.fromkeys(item.policy for item in results if not item.learned))


def limit_result(results: Sequence[EpisodeResult], run: Path, free: Path, share: float) -> LimitResult:
    """How a policy keeps its limit on episodes that it never saw."""
    cost, without = (values_of(results, str(item), f"cost.{COST}") for item in (run, free))
    value = values_of(results, str(run), "job_value_ratio")
    cheap = [
        order
        for order in orders_of(results)
        if values_of(results, order, f"cost.{COST}").mean() <= cost.mean()
    ]
    worth = {order: values_of(results, order, "job_value_ratio") for order in cheap}
    best = max(worth, key=lambda order: float(worth[order].mean()), default="")
    gap = 100 * (value - worth[best]) if best else np.array([np.nan])
    over, ahead = bootstrap_columns([cost - share * without, gap])
    return LimitResult(over, float(cost.mean()), float(value.mean()), ahead, best)


def table(study: StudyOptions, name: str, results: Sequence[EpisodeResult]) -> str:
    """All shares of a case, seed by seed."""
    cost = f"cost.{COST}"
    costs = {order: float(values_of(results, order, cost).mean()) for order in orders_of(results)}
    cheapest = min(costs, key=lambda order: costs[order])
    lines = [f"{name}: cheapest order {cheapest} {costs[cheapest]:,.0f}"]
    for seed in range(study.seeds):
        free = run_of(study, name, "free", seed)
        without = float(values_of(results, str(free), cost).mean())
        worth = 100 * float(values_of(results, str(free), "job_value_ratio").mean())
        lines.append(f"  seed {seed}: without limits {without:,.0f} for {worth:.2f} %")
        for kind in CASES[name].kinds:
            share = float(share_of(kind))
            item = limit_result(results, run_of(study, name, kind, seed), free, share)
            possible = "possible" if costs[cheapest] <= share * without else "below every order"
            over = f"{item.over.mean:+,.0f} [{item.over.low:+,.0f}, {item.over.high:+,.0f}]"
            ahead = (
                "every order pays more"
                if not item.order
                else (
                    f"{item.ahead.mean:+.2f} [{item.ahead.low:+.2f}, {item.ahead.high:+.2f}] to {item.order}"
                )
            )
            lines.append(
                f"    {kind:>8}: limit {share * without:,.0f} ({possible}), pays {item.cost:,.0f}, {over}; "
                f"{100 * item.value:.2f} %, {ahead}"
            )
    return "\n".join(lines)


def draw(study: StudyOptions, cases: dict[str, list[EpisodeResult]]) -> Figure:
    """Value, completion, utilization and cost by load [Venkataswamy 2023, figures 6.4 to 6.12].

    Against `packing`, since loads differ by more than schedulers do, and costs against ppo.
    """
    with house_style():
        figure = new_figure(11.0, 7.5)
        for axes, (metric, (label, factor)) in zip(figure.subplots(2, 2).flat, METRICS.items(), strict=True):
            _draw_metric(axes, study, cases, metric, factor)
            axes.set_title(label)
            axes.set_xlabel("load")
            quiet_axes(axes, "y")
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _draw_metric(
    axes: Axes, study: StudyOptions, cases: dict[str, list[EpisodeResult]], metric: str, factor: float
) -> None:
    loads, seeds = [float(load) for load in cases], range(study.seeds)
    cost = metric.startswith("cost.")

    def against(policies: Mapping[str, str]) -> NDArray[np.float64]:
        """(load,) of the policy of each load."""
        result = []
        for load, results in cases.items():
            expected = values_of(results, policies[load], metric).mean()
            free = [values_of(results, str(run_of(study, load, "free", k)), metric).mean() for k in seeds]
            second = np.mean(free) if cost else values_of(results, "packing", metric).mean()
            result.append(100 * expected / second if cost else factor * (expected - second))
        return np.array(result)

    for order, style in ORDERS.items():
        axes.plot(loads, against(dict.fromkeys(cases, order)), linestyle=style, color=HEURISTIC, label=order)
    for colour, kind in zip(LEARNED, ("free", *reversed(SHARES)), strict=False):
        item = np.stack(
            [against({load: str(run_of(study, load, kind, seed)) for load in cases}) for seed in seeds]
        )
        name = "no limit (ppo)" if kind == "free" else f"within {kind} of its cost (cocorl)"
        axes.fill_between(loads, item.min(axis=0), item.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        axes.plot(loads, item.mean(axis=0), "o-", color=colour, markersize=4, label=name)
        if cost and kind != "free":
            axes.axhline(100 * float(kind), color=colour, linewidth=0.8, linestyle=":")
    axes.set_ylabel("% of what ppo pays" if cost else "points over packing")
    axes.set_ylim(*((35, 150) if cost else (-2, 1)))


class Settling(NamedTuple):
    """How a controller came to its limit while it trained.

    Attributes:
        steps: (iteration,) decisions.
        costs: (iteration,) what was paid then, as a share of the limit.
        overshoot: what was paid beyond the limit, on average over the training, as a share of it.
        settled: decisions after which no more than `SETTLED` of the limit was paid, ever; infinity: never.
    """

    steps: NDArray[np.float64]
    costs: NDArray[np.float64]
    overshoot: float
    settled: float


def settling(run: Path, cost: str, limit: float) -> Settling:
    """How it went in the rows of a run."""
    with (run / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row[f"{cost}_cost"]]
    steps = np.array([float(row["steps"]) for row in rows])
    costs = np.array([float(row[f"{cost}_cost"]) for row in rows]) / limit
    late = np.flatnonzero(costs > SETTLED)
    after = int(late[-1]) + 1 if len(late) else 0
    settled = float(steps[after]) if after < len(steps) else np.inf
    return Settling(steps, costs, float(np.maximum(costs - 1, 0).mean()), settled)


def learn_two(study: StudyOptions, seed: int) -> None:
    """Keep two limits, under both kinds of controllers."""
    limits = [word for name, limit in TWO_LIMITS.items() for word in ("--limit", f"{name}={limit}")]
    for kind, gains in CONTROLLERS.items():
        words = [*SITE, "--set", "warm_start.decisions=0", "--algo", "cocorl", *limits, *gains]
        steps = ["--steps", str(round(study.scale * 2 * STEPS))]
        train(run_of(study, TWO, kind, seed), [*words, *steps], seed=seed, threads=study.threads)


def two_limits(study: StudyOptions) -> str:
    """What is paid of both, on episodes that nobody saw, and how controllers got there."""
    runs = [run_of(study, TWO, kind, seed) for kind in CONTROLLERS for seed in range(study.seeds)]
    words = [*SITE, "--against", ",".join(ORDERS)]
    results = evaluate(runs, words, study.folder / f"{TWO}.json", episodes=EPISODES)
    lines = ["two limits: " + ", ".join(f"{name} {limit:,}" for name, limit in TWO_LIMITS.items())]
    for actor in (*map(str, runs), *orders_of(results)):
        columns = [values_of(results, actor, f"cost.{name}") for name in TWO_LIMITS]
        result = bootstrap_columns([*columns, 100 * values_of(results, actor, "job_value_ratio")])
        message = [f"{item.mean:,.0f} [{item.low:,.0f}, {item.high:,.0f}]" for item in result[:-1]]
        lines.append(f"  {Path(actor).name:>22}: {', '.join(message)}; {result[-1].mean:.2f} %")
    name = next(iter(TWO_LIMITS))
    for kind in CONTROLLERS:
        for seed in range(study.seeds):
            item = settling(run_of(study, TWO, kind, seed), name, TWO_LIMITS[name])
            lines.append(
                f"  {kind:>8}, seed {seed}: {100 * item.overshoot:.1f} % beyond the limit on average, "
                f"settled after {item.settled:,.0f} decisions"
            )
    return "\n".join(lines)


def draw_control(study: StudyOptions) -> Figure:
    """What was paid in training as a share of the limit, by controller and seed."""
    with house_style():
        figure = new_figure(9.0, 4.5)
        panels = figure.subplots(1, len(TWO_LIMITS))
        for axes, (name, limit) in zip(panels, TWO_LIMITS.items(), strict=True):
            for colour, kind in zip(LEARNED, CONTROLLERS, strict=False):
                for seed in range(study.seeds):
                    item = settling(run_of(study, TWO, kind, seed), name, limit)
                    label = kind if seed == 0 else None
                    axes.plot(item.steps, 100 * item.costs, color=colour, linewidth=1.4, label=label)
            axes.axhline(100, color=HEURISTIC, linewidth=1)
            axes.set_title(f"{name.replace('_', ' ')}, % of its limit of {limit:,}")
            axes.set_xlabel("decisions")
            quiet_axes(axes, "y")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def main() -> None:
    """Train, evaluate, tell, draw."""
    study = study_options(__doc__, (*CASES, TWO), "runs/study-cocorl")
    chosen = [case for case in study.cases if case != TWO]
    if not DATA.is_dir():
        print(f"no traces at {DATA} (RLSCHED_DATA names another folder): {', '.join(TRACES)} are left out")
        chosen = [case for case in chosen if case not in TRACES]
    tasks = [partial(learn, study, case, seed) for seed in range(study.seeds) for case in chosen]
    if TWO in study.cases:
        tasks += [partial(learn_two, study, seed) for seed in range(study.seeds)]
    at_a_time(tasks, study.parallel)
    cases = {case: results_of(study, case) for case in chosen}
    for case, results in cases.items():
        print(table(study, case, results))
    loads = {case: results for case, results in cases.items() if case in LOADS}
    if len(loads) > 1:
        write_whole(study.folder / "loads.png", to_png(draw(study, loads)))
        print(f"picture: {study.folder}/loads.png")
    if TWO in study.cases:
        print(two_limits(study))
        write_whole(study.folder / "control.png", to_png(draw_control(study)))
        print(f"picture: {study.folder}/control.png")


if __name__ == "__main__":
    main()
