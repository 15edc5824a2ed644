"""Report of an ended training run: lines for a terminal, and values for --json."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.learn.summary import Summary


def resume_command(out: Path, seeds: int | None) -> str:
    """Command that resumes a run, or runs of several seeds."""
    return f"rlsched train --resume{'' if seeds is None else f' --seeds {seeds}'} --out {quoted(out)}"


def tell(console: Console, summary: Summary, out: Path) -> None:
    """Print the end and the results of a run, its folder, and the next commands."""
    from rlsched.report.words import number

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
    next_command = (
        f"run folder   {out}\ncompare it   rlsched evaluate {quoted(out)} --report {quoted(out / 'report')}"
    )
    console.print(next_command, markup=False, soft_wrap=True)
    if summary.reason == "interrupted":
        console.print(f"resume       {resume_command(out, None)}", markup=False, soft_wrap=True)


def summary_values(summary: Summary) -> dict[str, Any]:
    """The summary as plain values."""
    standing, (heuristic, reference) = summary.standing, summary.best_heuristic
    hoarding = standing.best_excess if standing.best_hoarding is None else standing.best_hoarding
    return {
        "schema": 1,
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
