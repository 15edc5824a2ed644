"""The scenario and recipe that the options of `rlsched collect` describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlsched.cli import options
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.offline.folder import DatasetFolder
    from rlsched.offline.recipe import Recipe
    from rlsched.scenario import Scenario

GROWING = {"steps"}
"""Settings that may change when a collection is resumed."""


@dataclass(frozen=True)
class CollectOptions:
    """Options that say what is recorded, as `rlsched collect` was given them; None: not given."""

    recipe: Path | None
    scenario: str | None
    trace: Path | None
    from_trace: Path | None
    policy: Sequence[str] | None
    noise: float | None
    steps: int | None
    seed: int | None
    settings: Sequence[str]

    @property
    def policies(self) -> list[str]:
        """Names of `--policy`."""
        return options.items(self.policy)

    @property
    def overrides(self) -> list[str]:
        """`--set` assignments, those of `--steps` and `--seed` included."""
        short_options = {"steps": self.steps, "seed": self.seed}
        return [*self.settings, *(f"{k}={v}" for k, v in short_options.items() if v is not None)]

    def resolve(self, folder: DatasetFolder, *, resume: bool) -> tuple[Scenario, Recipe]:
        """The scenario and the recipe of the dataset.

        Args:
            folder: of the dataset.
            resume: the dataset exists and grows.

        Raises:
            BadInputError: options contradict each other or are wrong.
        """
        if self.policy is not None and not self.policies:
            raise BadInputError(
                "--policy", "is empty", "name heuristics or folders of policies, as in sjf:0.5,qos:0.5"
            )
        if resume:
            self._check_resume()
            return recipe_of_folder(folder, self.overrides)
        if self.from_trace is not None:
            self._check_from_trace()
            return recipe_of_trace(self.scenario, self.from_trace, self.noise, self.overrides)
        return new_recipe(self.recipe, self.scenario, self.trace, self.policies, self.noise, self.overrides)

    def _check_resume(self) -> None:
        """Refuse options whose values `--resume` reads from the folder."""
        sources = {
            "RECIPE": self.recipe,
            "--scenario": self.scenario,
            "--trace": self.trace,
            "--from-trace": self.from_trace,
            "--policy": self.policy,
            "--noise": self.noise,
        }
        extra = _names_of_given(sources)
        if extra:
            raise BadInputError(
                "--resume", "uses the settings of the dataset's folder", f"remove {', '.join(extra)}"
            )

    def _check_from_trace(self) -> None:
        """Refuse options whose values `--from-trace` implies."""
        implied = {
            "RECIPE": self.recipe,
            "--trace": self.trace,
            "--policy": self.policy,
            "--steps": self.steps,
        }
        extra = _names_of_given(implied)
        keys = ("episode", "episode.jobs", "steps")
        extra += [f"--set {text}" for text in self.overrides if text.partition("=")[0] in keys]
        if extra:
            raise BadInputError(
                "--from-trace", f"sets episodes, policy and length; so does {extra[0]}", "remove one of them"
            )


def _names_of_given(values: Mapping[str, object]) -> list[str]:
    return [name for name, value in values.items() if value is not None]


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
    from rlsched.scenario.combined_file import read_combined, split_overrides
    from rlsched.settings import validate

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
        return read_combined(recipe, Recipe, overrides)
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
