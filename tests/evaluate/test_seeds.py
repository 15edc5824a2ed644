"""Policies of several training seeds as one, by hand."""

from __future__ import annotations

import json
from math import isnan, nan
from pathlib import Path

import pytest

from rlsched.evaluate.hoarding import hoarding
from rlsched.evaluate.limits import check_limits
from rlsched.evaluate.results import Result, to_json
from rlsched.evaluate.seeds import named_seeds, seed_folder, seed_folders
from rlsched.evaluate.statistics import EpisodeResult, PolicyLabel, Table, by_cell, summarise, summarise_seeds
from rlsched.report.tables import seeds_table
from rlsched.report.words import judgement, within
from rlsched.scenario import Objective, Scenario

from .test_limits import costly, simulated


def played(policy: str, values: list[float], seed: int | None = None, **more: float) -> list[EpisodeResult]:
    """Episodes of one seed, or of a heuristic."""
    return [
        EpisodeResult(
            policy,
            "policy" if seed is not None else "greedy",
            k,
            seed=7,
            offset=None,
            metrics={"wait": value, **more},
            learned=seed is not None,
            training_seed=seed,
        )
        for k, value in enumerate(values)
    ]


SJF = played("sjf", [10.0, 20.0, 30.0, 40.0])
SEEDS = [*played("it", [8.0, 16.0, 24.0, 80.0], 5), *played("it", [4.0, 24.0, 28.0, nan], 2)]


def test_means_differences_and_wins_are_those_of_all_seeds_and_episodes() -> None:
    row = by_cell(summarise(Table.of([*SJF, *SEEDS])))[PolicyLabel("it", "policy"), "wait"]
    assert (row.seeds, row.episodes) == (2, 4)
    assert row.mean == pytest.approx(184 / 7)
    assert row.best_heuristic == "sjf + greedy"
    assert row.best_heuristic_difference == pytest.approx((-2 - 4 - 6 + 40 - 6 + 4 - 2) / 7)
    assert row.wins == pytest.approx(5 / 7)
    assert row.low < row.mean < row.high


def test_results_of_each_seed() -> None:
    results = Table.of([*SJF, *SEEDS])
    (row,) = summarise_seeds(results, summarise(results))
    assert (row.policy, row.metric, row.seeds) == ("it", "wait", (2, 5))
    assert row.means == pytest.approx((56 / 3, 32.0))
    assert row.iqm == pytest.approx((8 + 16 + 24 + 24 + 28) / 5)  # one of 7 is left out at either end
    assert row.iqm_low < row.iqm < row.iqm_high
    assert row.best_heuristic_iqm == 25.0
    assert [seed for seed, _ in row.ranked()] == [2, 5]


def test_one_policy_has_no_rows_of_seeds() -> None:
    alone = [EpisodeResult("it", "policy", k, 7, None, {"wait": 3.0}, learned=True) for k in range(4)]
    results = Table.of([*SJF, *alone])
    assert summarise_seeds(results, summarise(results)) == []


def test_one_seed_is_the_policy_itself() -> None:
    alone = [EpisodeResult("it", "policy", k, 7, None, {"wait": 3.0 + k}, learned=True) for k in range(4)]
    seed = played("it", [3.0 + k for k in range(4)], 3)
    assert summarise(Table.of([*SJF, *alone])) == summarise(Table.of([*SJF, *seed]))


def test_a_policy_has_training_seeds_or_none() -> None:
    mixed = [EpisodeResult("it", "policy", 9, 7, None, {"wait": 1.0}, learned=True)]
    with pytest.raises(ValueError, match=r"it \+ policy has episodes with a training seed, and without"):
        Table.of([*SEEDS, *mixed])


def test_hoarding_over_all_seeds_and_by_seed() -> None:
    reference = played("sjf", [100.0, 100.0], schedule_span=1.0, completion_ratio=1.0)
    good, bad = (
        played("it", [wait, wait], seed, schedule_span=1.0, completion_ratio=1.0)
        for wait, seed in ((100.0, 0), (240.0, 1))
    )
    (finding,) = hoarding(Table.of([*reference, *good, *bad]))
    assert (finding.wait, finding.episodes) == (170.0, 2)
    assert (finding.breached, finding.seeds_breached) == (False, (1,))
    assert judgement(finding) == "counts as a whole: seed 1 alone hoards"
    (finding,) = hoarding(
        Table.of([*reference, *good, *bad, *played("it", [300.0, 300.0], 2, schedule_span=1.0)])
    )
    assert (finding.breached, finding.seeds_breached) == (True, (1, 2))
    assert judgement(finding).endswith("wait too long on average; seeds 1 and 2 alone hoard")


def test_limits_over_all_seeds_and_by_seed() -> None:
    cheap, dear = ([costly(10, cost), costly(10, cost)] for cost in (10.0, 28.0))
    limited = simulated(Objective(costs={"delayed_jobs": 25.0}, limits_per="episode"))
    (result,) = check_limits("it", limited, [8], cheap, {0: cheap, 4: dear})
    assert (result.mean, result.low, result.high) == pytest.approx((19.0, 10.0, 28.0))
    assert result.met
    assert result.seeds_above == (4,)
    assert within(result) == "kept on average; seed 4 alone breaks it"


def test_what_is_written() -> None:
    drawn = Scenario.model_validate({"workload": {"kind": "lublin"}})
    result = Result.of(drawn, [*SJF, *SEEDS])
    values = json.loads(json.dumps(to_json(result), allow_nan=False))
    (row,) = values["seeds"]
    assert (row["seeds"], row["means"]) == ([2, 5], pytest.approx([56 / 3, 32.0]))
    seeds = [episode["training_seed"] for episode in values["episodes"]]
    assert seeds == [*[None] * 4, *[5] * 4, *[2] * 4]
    again = [
        EpisodeResult(**{**e, "metrics": {"wait": e["metrics"]["wait"] or nan}}) for e in values["episodes"]
    ]
    assert summarise(Table.of(again)) == summarise(Table.of([*SJF, *SEEDS]))
    page = seeds_table(result.seeds, ["wait"])
    assert "18.7 (seed 2) to 32 (seed 5)" in page
    assert "<td>25</td>" in page


def test_a_seed_that_measured_nothing_has_no_mean() -> None:
    results = Table.of([*SJF, *played("it", [8.0, 16.0, 24.0, 80.0], 0), *played("it", [nan] * 4, 1)])
    (row,) = summarise_seeds(results, summarise(results))
    assert isnan(row.means[1])
    assert row.ranked() == [(0, 32.0)]
    assert row.iqm == 20.0


def test_folders_of_seeds(tmp_path: Path) -> None:
    for name in ("seed-10", "seed-2", "seed-x", "best", "xseed-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "seed-3").write_text("")
    assert list(seed_folders(tmp_path)) == [2, 10]
    assert seed_folders(tmp_path)[10] == seed_folder(tmp_path, 10)
    assert seed_folders(tmp_path / "none") == {}
    assert [named_seeds(seeds) for seeds in ([3], [1, 2], [1, 2, 4])] == [
        "seed 3",
        "seeds 1 and 2",
        "seeds 1, 2 and 4",
    ]
