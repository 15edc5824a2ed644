"""Results of a sweep: its files, its report, and the table in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rlsched.report.sweeps import SweepResult, TrialRow
    from rlsched.tune.folder import SweepFolder
    from rlsched.tune.launch import SweepEnd
    from rlsched.tune.results import Outcome
    from rlsched.tune.sweep import Sweep, Target

TABLE_ROWS = 15
"""Trials in the terminal's table; the report has all."""


def write_result(folder: SweepFolder) -> SweepResult:
    """Write table, best settings and report of a sweep.

    Raises:
        BadInputError: there is none, or its folder cannot be written.
    """
    from rlsched.files import write_whole
    from rlsched.report.sweeps import render_sweep
    from rlsched.tune.results import load_outcomes, save_results

    sweep, targets, outcomes = load_outcomes(folder)
    save_results(folder, sweep, targets, outcomes)
    result = sweep_result(folder, sweep, targets, outcomes)
    page, pictures = render_sweep(result)
    try:
        for name, png in pictures.items():
            write_whole(folder.path / name, png)
        write_whole(folder.report, page.encode())
    except OSError as error:
        raise BadInputError(str(folder.path), f"cannot be written ({error})", "make room") from None
    return result


def sweep_result(
    folder: SweepFolder, sweep: Sweep, targets: tuple[Target, ...], outcomes: list[Outcome]
) -> SweepResult:
    """The data of a sweep's report."""
    from rlsched.report.sweeps import SweepResult
    from rlsched.settings_files import as_yaml
    from rlsched.tune.results import pareto_front

    front = {outcome.name for outcome in pareto_front(outcomes, targets)}
    rows = [_trial_row(outcome, sweep, targets, front=outcome.name in front) for outcome in outcomes]
    scenario, config = sweep.settings(str(folder.path))
    search = sweep.search
    points = f", {search.samples} points, seed {search.seed}" if search.samples else ""
    trial = f"{sweep.policy} plays {sweep.episodes} episodes" if sweep.policy else f"{config.algo} is trained"
    return SweepResult(
        title=f"{folder.path.name}: sweep over {', '.join(sweep.space)}",
        description=sweep.description,
        objectives={target.metric: target.mode == "min" for target in targets},
        trials=rows,
        facts={
            "Scenario": scenario.name,
            "Each trial": f"{trial}, seeds {', '.join(map(str, sweep.seeds))}",
            "Search": f"{search.kind}{points}",
        },
        settings=as_yaml(sweep).decode(),
        limited=bool(scenario.objective.limits)
        or any(key.startswith("objective.costs") for key in sweep.space)
        or any(row.excess > 0 for row in rows),  # hoarding is a violation, too
    )


def _trial_row(outcome: Outcome, sweep: Sweep, targets: tuple[Target, ...], *, front: bool) -> TrialRow:
    """A row of the report's table."""
    import numpy as np

    from rlsched.report.sweeps import TrialRow
    from rlsched.tune.results import objectives_of
    from rlsched.tune.space import text

    values = np.array([objectives_of(outcome.point, [run], targets) for run in outcome.runs])
    return TrialRow(
        name=outcome.name,
        settings={
            key: outcome.point[key] if domain.numeric else text(outcome.point[key])
            for key, domain in sweep.space.items()
        },
        values=values.reshape(len(outcome.runs), len(targets)).T,
        whole=outcome.whole,
        front=front,
        excess=outcome.excess if outcome.runs else 0.0,
        steps=sum(run.steps for run in outcome.runs),
        seconds=sum(run.seconds for run in outcome.runs),
    )


def as_values(folder: SweepFolder, result: SweepResult, end: SweepEnd | None) -> dict[str, Any]:
    """The result as JSON values."""
    trials = [
        {
            "trial": trial.name,
            "settings": dict(trial.settings),
            "objectives": {
                name: None if mean != mean else float(mean)
                for name, mean in zip(result.objectives, trial.means, strict=True)
            },
            "whole": trial.whole,
            "front": trial.front,
            "excess": trial.excess,
            "steps": trial.steps,
            "seconds": trial.seconds,
        }
        for trial in result.trials
    ]
    reason = {} if end is None else {"reason": end.reason, "failed": dict(end.errors)}
    return {"folder": str(folder.path), **reason, "trials": trials}


def print_result(console: Console, folder: SweepFolder, result: SweepResult) -> None:
    """Print the best trials, the files, and the next command."""
    from rlsched.cli.tables import FAINT
    from rlsched.report.sweeps import findings

    console.print(_table(result))
    if any(trial.values.shape[1] > 1 for trial in result.trials):
        console.print("means of seeds [lowest, highest seed]; episodes differ by more", style=FAINT)
    if len(result.trials) > TABLE_ROWS:
        console.print(f"and {len(result.trials) - TABLE_ROWS} more in the report")
    for line in findings(result):
        console.print(line)
    lines = [f"report       {folder.report}", f"table        {folder.results}"]
    if fronts := len(list(folder.fronts())):
        lines.append(f"front        {folder.path}/front-1.yaml to front-{fronts}.yaml")
    if folder.best.exists():
        sweep = folder.read()
        if sweep.policy is None:
            best_run = quoted(f"{folder.path}-best")
            lines.append(f"train        rlsched train {quoted(folder.best)} --out {best_run}")
        else:
            command = f"rlsched simulate --scenario {quoted(folder.best)} --policy {sweep.policy}"
            lines.append(f"simulate     {command}")
    for line in lines:
        console.print(line, soft_wrap=True)


def _table(result: SweepResult) -> Table:
    """The best trials with settings and objectives."""
    from rlsched.cli.tables import plain_table
    from rlsched.report.sweeps import scale_of
    from rlsched.report.words import labelled, number

    scales = [scale_of(result, k) for k in range(len(result.objectives))]
    objectives = [labelled(list(result.objectives)[k], scales[k]) for k in result.reached]
    several = len(result.objectives) > 1
    marks = [*(["limits"] if result.limited else []), *(["front"] if several else [])]
    columns = ["trial", *result.keys, *objectives, *marks]
    table = plain_table(columns, right=[*result.keys, *objectives])
    for trial in result.trials[:TABLE_ROWS]:
        cells = [value if isinstance(value, str) else number(value) for value in trial.settings.values()]
        for k in result.reached:
            seeds = trial.values[k]
            spread = f" [{scales[k](seeds.min())}, {scales[k](seeds.max())}]" if seeds.size > 1 else ""
            cells.append(scales[k](trial.means[k]) + spread)
        if result.limited:
            cells.append("kept" if trial.excess <= 0 else f"violated by {100 * trial.excess:.1f} %")
        if several:
            cells.append("yes" if trial.front else "")
        table.add_row(trial.name + ("" if trial.whole else " (incomplete)"), *cells)
    return table
