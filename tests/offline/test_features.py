"""What decisions are like, in numbers: what these depend on."""

from __future__ import annotations

import numpy as np
import pytest

from rlsched.offline.features import Features
from rlsched.scenario import Decision, Observation
from rlsched.sim.layout import Layout

LAYOUTS = [("jobs", "event_horizon", "queue"), ("event_horizon", "queue")]


@pytest.mark.parametrize("blocks", LAYOUTS)
def test_every_block_counts(blocks: tuple[str, ...]) -> None:
    """Jobs in sight or none: the numbers of each block move them."""
    observation = Observation.model_validate({"blocks": blocks, "event_horizon": 8})
    layout = Layout.of(observation, Decision(window=16), 1)
    rng = np.random.default_rng(0)
    obs, second = rng.random((2, 40, layout.size), np.float32)
    actions = rng.integers(layout.num_actions, size=40)
    features = Features(layout, obs, actions, 0)
    result = features(obs, actions)
    for block in layout.blocks:
        part = slice(block.offset, block.offset + block.size)
        changed = obs.copy()
        changed[:, part] = second[:, part]
        assert not np.array_equal(features(changed, actions), result)
    assert not np.array_equal(features(obs, (actions + 1) % layout.num_actions), result)
