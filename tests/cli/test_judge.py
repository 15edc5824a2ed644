"""`rlsched dataset judge`: what a policy would earn, without a simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlsched import scenario
from rlsched.envs.episodes import EpisodeFeed

from ..priorities import priority_policy
from .conftest import Run

SHORT = "episode.max_ticks=100"


def exported(folder: Path, weights: dict[str, float], noop: float, *settings: str) -> Path:
    """A policy that scores jobs so."""
    chosen = EpisodeFeed(scenario.load("green-10", [SHORT, *settings])).scenario
    priority_policy(chosen, weights, noop=noop, resources=2).save(folder)
    return folder


@pytest.fixture
def recorded(rlsched: Run, tmp_path: Path) -> Path:
    out = tmp_path / "recorded"
    words = ("collect", "--scenario", "green-10", "--policy", "sjf", "--steps", 3000, "--set", SHORT)
    assert rlsched(*words, "--noise", 0.2, "--out", out).code == 0
    return out


@pytest.mark.slow
def test_policies_have_estimates_and_warnings(rlsched: Run, recorded: Path, tmp_path: Path) -> None:
    short = exported(tmp_path / "short", {"duration": -1.0, "fits": 3.0}, 1.0)
    lazy = exported(tmp_path / "lazy", {"duration": -1.0}, 9.0)
    file = tmp_path / "judged.json"
    ran = rlsched("dataset", "judge", recorded, short, lazy, "--json", file)
    values = json.loads(file.read_text())
    short_estimate, lazy_estimate = (values["policies"][str(path)] for path in (short, lazy))
    assert values["gamma"] == 0.998
    assert short_estimate["agreement"]["sjf~0.2"] > 0.8
    assert lazy_estimate["agreement"]["sjf~0.2"] < 0.2
    assert short_estimate["fqe"]["low"] <= short_estimate["fqe"]["mean"] <= short_estimate["fqe"]["high"]
    assert values["recorded"]["low"] < values["recorded"]["mean"] < values["recorded"]["high"]
    assert lazy_estimate["wis"]["mean"] is None
    assert any("no estimate by wis" in warning for warning in lazy_estimate["warnings"])
    assert "(recorded)" in ran.out
    assert f"{lazy}: no recorded episode agrees with the policy to its end" in ran.out.replace("\n", " ")


def test_a_policy_of_something_else_is_refused(rlsched: Run, recorded: Path, tmp_path: Path) -> None:
    wide = exported(tmp_path / "wide", {"duration": -1.0}, 1.0, "decision.window=7")
    refused_policy = rlsched("dataset", "judge", recorded, wide)
    assert refused_policy.code == 2
    assert "was trained with another decision than scenario 'green-10' has" in refused_policy.err
    missing = rlsched("dataset", "judge", recorded, tmp_path / "none")
    assert missing.code == 2
    assert "no such folder" in missing.err
    shaped = tmp_path / "shaped"
    words = ("--scenario", "green-10", "--policy", "sjf", "--steps", 100, "--set", SHORT)
    reward = ("--set", "objective.reward={started_value: 1}")
    assert rlsched("collect", *words, *reward, "--out", shaped).code == 0
    ran = rlsched("dataset", "judge", shaped, exported(tmp_path / "it", {"wait": 1.0}, 1.0), "--gamma", 0.9)
    assert ran.code == 2
    assert "--gamma: value 0.9 is not the 0.998 with which started_value was recorded" in ran.err
    for gamma in ("0", "1.01", "nan", "much"):
        refused = rlsched("dataset", "judge", recorded, wide, "--gamma", gamma)
        assert refused.code == 2
        assert f"value '{gamma}'; use a number above 0, at most 1" in refused.err
