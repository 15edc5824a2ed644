"""Results of `rlsched train --seeds`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from rlsched.cli.tables import BAD, GOOD, plain_table
from rlsched.cli.train_report import resume_command
from rlsched.evaluate.bootstrap import interquartile_mean
from rlsched.evaluate.seeds import named_seeds
from rlsched.files import quoted

if TYPE_CHECKING:
    from rlsched.jobs import FloatArray
    from rlsched.learn.summary import Summary


def print_seeds(console: Console, summaries: dict[int, Summary], out: Path, count: int) -> None:
    """Print the results of all seeds, and the next command.

    Args:
        console: to print to.
        summaries: results of the runs that started, by seed.
        out: folder of all runs.
        count: number of seeds of the command.
    """
    from rich.text import Text

    last = next(reversed(summaries.values()))
    columns = ["seed", "decisions", "seconds", "stopped", last.metric, "best heuristic", "within limits"]
    table = plain_table("Validation of the selected policies", columns, columns[:3])
    for seed, summary in summaries.items():
        standing, (heuristic, reference) = summary.standing, summary.best_heuristic
        table.add_row(
            str(seed),
            f"{standing.steps:,}",
            f"{standing.seconds:.0f}",
            summary.reason,
            f"{standing.best_metric:.4g}",
            f"{heuristic} {reference:.4g}",
            Text("yes", style=GOOD) if summary.within_limits else Text("no", style=BAD),
        )
    console.print(table)
    if not any(summary.trained for summary in summaries.values()):
        console.print("all runs are complete: nothing was trained; give more --steps or --minutes")
    reached = selected_metrics(summaries)
    console.print(
        f"{named_seeds(summaries)}: median {np.median(reached):.4g}, "
        f"interquartile mean {interquartile_mean(reached):.4g}"
    )
    next_command = (
        f"run folders  {out}/seed-*\n"
        f"compare them rlsched evaluate {quoted(out)} --report {quoted(out / 'report')}"
    )
    console.print(next_command, markup=False, soft_wrap=True)
    if last.reason == "interrupted":
        console.print(f"resume       {resume_command(out, count)}", markup=False, soft_wrap=True)


def seeds_values(
    summaries: dict[int, Summary], out: Path, values: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """The results of all seeds as JSON values.

    Args:
        summaries: results of the runs, by seed.
        out: folder of all runs.
        values: summaries as JSON values, by seed.
    """
    reached, last = selected_metrics(summaries), next(reversed(summaries.values()))
    return {
        "schema": 1,
        "folder": str(out),
        "reason": last.reason,
        "runs": [
            {"seed": seed, "within_limits": summary.within_limits, **values[seed]}
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


def selected_metrics(summaries: dict[int, Summary]) -> FloatArray:
    """(seeds,) validation metric of the selected policies."""
    return np.array([summary.standing.best_metric for summary in summaries.values()], np.float64)
