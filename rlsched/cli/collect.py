"""`rlsched collect`: record what schedulers do as a dataset to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlsched.cli import options, output
from rlsched.cli.dataset import behaviors_table, megabytes
from rlsched.errors import BadInputError
from rlsched.files import quoted

if TYPE_CHECKING:
    from rich.console import Console

    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.manifest import Manifest
    from rlsched.offline.recipe import Recipe
    from rlsched.scenario import Scenario

GROWING = {"steps"}
"""What a collection that goes on may change."""


def collect(
    recipe: Annotated[
        Path | None,
        typer.Argument(metavar="[RECIPE]", help="A recipe (YAML): `scenario`, `behaviors`, `steps`, `seed`."),
    ] = None,
    scenario: options.ScenarioOption = None,
    trace: options.TraceOption = None,
    from_trace: Annotated[
        Path | None,
        typer.Option(
            "--from-trace",
            metavar="FILE",
            help="A job trace (SWF) whose own scheduler is to be learned from: its starts are replayed, once "
            "through the part of it that training may see.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="NAME[:RULE][:SHARE],...",
            help="Queue orders ('rlsched policies') or folders of trained policies, each with its share of "
            "the episodes (1). Orders with a horizon may have a rule, as in qos:now:0.5.",
        ),
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            parser=options.chance,
            help="Chance that a decision of --policy is drawn from all legal ones instead (0).",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=options.whole_number(1),
            help="Decisions at least (1,000,000); episodes are played to their end.",
        ),
    ] = None,
    seed: options.SeedOption = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the dataset.")] = Path("runs/dataset"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the dataset in --out.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Set any field of the scenario or the recipe. Repeatable."
        ),
    ] = None,
    json: options.JsonOption = None,
) -> None:
    """Record what schedulers do, decision by decision, as a Parquet dataset to learn from.

    Every episode is played by one of the policies. Ctrl-C, SIGTERM or SIGHUP stop, --resume goes on, and what
    comes out is the same as without the break.

    Example: rlsched collect --scenario green-10 --policy qos:0.5,sjf:0.5 --steps 100000 --out runs/mixed
    """
    from rlsched.cli.checkpoints import loader
    from rlsched.offline.collect import collect as run
    from rlsched.offline.folder import DatasetFolder

    output.Targets(json=json).check()
    names = options.items(policy)
    if policy is not None and not names:
        raise BadInputError("--policy", "names nobody", "name queue orders or folders, as in sjf:0.5,qos:0.5")
    folder = DatasetFolder(out)
    overrides = list(settings or [])
    given = {"steps": steps, "seed": seed}
    overrides += [f"{name}={value}" for name, value in given.items() if value is not None]
    if resume:
        sources = {
            "RECIPE": recipe,
            "--scenario": scenario,
            "--trace": trace,
            "--from-trace": from_trace,
            "--policy": policy,
            "--noise": noise,
        }
        check_alone(sources)
        simulated, chosen = recipe_of_folder(folder, overrides)
    elif from_trace is not None:
        check_from_trace(recipe, trace, policy, steps, overrides)
        simulated, chosen = recipe_of_trace(scenario, from_trace, noise, overrides)
    else:
        simulated, chosen = recipe_given(recipe, scenario, trace, names, noise, overrides)
    output.check_folder("--out", out)
    console = output.people(json)
    go_on = f"go on        rlsched collect --resume --out {quoted(out)}"
    with output.progress("recording", chosen.steps) as shown:
        try:
            dataset = run(simulated, chosen, folder, loader(), resume=resume, begin=shown, progress=shown)
        except BadInputError:
            raise
        except Exception as error:
            error.add_note(go_on)
            raise
        except KeyboardInterrupt:
            if not folder.exists:
                raise
            console.print(f"stopped      {folder.rows():,} decisions are safe")
            console.print(go_on, soft_wrap=True)
            raise typer.Exit(130) from None
    if json is not None:
        output.write_json(json, {"schema": 1, "folder": str(out), **dataset.model_dump(mode="json")})
    tell(console, dataset, out)


def tell(console: Console, dataset: Manifest, out: Path) -> None:
    """Who decided how well in a dataset, where it is, and what to do next."""
    console.print(behaviors_table(dataset))
    for line in kept_to_record(dataset):
        console.print(line)
    console.print(f"dataset      {out} ({dataset.rows:,} decisions, {megabytes(dataset):,.1f} MB)")
    console.print(f"check it     rlsched dataset check {quoted(out)}", markup=False)


def check_alone(sources: Mapping[str, object]) -> None:
    """Refuse what `--resume` knows by itself.

    Raises:
        BadInputError: it is given, too.
    """
    given = [name for name, value in sources.items() if value is not None]
    if given:
        raise BadInputError("--resume", "goes on with what it was told", f"leave out {', '.join(given)}")


def recipe_given(
    recipe: Path | None,
    scenario: str | None,
    trace: Path | None,
    policy: Sequence[str],
    noise: float | None,
    overrides: Sequence[str],
) -> tuple[Scenario, Recipe]:
    """What a new dataset is to hold.

    Raises:
        BadInputError: more than one source of it, or it is wrong.
    """
    from rlsched.offline.recipe import Recipe, parse_behaviors
    from rlsched.scenario.beside import read_beside, split_overrides
    from rlsched.settings import validate

    others = [name for name, value in (("--scenario", scenario), ("--trace", trace)) if value]
    if (recipe is not None) == bool(others):
        raise BadInputError(
            "rlsched collect",
            f"{' and '.join(['RECIPE', *others])} are both given" if others else "nothing to record",
            "give RECIPE, or --scenario, --trace or both of them with --policy",
        )
    if recipe is not None:
        if policy or noise is not None:
            raise BadInputError(
                "rlsched collect",
                f"{'--policy' if policy else '--noise'} and RECIPE are both given",
                "name policies in the recipe (behaviors)",
            )
        return read_beside(recipe, Recipe, overrides)
    for_recipe, for_scenario = split_overrides(Recipe, overrides)
    simulated = options.given_scenario(scenario, trace, for_scenario)
    options.check_trace(simulated)
    behaviors = [
        one.model_dump(mode="json") | ({} if noise is None else {"noise": noise})
        for one in parse_behaviors("--policy", policy or ["fcfs"])
    ]
    return simulated, validate(Recipe, {"behaviors": behaviors}, "--policy", for_recipe)


def recipe_of_trace(
    scenario: str | None, trace: Path, noise: float | None, overrides: Sequence[str]
) -> tuple[Scenario, Recipe]:
    """Who decided in a trace, once through the part of it that training may see.

    Raises:
        BadInputError: it cannot be played as a whole.
    """
    from rlsched.offline.recorded import RECORDED

    # A site may let units wait; under commit, waiting is always for somebody.
    told = ["episode.jobs=null", "steps=1", "decision.action_rule=fit", *overrides]
    simulated, recipe = recipe_given(None, scenario, trace, [RECORDED], noise, told)
    if simulated.episode.max_ticks is not None:
        raise BadInputError(
            "--from-trace",
            f"is replayed whole, but episodes of scenario {simulated.name!r} end by episode.max_ticks",
            "leave --scenario out, or record its episodes: --trace FILE --policy recorded",
        )
    return simulated, recipe


def check_from_trace(
    recipe: Path | None,
    trace: Path | None,
    policy: Sequence[str] | None,
    steps: int | None,
    overrides: Sequence[str],
) -> None:
    """Refuse what `--from-trace` says by itself.

    Raises:
        BadInputError: something else says it, too.
    """
    said = {"RECIPE": recipe, "--trace": trace, "--policy": policy, "--steps": steps}
    both = [name for name, value in said.items() if value is not None]
    own = ("episode", "episode.jobs", "steps")
    both += [f"--set {one}" for one in overrides if one.partition("=")[0] in own]
    if both:
        raise BadInputError(
            "--from-trace",
            f"says what is played, by whom and how long; so does {both[0]}",
            "leave one of them out",
        )


def kept_to_record(dataset: Manifest) -> list[str]:
    """How far replays of what was recorded kept to it, in words."""
    from rlsched.offline.recorded import FOLLOWED

    found = []
    for one in dataset.behaviors:
        if not one.metrics.keys() >= set(FOLLOWED):
            continue
        count = {name: one.metrics[name].mean * one.episodes for name in FOLLOWED}
        by = count["later_s"] / max(1.0, count["started_later"]) / 60
        share = {name: value / max(1.0, count["recorded_jobs"]) for name, value in count.items()}
        found.append(
            f"{one.behavior}: of {count['recorded_jobs']:,.0f} jobs {share['started_as_recorded']:.1%} "
            f"started as in the trace, {share['started_by_event']:.1%} at the last event before, "
            f"{count['started_earlier']:,.0f} earlier, {count['started_later']:,.0f} later (by {by:,.0f} "
            f"minutes; {count['later_unseen']:,.0f} of them stood too far back in the queue to be seen), "
            f"{count['not_started']:,.0f} not at all; {count['unrecorded_jobs']:,.0f} more say nothing of it"
        )
    return found


def recipe_of_folder(folder: DatasetFolder, overrides: Sequence[str]) -> tuple[Scenario, Recipe]:
    """What the dataset that goes on is to hold.

    Raises:
        BadInputError: there is none, or something else than its length is to change.
    """
    from rlsched.offline.recipe import Recipe
    from rlsched.offline.recorded import RECORDED
    from rlsched.settings import validate

    simulated, recipe = folder.read()
    changed = {override.partition("=")[0] for override in overrides} - GROWING
    if changed:
        raise BadInputError(
            "--resume", f"cannot change {', '.join(sorted(changed))}", "only steps may change"
        )
    whole = not (simulated.episode.jobs or simulated.episode.max_ticks)
    if overrides and whole and any(one.policy == RECORDED for one in recipe.behaviors):
        raise BadInputError(
            "--resume", "a whole trace is played once: there is no more of it", "leave out steps"
        )
    return simulated, validate(Recipe, recipe.model_dump(mode="json"), "--resume", overrides)
