"""Priority functions with weights that a test chooses."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.networks.priority import PriorityNet
from rlsched.learn.policy import NetworkPolicy
from rlsched.scenario import Scenario
from rlsched.sim.layout import Layout


def priority_policy(
    scenario: Scenario, weights: Mapping[str, float], *, noop: float, resources: int = 1, hidden: int = 0
) -> NetworkPolicy:
    """A policy that takes the job with the highest weighted sum of its features.

    Args:
        scenario: that it sees.
        weights: job feature -> weight; others are zero.
        noop: score of the no-op, over the best job's without a horizon.
        resources: of the cluster.
        hidden: units of the hidden layer, which adds nothing.
    """
    layout = Layout.of(scenario.observation, scenario.decision, resources)
    network = Network(kind="priority", priority_units=hidden)
    net = build_policy(layout, network).eval()
    assert isinstance(net, PriorityNet)
    with torch.no_grad():
        net.weights.copy_(torch.tensor([weights.get(name, 0.0) for name in layout.features("jobs")]))
        net.constants[-1] = noop
    return NetworkPolicy(scenario, network, net, resources, {"algo": "priority_search"})
