"""The scenario and recipe that the options of `rlsched collect` describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlsched.cli import options
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.recipe import Recipe
    from rlsched.scenario import Scenario

GROWING = {"steps"}
"""Settings that may change when a collection is resumed."""


def choose_recipe(
    folder: DatasetFolder, named: Mapping[str, Any], overrides: Sequence[str], *, resume: bool
) -> tuple[Scenario, Recipe]:
    """The scenario and the recipe of a dataset.

    Args:
        folder: of the dataset.
        named: argument or option -> its value; None: not given.
        overrides: `--set` assignments, those of `--steps` and `--seed` included.
        resume: the dataset exists and grows.

    Raises:
        BadInputError: options contradict each other or are wrong.
    """
    scenario, noise, policies = named["--scenario"], named["--noise"], options.items(named["--policy"])
    if named["--policy"] is not None and not policies:
        raise BadInputError(
            "--policy", "is empty", "name heuristics or folders of policies, as in sjf:0.5,qos:0.5"
        )
    if resume:
        extra = [name for name, value in named.items() if value is not None and name != "--steps"]
        if extra:
            problem = "uses the settings of the dataset's folder"
            raise BadInputError("--resume", problem, f"remove {', '.join(extra)}")
        return recipe_of_folder(folder, overrides)
    if named["--from-trace"] is not None:
        extra = [name for name in ("RECIPE", "--trace", "--policy", "--steps") if named[name] is not None]
        keys = ("episode", "episode.jobs", "steps")
        extra += [f"--set {text}" for text in overrides if text.partition("=")[0] in keys]
        if extra:
            problem = f"sets episodes, policy and length; so does {extra[0]}"
            raise BadInputError("--from-trace", problem, "remove one of them")
        return recipe_of_trace(scenario, named["--from-trace"], noise, overrides)
    return new_recipe(named["RECIPE"], scenario, named["--trace"], policies, noise, overrides)


def new_recipe(
    recipe: Path | None,
    scenario: str | None,
    trace: Path | None,
    policies: Sequence[str],
    noise: float | None,
    overrides: Sequence[str],
) -> tuple[Scenario, Recipe]:
    """The scenario and the recipe of a new dataset.

    Raises:
        BadInputError: there are several sources of them, or none, or they are wrong.
    """
    from rlsched.offline.recipe import Recipe, parse_behaviors
    from rlsched.scenario.combined_file import parse_combined, split_overrides
    from rlsched.settings import validate
    from rlsched.settings_files import read_text, read_yaml

    sources = [name for name, value in (("--scenario", scenario), ("--trace", trace)) if value]
    if (recipe is not None) == bool(sources):
        raise BadInputError(
            "rlsched collect",
            f"{' and '.join(['RECIPE', *sources])} are both given" if sources else "nothing to record",
            "give RECIPE, or --scenario, --trace or both of them with --policy",
        )
    if recipe is not None:
        if policies or noise is not None:
            raise BadInputError(
                "rlsched collect",
                f"{'--policy' if policies else '--noise'} and RECIPE are both given",
                "name policies in the recipe (behaviors)",
            )
        return parse_combined(read_yaml(read_text(recipe), str(recipe)), str(recipe), Recipe, overrides)
    for_recipe, for_scenario = split_overrides(Recipe, overrides)
    simulated = options.given_scenario(scenario, trace, for_scenario)
    options.check_trace(simulated)
    behaviors = [
        behavior.model_dump(mode="json") | ({} if noise is None else {"noise": noise})
        for behavior in parse_behaviors("--policy", policies or ["fcfs"])
    ]
    return simulated, validate(Recipe, {"behaviors": behaviors}, "--policy", for_recipe)


def recipe_of_trace(
    scenario: str | None, trace: Path, noise: float | None, overrides: Sequence[str]
) -> tuple[Scenario, Recipe]:
    """The scenario and the recipe of a replay of a trace's own schedule, once through its training part.

    Raises:
        BadInputError: episodes of the scenario end after a number of ticks.
    """
    from rlsched.offline.recorded import RECORDED

    # A site may leave units idle; under commit, only a reservation makes jobs wait.
    defaults = ["episode.jobs=null", "steps=1", "decision.action_rule=fit"]
    simulated, recipe = new_recipe(None, scenario, trace, [RECORDED], noise, [*defaults, *overrides])
    if simulated.episode.max_ticks is not None:
        raise BadInputError(
            "--from-trace",
            f"replays the whole trace, but episodes of scenario {simulated.name!r} end by episode.max_ticks",
            "remove --scenario, or record its episodes: --trace FILE --policy recorded",
        )
    return simulated, recipe


def recipe_of_folder(folder: DatasetFolder, overrides: Sequence[str]) -> tuple[Scenario, Recipe]:
    """The scenario and the recipe of a dataset that is resumed.

    Raises:
        BadInputError: there is no dataset, or another setting than its length is to change.
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
    if overrides and whole and any(behavior.policy == RECORDED for behavior in recipe.behaviors):
        raise BadInputError("--resume", "a whole trace is replayed only once", "remove steps")
    return simulated, validate(Recipe, recipe.model_dump(mode="json"), "--resume", overrides)
