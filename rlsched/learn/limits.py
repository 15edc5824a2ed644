"""Limits of costs that are told as a share of what is paid where nobody keeps any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.config import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.plan import validation_of
from rlsched.learn.policy import load_policy
from rlsched.learn.run import Display, train
from rlsched.learn.selection import limited_name
from rlsched.scenario import Scenario
from rlsched.settings import validate

UNCONSTRAINED = "unconstrained"
"""Folder, in that of a run, of the run that shows what is paid."""


def with_limits(scenario: Scenario, limits: Mapping[str, float | None]) -> Scenario:
    """The same with these limits, and its others.

    Raises:
        BadInputError: a cost is not counted there.
    """
    values = scenario.model_dump(mode="json")
    values["objective"]["costs"] |= limits
    return validate(Scenario, values, "--limit")


def without_limits(config: TrainConfig) -> TrainConfig:
    """How a policy is trained that keeps none, and learns alike otherwise."""
    own = {name: getattr(config.cocorl, name) for name in type(config.ppo).model_fields}
    return config.model_copy(update={"algo": "ppo", "ppo": config.ppo.model_copy(update=own)})


def train_unconstrained(
    scenario: Scenario, config: TrainConfig, folder: RunFolder, display: Display, *, address: str | None
) -> bool:
    """Train such a policy beside a run that is to begin, or the rest of it.

    Args:
        scenario: that is simulated.
        config: of the run that is to begin.
        folder: of the run that keeps none.
        display: shows progress.
        address: of a Ray cluster; left out: this machine.

    Returns:
        Whether it has been trained to its end.

    Raises:
        BadInputError: there is one of other settings, or these cannot be used.
    """
    scenario, config = with_limits(scenario, dict.fromkeys(scenario.objective.costs)), without_limits(config)
    begun = (folder.path / "train.yaml").exists()
    if begun:
        had = folder.read()
        latest = folder.latest()
        if not _alike(had[1], config) or had[0].objective != scenario.objective:
            raise BadInputError(
                str(folder.path),
                "was trained with other settings",
                "name another --out, or --unconstrained DIR",
            )
        if latest is not None and latest[1].steps >= (had[1].steps or 0):
            return True
        scenario, config = had
    return train(scenario, config, folder, display, resume=begun, address=address).reason != "interrupted"


def _alike(had: TrainConfig, config: TrainConfig) -> bool:
    """Whether a run was begun with these settings; networks may know more of the cluster since."""
    same = {"network": config.network}
    return had.model_copy(update=same) == config


def costs_of(scenario: Scenario, config: TrainConfig, policy: Path, names: Iterable[str]) -> dict[str, float]:
    """What is compared with limits of these costs, as a policy decides on the episodes of a validation.

    Args:
        scenario: that is simulated.
        config: of the run whose validation it is.
        policy: folder of a trained policy, or of a run.
        names: of the costs.

    Raises:
        BadInputError: there is no policy, or it does not fit.
    """
    names = list(names)
    feed = EpisodeFeed(with_limits(scenario, dict.fromkeys(names, 0.0)))
    validation = validation_of(feed.scenario, config, feed)
    metrics = validation.run(load_policy(policy))
    return {name: metrics[limited_name(name)] for name in names}
