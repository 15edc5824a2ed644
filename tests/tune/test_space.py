"""Domains of settings, and random values of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from rlsched.learn.config.training import TrainConfig
from rlsched.settings import apply_overrides
from rlsched.tune.space import Domain, assignments, point_id, text


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({}, "sets nothing; set exactly one of values, uniform, log_uniform, integers, log_integers"),
        ({"values": [1], "uniform": [0, 1]}, "sets values and uniform; set exactly one"),
        ({"values": []}, "at least 1 item"),
        ({"uniform": [2, 1]}, r"value \[2, 1\] is empty"),
        ({"integers": [3, 3]}, r"value \[3, 3\] is empty"),
        ({"log_uniform": [0, 1]}, "value 0 has no logarithm"),
    ],
)
def test_wrong_domains_are_refused(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError, match=line):
        Domain.model_validate(settings)


def test_draws_stay_within_and_reach_both_ends() -> None:
    rng = np.random.default_rng(0)
    for settings, lowest, highest in (
        ({"uniform": (2.0, 3.0)}, 2.01, 2.99),
        ({"log_uniform": (1e-4, 1.0)}, 1.1e-4, 0.9),
        ({"integers": (1, 4)}, 1, 4),
        ({"log_integers": (1, 64)}, 1, 64),
    ):
        domain = Domain.model_validate(settings)
        drawn = [domain.draw(rng) for _ in range(2000)]
        low, high = domain.bounds
        assert low <= min(drawn) <= lowest
        assert highest <= max(drawn) <= high
        if domain.is_integer:
            assert all(isinstance(value, int) for value in drawn)
        if domain.logarithmic:  # half of them below the geometric middle
            assert 0.4 < np.mean(np.array(drawn) < np.sqrt(low * high)) < 0.6
    listed = Domain(values=("a", [1, 2], None))
    assert {text(listed.draw(rng)) for _ in range(100)} == {"a", "[1, 2]", "null"}


def test_domains_of_ray_tune_have_the_same_values() -> None:
    state = np.random.RandomState(0)
    integers = Domain(integers=(1, 3)).to_tune().sample(size=200, random_state=state)
    assert set(integers) == {1, 2, 3}
    domain = Domain(values=([64, 64], 8))
    assert [domain.from_text(category) for category in domain.to_tune().categories] == [[64, 64], 8]


def test_points_are_assignments_with_unique_names() -> None:
    point = {"network.hidden": [16, 8], "ppo.learning_rate": 1e-05, "dataset": None, "algo": "dqn"}
    values = apply_overrides(TrainConfig, TrainConfig().model_dump(mode="json"), assignments(point))
    assert (values["network"]["hidden"], values["ppo"]["learning_rate"]) == ([16, 8], 1e-05)
    assert (values["dataset"], values["algo"]) == (None, "dqn")
    assert point_id(point) == point_id(dict(reversed(point.items())))
    assert point_id(point) != point_id({**point, "algo": "ppo"})
