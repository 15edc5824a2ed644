"""Critics that learn distributions of returns."""

from __future__ import annotations

import torch

from rlsched.learn.networks.critic import centres, initial_logits, squash, two_hot, unsquash


def test_two_hot_by_hand() -> None:
    at = torch.tensor([-4.0, 0.0, 1.0, 10.0])
    actual = two_hot(torch.tensor([[0.25, 10.0], [-1.0, -99.0]]), at)
    wanted = [[[0, 0.75, 0.25, 0], [0, 0, 0, 1]], [[0.25, 0.75, 0, 0], [1, 0, 0, 0]]]
    torch.testing.assert_close(actual, torch.tensor(wanted))


def test_the_mean_of_two_bins_is_the_value() -> None:
    at = centres().double()
    values = unsquash(torch.linspace(-9.9, 9.9, 4001, dtype=torch.float64))
    torch.testing.assert_close(two_hot(values, at) @ at, values)


def test_bins_are_symmetric_and_evenly_spaced_as_logarithms() -> None:
    at = centres()
    torch.testing.assert_close(at, -at.flip(0))
    steps = squash(at).diff()
    torch.testing.assert_close(steps, steps.mean().expand_as(steps), atol=1e-3, rtol=1e-3)


def test_a_distribution_learns_the_mean_of_what_is_seldom_large() -> None:
    """One return in a hundred is -50, the others are 0: -0.5, where logarithms lead to less than a tenth."""
    at = centres()
    targets = torch.zeros(100)
    targets[0] = -50.0
    logits = torch.nn.Parameter(initial_logits(torch.tensor([-1.0]), at)[0])
    optimizer = torch.optim.Adam([logits], lr=0.1)
    for _ in range(2000):
        loss = -(two_hot(targets, at) * logits.log_softmax(dim=0)).sum(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    expected = float((logits.softmax(dim=0) @ at).detach())
    assert abs(expected + 0.5) < 0.02
    assert abs(float(unsquash(squash(targets).mean()))) < 0.05


def test_what_is_expected_at_first() -> None:
    means = torch.tensor([-1.0, 0.0, 3.0])
    expected = initial_logits(means, centres()).softmax(dim=1) @ centres()
    torch.testing.assert_close(expected, means, atol=0.2, rtol=0.2)
