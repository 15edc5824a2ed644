"""`rlsched train`: train a policy, watch it, go on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rlsched.cli.limits import parse_limits, settle
from rlsched.cli.options import (
    JsonOption,
    ScenarioOption,
    TraceOption,
    TrustOption,
    check_trace,
    given_scenario,
    set_option,
    trace_setting,
    whole_number,
)
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.learn.config.training import TrainConfig
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.summary import Summary
    from rlsched.scenario import Scenario

GROWING = {"steps", "minutes"}
"""What a run that goes on may change."""


def train(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="[CONFIG]", help="A training file (YAML): training settings and `scenario`."),
    ] = None,
    scenario: ScenarioOption = None,
    trace: TraceOption = None,
    algo: Annotated[str | None, typer.Option(metavar="NAME", help="See 'rlsched algorithms'.")] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Dataset to learn from ('rlsched collect'); its scenario, where none is named. Where it is "
            "now, with --resume.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Decisions to train for, in all; up to a tenth more, or what one episode of each candidate "
            "of a search comes to.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(metavar="M", help="Minutes to train for, in all; those before --resume count."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Random seed (0); with --seeds, the first.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=whole_number(1),
            help="Train with N seeds in turn, from --seed on, each as long as said, in folders DIR/seed-K of "
            "--out. With --resume: what is left of these.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Run folder.")] = Path("runs/train"),
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=AMOUNT",
            help="Limit of a cost ('rlsched objectives'), for ppo and cocorl; NAME=1.5:sjf: a multiple of a "
            "heuristic's cost; NAME=auto:0.6: a share of what is paid without limits, for which a policy is "
            "trained first. Repeatable.",
        ),
    ] = None,
    unconstrained: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A trained policy that keeps no limits, for --limit auto."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    trust: TrustOption = False,
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster; left out: this machine.")
    ] = None,
    settings: Annotated[list[str] | None, set_option("scenario or training field", "ppo.epochs=2")] = None,
    json_file: JsonOption = None,
) -> None:
    """Train a scheduler, with Ray RLlib or by evolution. Ctrl-C saves and stops, --resume goes on.

    One seed tells little: --seeds 5 trains five, which 'rlsched evaluate' compares as one policy.

    Example: rlsched train --scenario lublin-256 --minutes 5 --out runs/first
    """
    from rlsched.cli.output import Targets, people, write_json
    from rlsched.evaluate.policy_names import check_name
    from rlsched.learn.algorithms.base import ALGORITHMS
    from rlsched.learn.config.training import TrainConfig
    from rlsched.learn.folder import RunFolder, check_no_run, first_run
    from rlsched.settings import validate

    Targets(json=json_file).check()
    folder = RunFolder(out)
    overrides = list(settings or [])
    for name, value in {"steps": steps, "minutes": minutes, "seed": seed}.items():
        if value is not None:
            validate(TrainConfig, {name: value}, f"--{name}")
            overrides.append(f"{name}={value}")
    if algo is not None:
        check_name("--algo", "algorithm", algo, ALGORITHMS)
    named = {"algo": algo, "dataset": None if dataset is None else str(dataset)}
    chosen = {name: value for name, value in named.items() if value is not None}
    if seeds is not None:
        check_no_run(out)
    if resume:
        if config or scenario or algo or limit or unconstrained:
            raise BadInputError("--resume", "goes on with the settings of its run", "leave out the others")
        stopped = folder if seeds is None else first_run(out)
        simulated, training = settings_of_run(stopped, overrides, {"trace": trace, "dataset": dataset})
    else:
        simulated, training = settings_given(config, scenario, trace, overrides, chosen)
        folder.check_free()

    training = training.settled(simulated)
    console = people(json_file)
    limits = Limits(limit or (), unconstrained) if limit or unconstrained is not None else None
    summaries = _trained(
        simulated, training, folder, seeds, limits, resume=resume, address=address, trust=trust
    )
    if not summaries:
        console.print("go on        the same command again")
        raise typer.Exit(130)
    last = next(reversed(summaries.values()))
    values = {number: summary_values(summary) for number, summary in summaries.items()}
    from rlsched.cli.seeds import seeds_values, tell_seeds

    if json_file is not None:
        values_of_run = values[training.seed]
        write_json(json_file, values_of_run if seeds is None else seeds_values(summaries, out, values))
    if seeds is None:
        tell(console, last, out)
    else:
        tell_seeds(console, summaries, out, seeds)
    if last.reason == "interrupted":
        raise typer.Exit(130)


class Limits(NamedTuple):
    """What `--limit` says, and the folder of a policy that keeps none; None: it is trained."""

    texts: Sequence[str]
    unconstrained: Path | None


def _trained(
    simulated: Scenario,
    training: TrainConfig,
    folder: RunFolder,
    seeds: int | None,
    limits: Limits | None,
    *,
    resume: bool,
    address: str | None,
    trust: bool,
) -> dict[int, Summary]:
    """Seed -> how its run ended; none where the training without limits, for `auto`, was interrupted."""
    from rlsched.cli.watch import RichDisplay
    from rlsched.evaluate.seeds import seed_folders
    from rlsched.learn.folder import RunFolder
    from rlsched.learn.run import train as run
    from rlsched.learn.series import train_seeds

    with RichDisplay(training) as display:
        say = display.say_after_first_line
        if address is not None and not training.algorithm.uses_ray:
            say(f"--address is not used: {training.algo} plays and learns on this machine")
        try:
            if limits is not None:
                settled = settle(
                    simulated,
                    training,
                    parse_limits(limits.texts, simulated),
                    unconstrained=limits.unconstrained,
                    folder=folder,
                    display=display,
                    address=address,
                    say=say,
                )
                if settled is None:
                    return {}
                simulated = settled
            if seeds is None:
                if resume and (ended := ended_before(training, folder)) is not None:
                    return {training.seed: ended}
                summary = run(
                    simulated, training, folder, display, resume=resume, address=address, trust=trust
                )
                return {training.seed: summary}
            return train_seeds(
                simulated,
                training,
                folder.path,
                seeds,
                display,
                say=say,
                resume=resume,
                address=address,
                trust=trust,
            )
        except BadInputError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            runs = [folder, *map(RunFolder, seed_folders(folder.path).values())]
            if any(run_folder.latest() is not None for run_folder in runs):
                again = resume_command(folder.path, seeds)
                if isinstance(error, KeyboardInterrupt):  # nobody shows the notes of this one
                    display.console.print(f"go on        {again}", markup=False)
                error.add_note(f"go on from its last checkpoint: {again}")
            raise


def ended_before(training: TrainConfig, folder: RunFolder) -> Summary | None:
    """How a run ended that is at its end by these settings already; None: it is not."""
    from rlsched.learn.summary import Summary, reason_to_end

    latest, _ = folder.checkpoints.intact()
    reason = None if latest is None else reason_to_end(training, latest[1])
    return None if reason is None else replace(Summary.of(folder, reason), trained=False)


def resume_command(out: Path, seeds: int | None) -> str:
    """What goes on with a run, or with runs of so many seeds."""
    return f"rlsched train --resume{'' if seeds is None else f' --seeds {seeds}'} --out {quoted(out)}"


def tell(console: Console, summary: Summary, out: Path) -> None:
    """How a run ended, where it is, and what to do next."""
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
        console.print(f"go on        {resume_command(out, None)}", markup=False, soft_wrap=True)


def settings_given(
    config: Path | None,
    scenario: str | None,
    trace: Path | None,
    overrides: Sequence[str],
    chosen: Mapping[str, str] | None = None,
) -> tuple[Scenario, TrainConfig]:
    """The settings of a new run.

    Args:
        config: a training file.
        scenario: a name or file.
        trace: of jobs.
        overrides: `--set` assignments.
        chosen: algorithm and dataset, where they have options of their own.

    Raises:
        BadInputError: more than one source of settings, or they are wrong.
    """
    from rlsched.learn.config.training import TrainConfig, make_config, read_config
    from rlsched.offline.manifest import read_manifest
    from rlsched.scenario import parse
    from rlsched.scenario.beside import split_overrides

    chosen = dict(chosen or {})
    sources = [name for name, value in (("--scenario", scenario), ("--trace", trace)) if value]
    if (config is not None and sources) or not (config or sources or "dataset" in chosen):
        raise BadInputError(
            "rlsched train",
            f"{' and '.join(['CONFIG', *sources])} are both given" if sources else "nothing to train on",
            "give CONFIG, or --scenario, --trace or both of them, or --dataset",
        )
    if config is not None:
        return read_config(config, overrides, chosen)
    for_training, for_scenario = split_overrides(TrainConfig, overrides)
    if "dataset" in chosen and scenario is None:
        recorded = read_manifest(Path(chosen["dataset"])).scenario.model_dump(mode="json")
        moved = [] if trace is None else [trace_setting(trace)]
        simulated = parse(recorded, chosen["dataset"], [*moved, *for_scenario])
    else:
        simulated = given_scenario(scenario, trace, for_scenario)
    if trace is None:
        check_trace(simulated)
    return simulated, make_config(chosen, "--set", for_training)


def settings_of_run(
    folder: RunFolder, overrides: Sequence[str], moved: Mapping[str, Path | None]
) -> tuple[Scenario, TrainConfig]:
    """The settings of the run that goes on.

    Args:
        folder: of the run.
        overrides: `--set` assignments.
        moved: `trace` and `dataset` -> where they are now; None: where they were.

    Raises:
        BadInputError: there is no run, or something else than its length is to change.
    """
    from rlsched.learn.config.training import make_config
    from rlsched.scenario import files, parse

    simulated, training = folder.read()
    changed = {override.partition("=")[0] for override in overrides} - GROWING
    if changed:
        raise BadInputError(
            "--resume", f"cannot change {', '.join(sorted(changed))}", "only steps and minutes may change"
        )
    had = files(simulated) | ({} if training.dataset is None else {"dataset": training.dataset})
    files_moved = {name: path for name, path in moved.items() if path is not None}
    for name in files_moved:
        if name not in had:
            raise BadInputError(f"--{name}", f"the run has no {name}", "leave it out")
        if not folder.knows_inputs():
            raise BadInputError(
                f"--{name}",
                "the run is of a version that did not write down what it was begun with",
                f"leave it out, and bring {had[name]} back",
            )
    if "trace" in files_moved:
        where = str(folder.path / "train.yaml")
        simulated = parse(simulated.model_dump(mode="json"), where, [trace_setting(files_moved["trace"])])
    values = training.model_dump(mode="json")
    if "dataset" in files_moved:
        values["dataset"] = str(files_moved["dataset"])
    return simulated, make_config(values, "--resume", overrides)


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
