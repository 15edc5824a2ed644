"""`rlsched collect`: record decisions of policies as a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.cli.collect_recipe import choose_recipe
from rlsched.cli.dataset_tables import behaviors_table, megabytes
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import Manifest
    from rlsched.offline.recipe import Recipe
    from rlsched.scenario import Scenario

RecipeArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[RECIPE]", help="A recipe (YAML): `scenario`, `behaviors`, `steps`, `seed`."),
]
FromTraceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A job trace (SWF) whose own schedule is recorded: its starts are replayed, once through the "
        "part of the trace that training may use.",
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        "-p",
        metavar="NAME[:RULE][:SHARE],...",
        help="Heuristics ('rlsched policies') or folders of trained policies, each with its share of the "
        "episodes (default 1). In scenarios with a planning horizon, heuristics may have a rule, as in "
        "qos:now:0.5.",
    ),
]
NoiseOption = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        parser=options.chance,
        help="Probability that a random legal action replaces the action of --policy (default 0).",
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.whole_number(1),
        help="Least number of decisions (default 1,000,000); the last episode is completed.",
    ),
]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the dataset.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume the dataset in --out.")]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set any field of the scenario or the recipe. Repeatable."
    ),
]


def collect(
    recipe: RecipeArgument = None,
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    from_trace: FromTraceOption = None,
    policy: PolicyOption = None,
    noise: NoiseOption = None,
    steps: StepsOption = None,
    seed: options.SeedOption = None,
    out: OutOption = Path("runs/dataset"),
    resume: ResumeOption = False,
    settings: SettingsOption = None,
    json: options.JsonOption = None,
) -> None:
    """Record decisions of policies as a Parquet dataset for offline training.

    Each episode is run by one of the policies. After Ctrl-C, SIGTERM or SIGHUP, --resume continues: the
    dataset is the same as without the interruption.

    Example: rlsched collect --scenario green-10 --policy qos:0.5,sjf:0.5 --steps 100000 --out runs/mixed
    """
    from rlsched.offline.folder import DatasetFolder

    targets = output.Targets(json).check()
    folder = DatasetFolder(out)
    named = {
        "RECIPE": recipe,
        "--scenario": scenario,
        "--trace": trace,
        "--from-trace": from_trace,
        "--policy": policy,
        "--noise": noise,
        "--steps": steps,
    }
    lengths = [f"{key}={value}" for key, value in (("steps", steps), ("seed", seed)) if value is not None]
    simulated, resolved = choose_recipe(folder, named, [*(settings or []), *lengths], resume=resume)
    output.check_folder("--out", out)
    console = targets.console
    dataset = _record(simulated, resolved, folder, console, resume=resume)
    targets.write({"folder": str(out), **dataset.model_dump(mode="json")})
    print_dataset(console, dataset, out)


def _record(
    scenario: Scenario, recipe: Recipe, folder: DatasetFolder, console: Console, *, resume: bool
) -> Manifest:
    """Record a dataset; after an interruption or a failure, print or note the command that resumes it."""
    from rlsched.cli.checkpoints import loader
    from rlsched.offline.collect import collect as record

    resume_line = f"resume       rlsched collect --resume --out {quoted(folder.path)}"
    with output.progress("recording", recipe.steps) as step:
        try:
            return record(scenario, recipe, folder, loader(), resume=resume, begin=step, progress=step)
        except BadInputError:
            raise
        except Exception as error:
            error.add_note(resume_line)
            raise
        except KeyboardInterrupt:
            if not folder.exists:
                raise
            console.print(f"stopped      {folder.rows():,} decisions are safe")
            console.print(resume_line, soft_wrap=True)
            raise typer.Exit(130) from None


def print_dataset(console: Console, dataset: Manifest, out: Path) -> None:
    """Print the results of the policies in a dataset, its folder, and the next command."""
    console.print(behaviors_table(dataset))
    for line in replay_lines(dataset):
        console.print(line)
    console.print(f"dataset      {out} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(out)}")


def replay_lines(dataset: Manifest) -> list[str]:
    """For each replay of a recorded schedule, how closely it follows the record."""
    from rlsched.offline.recorded import FOLLOWED

    lines = []
    for behavior in dataset.behaviors:
        if not behavior.metrics.keys() >= set(FOLLOWED):
            continue
        count = {name: behavior.metrics[name].mean * behavior.episodes for name in FOLLOWED}
        delay_min = count["later_s"] / max(1.0, count["started_later"]) / 60
        share = {name: value / max(1.0, count["recorded_jobs"]) for name, value in count.items()}
        lines.append(
            f"{behavior.behavior}: of {count['recorded_jobs']:,.0f} jobs {share['started_as_recorded']:.1%} "
            f"started as in the trace, {share['started_by_event']:.1%} at the last event before, "
            f"{count['started_earlier']:,.0f} earlier, {count['started_later']:,.0f} later (by "
            f"{delay_min:,.0f} minutes; {count['later_unseen']:,.0f} of them were outside of the window), "
            f"{count['not_started']:,.0f} not at all; {count['unrecorded_jobs']:,.0f} more have no record"
        )
    return lines
