"""What studies tell of policies, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.outcomes import Outcome, advice, draw_quality, outcome_table, quality, values_of
from rlsched.evaluate.statistics import EpisodeResult

NOISE = np.array([0.0, 0.6, -0.6, 0.3, -0.3, 0.0])  # of episodes; its mean is 0


def outcome(cql: float) -> Outcome:
    """Two runs of methods, that differ by 2 from each other, and orders."""
    base = 70 + np.arange(6.0)
    runs = np.array([[-1.0], [1.0]])
    values = {
        "bc": base + runs,
        "cql": base + cql + runs + NOISE,
        "crr": base + 3 + runs,
        "launchpad": base + 8 + runs,
        "packing": (base + 5)[None],
        "qos": (base - 2)[None],
        "sjf": (base - 1)[None],
    }
    agreement = {"bc": 0.9, "cql": 0.5, "crr": 0.6, "launchpad": 0.4}
    return Outcome("10-mix", values, agreement, ["qos", "sjf"])


def test_episodes_of_all_runs_of_a_method_stand_side_by_side() -> None:
    shares = {
        ("a-1", 1): 0.2,
        ("a-1", 0): 0.1,
        ("a-0", 0): 0.3,
        ("a-0", 1): 0.4,
        ("fcfs", 1): 0.6,
        ("fcfs", 0): 0.5,
    }
    results = [
        EpisodeResult(policy, "none", episode, 0, None, {"job_value_ratio": share})
        for (policy, episode), share in shares.items()
    ]
    result = values_of(results, "job_value_ratio", {"a-0": "a", "a-1": "a"})
    assert {name: item.tolist() for name, item in result.items()} == {
        "a": [pytest.approx([10, 20]), pytest.approx([30, 40])],
        "fcfs": [pytest.approx([50, 60])],
    }


def test_differences_are_of_means_of_runs_paired_by_episode() -> None:
    """Episodes differ by more than policies do, and runs of a method, too: nothing of it is left."""
    observed = outcome(4.0)
    assert (observed.best_order, observed.best_recorder, observed.best_method) == (
        "packing",
        "sjf",
        "launchpad",
    )
    assert observed.mean("bc") == pytest.approx(72.5)
    (over,) = observed.ahead(["launchpad"], "bc")
    assert over == pytest.approx((8, 8, 8))
    (over,) = observed.ahead(["cql"], "bc")
    assert over.mean == pytest.approx(4)
    assert 3.4 < over.low < 3.9 < 4.1 < over.high < 4.6


def test_advice_is_the_cheapest_method_that_does_not_differ_from_the_best() -> None:
    close, far = outcome(7.9), outcome(6.0)
    rows = advice([close, far]).splitlines()[2:]
    assert rows[0].startswith("| 10-mix | packing 77.5 | cql | 80.4 | +2.90 [")
    assert rows[1] == (
        "| 10-mix | packing 77.5 | launchpad | 80.5 | +3.00 [+3.00, +3.00] | +8.00 [+8.00, +8.00] |"
    )


def test_a_table_of_an_outcome() -> None:
    observed = outcome(4.0)
    lines = outcome_table(observed).splitlines()
    assert lines[0] == "| 10-mix | value (%), and of each run | to bc | to crr | to packing | alike |"
    crr = "| crr | 75.5 (74.5 76.5) | +3.00 [+3.00, +3.00] |   | -2.00 [-2.00, -2.00] | 60.0% |"
    assert crr in lines
    assert lines[-1] == "Orders: packing 77.5, sjf 71.5, qos 70.5."
    fewer = Outcome(
        "20-mix",
        {k: v for k, v in observed.values.items() if k != "cql"},
        {"bc": 0.8, "crr": 0.7, "launchpad": 0.6},
        ["qos"],
    )
    lines = quality([observed, fewer]).splitlines()
    assert "| 20-mix | 80.0% |   | 70.0% | 60.0% |" in lines
    assert lines[-1] == (
        "| 20-mix | qos 70.5 | 72.5, +2.00 [+2.00, +2.00] |   | +3.00 [+3.00, +3.00] | +8.00 [+8.00, +8.00] |"
    )


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    methods = list(outcome(4.0).agreement)
    target = draw_quality(tmp_path / "quality.png", {"mix": outcome(4.0), "more": outcome(6.0)}, methods)
    assert target.read_bytes().startswith(b"\x89PNG")
    second = draw_quality(tmp_path / "other.png", {"mix": outcome(4.0), "more": outcome(7.0)}, methods)
    assert second.read_bytes() != target.read_bytes()
