"""Reports of ended training runs, of one seed or several: lines for a terminal, and values for --json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rlsched.evaluate.bootstrap import interquartile_mean
from rlsched.evaluate.seeds import named_seeds
from rlsched.files import quoted
from rlsched.report.words import number

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.jobs import FloatArray
    from rlsched.learn.summary import Summary


def resume_command(out: Path, seeds: int | None) -> str:
    """Command that resumes a run, or runs of several seeds."""
    return f"rlsched train --resume{'' if seeds is None else f' --seeds {seeds}'} --out {quoted(out)}"


def tell(console: Console, summary: Summary, out: Path) -> None:
    """Print the end and the results of a run, its folder, and the next commands."""
    standing, (heuristic, reference) = summary.standing, summary.best_heuristic
    if not summary.trained:
        console.print("at its end already: nothing was trained; give more with --steps N or --minutes M")
    console.print(f"stopped: {summary.reason}; {standing.steps:,} decisions in {standing.seconds:.0f} s")
    description = "best policy" if summary.plays else "newest policy, which is kept"
    before = "" if summary.before is None else f", before training {summary.before:.4g}"
    console.print(
        f"{description}: {summary.metric} {standing.best_metric:.4g} "
        f"on {summary.episodes} validation episodes "
        f"(best heuristic {heuristic} {reference:.4g}{before})"
    )
    for name, limit in summary.limits.items():
        check = standing.best_checks.get(name)
        if check is not None:
            mean = number(check.mean)
            console.print(f"{name}: {mean} in validation, {check.verdict} its limit of {number(limit)}")
    if summary.unmoved:
        console.print(
            f"{', '.join(summary.unmoved)}: its multiplier is still the initial one: to move it takes an "
            "episode of every environment. Train longer, or with fewer (sampling.envs_per_runner, "
            "sampling.runners)",
            style="yellow",
        )
    console.print(f"run folder   {out}", soft_wrap=True)
    console.print(f"compare it   {_compare_command(out)}", soft_wrap=True)
    if summary.reason == "interrupted":
        console.print(f"resume       {resume_command(out, None)}", soft_wrap=True)


def _compare_command(out: Path) -> str:
    return f"rlsched evaluate {quoted(out)} --report {quoted(out / 'report')}"


def summary_values(summary: Summary) -> dict[str, Any]:
    """The summary as plain values."""
    standing, (heuristic, reference) = summary.standing, summary.best_heuristic
    hoarding = standing.best_excess if standing.best_hoarding is None else standing.best_hoarding
    return {
        "scenario": summary.scenario.model_dump(mode="json"),
        "folder": str(summary.folder),
        "reason": summary.reason,
        "trained": summary.trained,
        "steps": standing.steps,
        "iterations": standing.iteration,
        "seconds": standing.seconds,
        "metric": summary.metric,
        "best": standing.best_metric,
        "before_training": summary.before,
        "within_hoarding_limits": hoarding == 0,
        "limits": {
            name: {
                "limit": limit,
                "paid": None if (check := standing.best_checks.get(name)) is None else check.mean,
                "highest": None if check is None else check.highest,
            }
            for name, limit in summary.limits.items()
        },
        "unmoved": list(summary.unmoved),
        "best_heuristic": {"policy": heuristic.policy, "backfill": heuristic.backfill, "value": reference},
    }


def tell_seeds(console: Console, summaries: dict[int, Summary], out: Path, count: int) -> None:
    """Print the results of all seeds, and the next command; `count`: seeds of the command."""
    from rich.text import Text

    from rlsched.cli.tables import BAD, GOOD, plain_table

    last = next(reversed(summaries.values()))
    columns = ["seed", "decisions", "seconds", "stopped", last.metric, "best heuristic", "within limits"]
    table = plain_table(columns, right=columns[:3], title="Validation of the selected policies")
    for seed, summary in summaries.items():
        standing, (heuristic, reference) = summary.standing, summary.best_heuristic
        table.add_row(
            *(str(seed), f"{standing.steps:,}", f"{standing.seconds:.0f}", summary.reason),
            *(f"{standing.best_metric:.4g}", f"{heuristic} {reference:.4g}"),
            Text("yes", style=GOOD) if summary.within_limits else Text("no", style=BAD),
        )
    console.print(table)
    if not any(summary.trained for summary in summaries.values()):
        console.print("all runs are complete: nothing was trained; give more --steps or --minutes")
    reached = _selected_metrics(summaries)
    console.print(
        f"{named_seeds(summaries)}: median {np.median(reached):.4g}, "
        f"interquartile mean {interquartile_mean(reached):.4g}"
    )
    console.print(f"run folders  {out}/seed-*", soft_wrap=True)
    console.print(f"compare them {_compare_command(out)}", soft_wrap=True)
    if last.reason == "interrupted":
        console.print(f"resume       {resume_command(out, count)}", soft_wrap=True)


def seeds_values(summaries: dict[int, Summary], out: Path) -> dict[str, Any]:
    """The results of all seeds as JSON values."""
    reached, last = _selected_metrics(summaries), next(reversed(summaries.values()))
    return {
        "folder": str(out),
        "reason": last.reason,
        "runs": [
            {"seed": seed, "within_limits": summary.within_limits, "schema": 1, **summary_values(summary)}
            for seed, summary in summaries.items()
        ],
        "aggregate": {
            "metric": last.metric,
            "seeds": len(summaries),
            "within_limits": sum(summary.within_limits for summary in summaries.values()),
            "median": float(np.median(reached)),
            "interquartile_mean": interquartile_mean(reached),
        },
    }


def _selected_metrics(summaries: dict[int, Summary]) -> FloatArray:
    """(seeds,) validation metric of the selected policies."""
    return np.array([summary.standing.best_metric for summary in summaries.values()], np.float64)
