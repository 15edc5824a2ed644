"""The JSON of `simulate` and `evaluate` that users rely on."""

from __future__ import annotations

from typing import Any

from rlsched.scenario import parse

METRICS = {
    *("job_value", "job_value_ratio", "on_time_value", "on_time_value_ratio", "completion_ratio"),
    *(
        "utilization",
        "wait",
        "response",
        "slowdown",
        "bounded_slowdown",
        "makespan",
        "throughput",
        "rejected",
    ),
}
EPISODE = {"policy": str, "backfill": str, "episode": int, "seed": int, "metrics": dict}
SUMMARY = {"policy": str, "backfill": str, "metric": str, "mean": float, "low": float, "high": float}
DIFFERENCES = ("best_heuristic_difference", "difference_low", "difference_high")


def check_contract(values: dict[str, Any]) -> None:
    assert values["schema"] == 1
    parse(values["scenario"], "scenario")  # can be run again
    assert values["protocol"] in {None, "rlscheduler"}
    assert all(isinstance(count, int) for count in values["repairs"].values())
    assert values["episodes"]
    for episode in values["episodes"]:
        for key, kind in EPISODE.items():
            assert isinstance(episode[key], kind), (key, episode)
        assert episode["offset"] is None or isinstance(episode["offset"], int)
        assert episode["metrics"].keys() >= METRICS
    metrics = {name for episode in values["episodes"] for name in episode["metrics"]}
    policies = {(episode["policy"], episode["backfill"]) for episode in values["episodes"]}
    for row in values["summary"]:
        for key, kind in SUMMARY.items():
            assert isinstance(row[key], kind), (key, row)
        assert all(row[key] is None or isinstance(row[key], float) for key in DIFFERENCES)
        assert row["low"] <= row["mean"] <= row["high"]
    cells = {(row["policy"], row["backfill"], row["metric"]) for row in values["summary"]}
    assert cells == {(*policy, metric) for policy in policies for metric in metrics}


def means(values: dict[str, Any], metric: str = "bounded_slowdown") -> dict[tuple[str, str], float]:
    """Mean of a metric by policy and backfill."""
    return {
        (row["policy"], row["backfill"]): row["mean"] for row in values["summary"] if row["metric"] == metric
    }
