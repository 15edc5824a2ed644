"""What one policy reaches under other settings, where nothing is trained."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from rlsched.evaluate.costs import allowed, cheapest_cost, limit_unit, limited_costs
from rlsched.evaluate.policy import Policy
from rlsched.evaluate.policy_factory import make_policies
from rlsched.evaluate.policy_names import backfill_rules, policy_specs
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.scenario import Scenario


def open_comparison(
    scenario: Scenario, policy: str, episodes: int, seed: int
) -> tuple[Session, list[Policy]]:
    """The episodes, and who plays them.

    Args:
        scenario: that is simulated.
        policy: queue order, `order:rule`, or a trained policy's folder.
        episodes: so many.
        seed: of them.

    Raises:
        BadInputError: the policy cannot play there.
    """
    rules = backfill_rules(scenario)
    session = open_session(scenario, Choice(episodes=episodes, seed=seed))
    chosen = policy_specs("policy", [policy], rules[:1], rules)
    return session, make_policies("policy", chosen, session, _load)


def _load(path: str) -> dict[int | None, TrainedPolicy]:
    return {None: load_policy(Path(path))}


def figures(scenario: Scenario, policy: str, episodes: int, seed: int) -> tuple[dict[str, float], float]:
    """Metric -> its mean over the episodes where it could be measured; and by how much limits are broken.

    Arguments as of `open_comparison`. Limits are judged by means, and hoarding is not looked at. Unlike in
    the validation of a training (`learn.selection`), nothing is chosen here from many policies.
    """
    session, playing = open_comparison(scenario, policy, episodes, seed)
    comparison = session.run(playing)
    played = comparison.result.episodes
    names = {name for one in played for name in one.metrics}
    values = {name: np.array([one.metrics.get(name, np.nan) for one in played]) for name in sorted(names)}
    excess = 0.0
    if scenario.objective.limits:
        (runs,) = comparison.runs.values()
        for name, limit in allowed(session.scenario, session.units, session.episodes).items():
            most, places = float(limit.mean()), (session.scenario, session.units, session.episodes)
            cost = float(limited_costs(session.scenario, session.units, name, runs).mean())
            unit = limit_unit(most, partial(cheapest_cost, *places, name))
            excess = max(excess, (cost - most) / unit)
    found = {name: float(np.nanmean(each)) for name, each in values.items() if np.isfinite(each).any()}
    return found, excess
