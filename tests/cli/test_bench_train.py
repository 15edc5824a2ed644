"""`rlsched bench train`: everybody takes turns, and the shares of their time add up."""

from __future__ import annotations

import pytest

from rlsched.cli import repository

from .conftest import Run

SMALL = ("sampling.envs_per_runner=4", "sampling.fragment=32", "ppo.minibatch=32", "episode.jobs=24")


@pytest.mark.slow
@pytest.mark.long
def test_everybody_takes_turns(rlsched: Run) -> None:
    words = [word for setting in (*SMALL, "decision.window=16") for word in ("--set", setting)]
    ran = rlsched("bench", "train", "--turns", "2", *words, "--json", "-")
    assert ran.code == 0, ran.err
    figures = ran.json["figures"]
    assert {figure["name"] for figure in figures} == {"train_decisions_per_s", "sampled_decisions_per_s"}
    cases = {figure["case"] for figure in figures}
    assert cases >= {f"lublin-256, {name}" for name in ("rlsched", "RLlib", "plain loop")}
    for figure in figures:
        assert figure["value"] > 0
        assert figure["against"] == "plain loop"
        assert (figure["ratio"] == 1) == figure["case"].endswith("plain loop")


def test_yardsticks_are_found_in_the_repository_only() -> None:
    assert repository.module("benchmarks.plain_ppo") is not None
    assert repository.module("benchmarks.none") is None
