"""The scale of values (PopArt), and weights of imitation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlsched.learn.algorithms.learners.rare import regression_weights
from rlsched.learn.networks.popart import PopArt

pytestmark = pytest.mark.slow  # imports Ray
TARGETS = st.lists(st.floats(-20, 20), min_size=1, max_size=8)


@given(
    st.lists(TARGETS, min_size=1, max_size=4),
    st.floats(-5, 5),
    st.floats(0.01, 1),
    st.floats(1, 30),
    st.floats(-3, 3),
)
def test_the_scale_changes_and_what_values_mean_does_not(
    batches: list[list[float]], mean: float, rate: float, scale: float, value: float
) -> None:
    """Nor by how much it is off: that is in the new scale."""
    popart, normalised = PopArt(mean, rate, scale), torch.tensor(value)
    before = popart.undo(normalised)
    for k, targets in enumerate(batches, 1):
        share = max(rate, 1 / k)
        mean = (1 - share) * mean + share * np.mean(targets)
        factor, offset = popart.update(torch.tensor(targets))
        normalised = normalised * factor + offset
    after = popart.undo(normalised)
    assert float(after) == pytest.approx(float(before), rel=1e-3, abs=1e-3)
    assert float(popart.mean) == pytest.approx(mean, abs=1e-3)
    assert float(popart.undo(popart(before))) == pytest.approx(float(before), rel=1e-3, abs=1e-3)


def test_the_scale_is_that_of_the_targets_from_the_first() -> None:
    """By hand; a guess stays nowhere, and early minibatches count no more than later ones."""
    popart = PopArt(7.0, 0.1, 4.0)
    assert float(popart.unit) == pytest.approx(1, rel=1e-4)
    batches = [torch.tensor([1.0, 3.0]), torch.tensor([4.0, 4.0]), torch.tensor([0.0, 6.0])]
    for k, batch in enumerate(batches):
        popart.update(batch)
        every = torch.cat(batches[: k + 1])
        assert float(popart.mean) == pytest.approx(float(every.mean()))
        assert float(popart.spread) == pytest.approx(float(every.std(correction=0)))
    assert float(popart(torch.tensor(3.0 + 8 * float(popart.spread)))) == pytest.approx(2)  # of 4 spreads
    for _ in range(200):
        popart.update(torch.tensor([1.0, 2.0]))
    assert float(popart.mean) == pytest.approx(1.5, abs=1e-3)
    assert float(popart.spread) == pytest.approx(0.5, abs=1e-3)


def test_weights_of_what_is_imitated() -> None:
    """By hand: better than the policy or not; and e to the advantage in deviations, at most 20."""
    advantages = torch.tensor([-1.0, 0.0, 2.0, 3.0])
    assert regression_weights(advantages, "binary", 1.0).tolist() == [0, 0, 1, 1]
    spread = np.std(advantages.numpy())
    expected = np.minimum(np.exp(advantages.numpy() / (0.5 * spread)), 20.0)
    assert expected.max() == 20
    torch.testing.assert_close(regression_weights(advantages, "exp", 0.5), torch.tensor(expected))


def test_a_state_with_former_names_still_loads() -> None:
    saved = PopArt(1.0, 0.1, 10.0)
    saved.update(torch.tensor([2.0, 4.0]))
    state = dict(saved.state_dict())
    state["seen"] = state.pop("updates")
    again = PopArt(0.0, 0.1, 10.0)
    again.load_state_dict(state)
    assert (int(again.updates), float(again.mean)) == (1, 3.0)
