"""What one policy reaches under other settings, where nothing is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rlsched.evaluate.compare import Contestant
from rlsched.evaluate.contestants import contestants, entries, rules_of
from rlsched.evaluate.session import Choice, Session, open_session
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.scenario import Scenario


def contest(scenario: Scenario, policy: str, episodes: int, seed: int) -> tuple[Session, list[Contestant]]:
    """The episodes, and who plays them.

    Args:
        scenario: that is simulated.
        policy: queue order, `order:rule`, or a trained policy's folder.
        episodes: so many.
        seed: of them.

    Raises:
        BadInputError: the policy cannot play there.
    """
    rules = rules_of(scenario)
    session = open_session(scenario, Choice(episodes=episodes, seed=seed))
    chosen = entries("policy", [policy], rules[:1], rules)
    return session, contestants("policy", chosen, session, _load)


def _load(path: str) -> TrainedPolicy:
    return load_policy(Path(path))


def figures(scenario: Scenario, policy: str, episodes: int, seed: int) -> tuple[dict[str, float], float]:
    """Metric -> its mean over the episodes where it could be measured; and by how much limits are broken.

    Arguments as of `contest`; the excess is as in `learn.selection`, but for hoarding.
    """
    session, playing = contest(scenario, policy, episodes, seed)
    played = session.run(playing).result.episodes
    names = {name for one in played for name in one.metrics}
    values = {name: np.array([one.metrics.get(name, np.nan) for one in played]) for name in sorted(names)}
    excess, objective = 0.0, scenario.objective
    jobs = [len(episode.jobs) for episode in session.episodes]
    for name, limit in objective.limits.items():
        paid = np.mean([objective.limited(*one) for one in zip(values[f"cost.{name}"], jobs, strict=True)])
        excess = max(excess, (float(paid) - limit) / (limit or 1.0))
    found = {name: float(np.nanmean(each)) for name, each in values.items() if np.isfinite(each).any()}
    return found, excess
