"""Evaluation of one policy under the settings of a point, where nothing is trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from rlsched.evaluate.costs import allowed, cheapest_cost, limit_unit, limited_costs
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_factory import make_policies
from rlsched.evaluate.policy_names import backfill_rules, policy_specs
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.learn.policy import load_policy
from rlsched.scenario import Scenario


def open_comparison(
    scenario: Scenario, policy: str, episodes: int, seed: int
) -> tuple[Session, list[Policy]]:
    """The episodes of an evaluation, and its policies.

    Args:
        scenario: to evaluate in.
        policy: heuristic, `heuristic:rule`, or the folder of a trained policy.
        episodes: number of episodes.
        seed: of the episodes.

    Raises:
        BadInputError: the policy does not fit the scenario.
    """
    rules = backfill_rules(scenario)
    session = open_session(scenario, Choice(episodes=episodes, seed=seed))
    chosen = policy_specs("policy", [policy], rules[:1], rules)
    return session, make_policies("policy", chosen, session, lambda path: {None: load_policy(Path(path))})


def evaluate_policy(
    scenario: Scenario, policy: str, episodes: int, seed: int
) -> tuple[dict[str, float], float]:
    """Metric -> its mean over the episodes that have it; and the violation of limits.

    Arguments as of `open_comparison`. Limits hold for means. Hoarding is not checked: unlike the validation
    of a training (`learn.selection`), this does not choose among policies.
    """
    session, policies = open_comparison(scenario, policy, episodes, seed)
    comparison = session.run(policies)
    results = comparison.result.episodes
    names = sorted({name for episode in results for name in episode.metrics})
    values = {name: np.array([episode.metrics.get(name, np.nan) for episode in results]) for name in names}
    excess = 0.0
    if scenario.objective.limits:
        (runs,) = comparison.runs.values()
        setting = (session.scenario, session.units, session.episodes)
        for name, limits in allowed(*setting).items():
            limit = float(limits.mean())
            cost = float(limited_costs(session.scenario, session.units, name, runs).mean())
            unit = limit_unit(limit, partial(cheapest_cost, *setting, name))
            excess = max(excess, (cost - limit) / unit)
    means = {name: float(np.nanmean(array)) for name, array in values.items() if np.isfinite(array).any()}
    return means, excess
