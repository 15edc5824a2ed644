"""Limits of costs as shares of the costs of a policy trained without limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rlsched.errors import BadInputError
from rlsched.learn.algorithms.cocorl import without_limits
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.folder import RunFolder
from rlsched.learn.plan import Plan, inputs_of, resolve_run
from rlsched.learn.policy import NetworkPolicy
from rlsched.learn.run import Display, train
from rlsched.learn.selection import limited_name
from rlsched.offline.behavior import check_trained
from rlsched.scenario import Limit, Scenario
from rlsched.settings import validate

UNCONSTRAINED = "unconstrained"
"""Subfolder of a run folder for the run without limits."""


def with_limits(scenario: Scenario, limits: Mapping[str, Limit | None]) -> Scenario:
    """Copy of a scenario with these limits in addition to its others.

    Raises:
        BadInputError: the scenario does not have such a cost.
    """
    values = scenario.model_dump(mode="json")
    values["objective"]["costs"] |= dict(limits)
    return validate(Scenario, values, "--limit")


def train_unconstrained(
    scenario: Scenario, config: TrainConfig, folder: RunFolder, display: Display, *, address: str | None
) -> bool:
    """Train a policy without limits for a run that is to begin, or resume that training.

    Args:
        scenario: with limits.
        config: of the run that is to begin.
        folder: of the run without limits.
        display: shows progress.
        address: of a Ray cluster; None: this machine.

    Returns:
        Whether it has been trained to its end.

    Raises:
        BadInputError: the folder holds a run with other settings, or these cannot be used.
    """
    config = without_limits(config.resolve(scenario))
    scenario = with_limits(scenario, dict.fromkeys(scenario.objective.costs))
    resume = folder.holds_run
    if resume:
        feed, wanted = resolve_run(scenario, config)
        if folder.read() != (feed.scenario, wanted):
            raise BadInputError(
                str(folder.path),
                "was trained with other settings",
                "name another --out, or --unconstrained DIR",
            )
        folder.check_inputs(inputs_of(feed.scenario, wanted))
        latest = folder.latest()
        if latest is not None and latest[1].steps >= wanted.steps:
            return True
    return train(scenario, config, folder, display, resume=resume, address=address).reason != "interrupted"


def costs_of(planned: Plan, policy: NetworkPolicy, names: Iterable[str]) -> dict[str, float]:
    """Amounts that are compared with limits of these costs, for a policy on the episodes of a validation.

    The plan has some limit for each of the costs; the policy has passed `check_fits`.
    """
    metrics = planned.validation.run(policy)
    return {name: metrics[limited_name(name)] for name in names}


def check_fits(planned: Plan, policy: NetworkPolicy, name: str) -> None:
    """Check that a policy can act in the scenario of a run.

    Raises:
        BadInputError: its observations or actions are others.
    """
    check_trained("--unconstrained", name, policy, planned.scenario.public, len(planned.feed.units))
