"""`rlsched train`: train a policy, show its progress, or resume a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlsched.cli import output
from rlsched.cli.limits import parse_limits, settle
from rlsched.cli.options import (
    JsonOption,
    ScenarioOption,
    TraceOption,
    TrustOption,
    set_option,
    whole_number,
)
from rlsched.cli.train_report import resume_command, seeds_values, summary_values, tell, tell_seeds
from rlsched.cli.train_settings import settings_given, settings_of_run
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.cli.watch import RichDisplay
    from rlsched.learn.config.training import ResolvedConfig
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.summary import Summary
    from rlsched.scenario import Scenario


ConfigArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG]", help="A training file (YAML): training settings and `scenario`."),
]
AlgoOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Learning algorithm, see 'rlsched algorithms' (default ppo)."),
]
DatasetOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Dataset to learn from ('rlsched collect'). Without --scenario its scenario is used. With "
        "--resume: its new place.",
    ),
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Total decisions of the training. A run may take up to a tenth more, or one episode of each "
        "candidate in a search.",
    ),
]
MinutesOption = Annotated[
    float | None,
    typer.Option(metavar="M", help="Total minutes of the training, with those before --resume."),
]
SeedOption = Annotated[
    int | None, typer.Option(metavar="N", help="Random seed (default 0); with --seeds, the first one.")
]
SeedsOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=whole_number(1),
        help="Train N seeds in turn, from --seed on, in folders DIR/seed-K of --out. --steps and --minutes "
        "are for each seed. With --resume: the seeds that are not complete.",
    ),
]
OutOption = Annotated[Path, typer.Option(metavar="DIR", help="Run folder.")]
LimitOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=AMOUNT",
        help="Limit of a cost ('rlsched objectives'), for ppo and cocorl. NAME=1.5:sjf is a multiple of a "
        "heuristic's cost. NAME=auto:0.6 is a share of the cost of a policy without limits, which is "
        "trained first. Repeatable.",
    ),
]
UnconstrainedOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A policy that was trained without limits, for --limit auto."),
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Resume the run in --out.")]
AddressOption = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Ray cluster (default: this machine).")
]
SettingsOption = Annotated[list[str] | None, set_option("scenario or training field", "ppo.epochs=2")]


def train(
    config: ConfigArgument = None,
    scenario: ScenarioOption = None,
    trace: TraceOption = None,
    algo: AlgoOption = None,
    dataset: DatasetOption = None,
    steps: StepsOption = None,
    minutes: MinutesOption = None,
    seed: SeedOption = None,
    seeds: SeedsOption = None,
    out: OutOption = Path("runs/train"),
    limit: LimitOption = None,
    unconstrained: UnconstrainedOption = None,
    resume: ResumeOption = False,
    trust: TrustOption = False,
    address: AddressOption = None,
    settings: SettingsOption = None,
    json_file: JsonOption = None,
) -> None:
    """Train a scheduler, with Ray RLlib or by evolution. Ctrl-C saves and stops; --resume continues.

    One seed tells little: --seeds 5 trains five, which 'rlsched evaluate' compares as one policy.

    Example: rlsched train --scenario lublin-256 --minutes 5 --out runs/first
    """
    from rlsched.learn.folder import RunFolder, check_no_run, first_run

    targets = output.Targets(json_file).check()
    folder = RunFolder(out)
    overrides = _overrides({"steps": steps, "minutes": minutes, "seed": seed}, settings or [])
    chosen = _chosen(algo, dataset)
    if seeds is not None:
        check_no_run(out)
    if resume:
        if config or scenario or algo or limit or unconstrained:
            raise BadInputError("--resume", "uses the settings of its run", "remove the others")
        stopped = folder if seeds is None else first_run(out)
        simulated, training = settings_of_run(stopped, overrides, {"trace": trace, "dataset": dataset})
    else:
        simulated, training = settings_given(config, scenario, trace, overrides, chosen)
        folder.check_free()
    resolved = training.resolve(simulated)
    summaries = _train(
        simulated,
        resolved,
        folder,
        seeds,
        (limit or (), unconstrained),
        {"resume": resume, "address": address, "trust": trust},
    )
    _report(summaries, out, targets, seeds)


def _overrides(options: Mapping[str, float | None], settings: Sequence[str]) -> list[str]:
    """The `--set` assignments with those of options that are settings, too."""
    from rlsched.learn.config.training import TrainConfig
    from rlsched.settings import validate

    overrides = list(settings)
    for name, value in options.items():
        if value is not None:
            validate(TrainConfig, {name: value}, f"--{name}")
            overrides.append(f"{name}={value}")
    return overrides


def _chosen(algo: str | None, dataset: Path | None) -> dict[str, str]:
    """Algorithm and dataset, where they are given.

    Raises:
        BadInputError: there is no such algorithm.
    """
    from rlsched.evaluate.policy_names import check_name
    from rlsched.learn.algorithms.base import ALGORITHMS

    if algo is not None:
        check_name("--algo", "algorithm", algo, ALGORITHMS)
    values = {"algo": algo, "dataset": None if dataset is None else str(dataset)}
    return {name: value for name, value in values.items() if value is not None}


def _train(
    scenario: Scenario,
    config: ResolvedConfig,
    folder: RunFolder,
    seeds: int | None,
    limits: tuple[Sequence[str], Path | None],
    how: Mapping[str, Any],
) -> dict[int, Summary]:
    """Train one run, or one for each seed; returns summaries by seed.

    Args:
        scenario: that is simulated.
        config: of the run.
        folder: of the run, or of the runs of several seeds.
        seeds: number of seeds; None: one run without `--seeds`.
        limits: texts of `--limit`, and `--unconstrained`.
        how: whether to resume, address of a Ray cluster, trust in checkpoints.

    Returns:
        An empty dictionary if training without limits, for `auto`, was interrupted.
    """
    from rlsched.cli.watch import RichDisplay
    from rlsched.learn.run import train as run
    from rlsched.learn.series import train_seeds
    from rlsched.learn.summary import ended_before

    texts, unconstrained = limits
    with RichDisplay(config) as display:
        say = display.say_after_first_line
        if how["address"] is not None and not config.algorithm.uses_ray:
            say(f"--address is not used: {config.algo} plays and learns on this machine")
        try:
            if texts or unconstrained is not None:
                parsed, address = parse_limits(texts, scenario), how["address"]
                limited = settle(scenario, config, parsed, unconstrained, folder, display, address, say)
                if limited is None:
                    return {}
                scenario = limited
            if seeds is not None:
                return train_seeds(scenario, config, folder.path, seeds, display, say=say, **how)
            if how["resume"] and (ended := ended_before(config, folder)) is not None:
                return {config.seed: ended}
            return {config.seed: run(scenario, config, folder, display, **how)}
        except BadInputError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            _add_resume_note(error, folder, seeds, display)
            raise


def _add_resume_note(
    error: BaseException, folder: RunFolder, seeds: int | None, display: RichDisplay
) -> None:
    """Say how to resume, where there is a checkpoint."""
    from rlsched.evaluate.seeds import seed_folders
    from rlsched.learn.folder import RunFolder

    runs = [folder, *map(RunFolder, seed_folders(folder.path).values())]
    if all(run.latest() is None for run in runs):
        return
    again = resume_command(folder.path, seeds)
    if isinstance(error, KeyboardInterrupt):  # its notes are never shown
        display.console.print(f"resume       {again}")
    error.add_note(f"resume from its last checkpoint: {again}")


def _report(summaries: dict[int, Summary], out: Path, targets: output.Targets, seeds: int | None) -> None:
    """Print and write how the runs ended; an interrupted one ends with exit code 130."""
    if not summaries:
        targets.console.print("restart      with the same command")
        raise typer.Exit(130)
    last = next(reversed(summaries.values()))
    if seeds is None:
        targets.write(summary_values(last))
        tell(targets.console, last, out)
    else:
        targets.write(seeds_values(summaries, out))
        tell_seeds(targets.console, summaries, out, seeds)
    if last.reason == "interrupted":
        raise typer.Exit(130)
