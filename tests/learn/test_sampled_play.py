"""No illegal action in a hundred thousand: policies that draw, untrained and shaken."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed
from rlsched.evaluate.play import play
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import NetworkPolicy
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout
from tests.policies import Forgetful

STEPS = 100_000


class Counting(Forgetful):
    """Passes decisions on, counts them, and looks at them itself."""

    def __init__(self, policy: NetworkPolicy) -> None:
        self.policy, self.steps, self.illegal = policy, 0, 0

    def decide(self, obs: np.ndarray, mask: np.ndarray) -> np.ndarray:
        actions = self.policy.act(obs, mask)
        self.steps += len(actions)
        self.illegal += int((mask[np.arange(len(mask)), actions] == 0).sum())
        return actions


def play_drawing(policy: NetworkPolicy, simulated: Scenario, steps: int) -> Counting:
    """At least so many decisions; the simulator itself raises at the first illegal one."""
    drawing = NetworkPolicy(policy.scenario, policy.network, policy.net, 1, {}, sample=True)
    feed, counting, index = EpisodeFeed(simulated), Counting(drawing), 0
    while counting.steps < steps:
        episodes = [feed.evaluation(index + k, seed=0) for k in range(128)]
        index += 128
        played = play(simulated.public, feed.units, episodes, counting, batch=128)
        assert all((episode.start >= episode.jobs.submit).all() for episode in played)
    return counting


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rule"), [("job_scorer", "commit"), ("mlp", "commit"), ("mlp", "fit")])
def test_an_untrained_policy_never_draws_what_is_illegal(kind: str, rule: str) -> None:
    simulated = scenario.load(
        "lublin-256", ["episode.jobs=128", "decision.window=32", f"decision.action_rule={rule}"]
    )
    torch.manual_seed(5)
    network = Network(kind=kind, hidden=(32,))  # far from greedy
    net = build_policy(Layout.of(simulated.observation, simulated.decision, 1), network)
    counting = play_drawing(NetworkPolicy(simulated, network, net, 1, {}), simulated, STEPS)
    assert counting.steps >= STEPS
    assert counting.illegal == 0
