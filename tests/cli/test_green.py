"""Green scenarios on the command line: power of every kind, traces, and what is measured of them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from rlsched.cli.train_settings import settings_given
from rlsched.learn import policy as artefact
from rlsched.scenario import (
    Decision,
    EpisodeSettings,
    MaoWorkload,
    Objective,
    Observation,
    PoissonWorkload,
    Power,
    Scenario,
    SwfWorkload,
    load,
    names,
)
from tests.policies import Forgetful
from tests.power.files import power_file, rows_of

from .conftest import PROCESSORS, Run
from .contract import check_contract, means

ORDERS = ("fcfs", "sjf", "qos", "hvf", "random")
GREEN_10 = ("simulate", "--scenario", "green-10", "--policy", ",".join(ORDERS), "--episodes", "3")
SHORT = ("--set", "episode.max_ticks=200")
MEASURED = (
    "job_value_ratio",
    "completion_ratio",
    "utilization",
    "cost.delayed_jobs",
    "energy_kwh",
    "carbon_kg",
)
BATTERY = "power.battery={capacity_kwh: 16, charge_kw: 4, discharge_kw: 4}"  # four hours of the full draw
SERIES = ("power.kind=series", "power.wind_kw=8", "power.solar_kw=4")


def settings(*assignments: str) -> tuple[str, ...]:
    return tuple(part for assignment in assignments for part in ("--set", assignment))


def check(values: dict[str, Any], rule: str = "now") -> None:
    """What every comparison in a green scenario has: its metrics with intervals, and energies that add up."""
    check_contract(values)
    cells = {(row["policy"], row["metric"]): row for row in values["summary"]}
    for order in ORDERS:
        for metric in MEASURED:
            row = cells[order, metric]
            assert row["backfill"] == rule
            assert all(isfinite(row[bound]) for bound in ("low", "mean", "high")), row
        assert 0 < cells[order, "job_value_ratio"]["low"] < cells[order, "job_value_ratio"]["high"] <= 1
        assert cells[order, "energy_kwh"]["low"] > 0
    for episode in values["episodes"]:
        kwh = {name[:-4]: value for name, value in episode["metrics"].items() if name.endswith("_kwh")}
        came = kwh["renewable"] + kwh["battery"] + kwh["brown"]
        went = kwh["energy"] + kwh["charged"] + kwh["curtailed"]
        assert came == pytest.approx(went, rel=1e-9, abs=0), episode


def means_of(values: dict[str, Any], metric: str) -> dict[str, float]:
    return {policy: mean for (policy, _), mean in means(values, metric).items()}


def total(values: dict[str, Any], metric: str) -> float:
    return sum(means_of(values, metric).values())


def test_the_shipped_length(rlsched: Run) -> None:
    ran = rlsched(*GREEN_10, "--json", "-")
    assert ran.code == 0
    check(ran.json)
    assert {episode["policy"] for episode in ran.json["episodes"]} == set(ORDERS)
    assert len(ran.json["episodes"]) == 3 * len(ORDERS)
    assert all(0.6 < ratio < 1 for ratio in means_of(ran.json, "job_value_ratio").values())
    assert total(ran.json, "carbon_kg") == total(ran.json, "brown_kwh") == total(ran.json, "battery_kwh") == 0


@pytest.mark.parametrize(
    "power",
    [
        ("power.kind=synthetic", "power.level=0.9", "power.probability=0.9"),
        SERIES,  # the generated year
        (*SERIES, "power.forecast_error=0.05", "cluster.tick_s=1800"),
        ("power.level=0.7", "power.grid_kw=1", "power.utilization=0.8", BATTERY),
    ],
    ids=["synthetic", "generated year", "half-hours and uncertain", "constant with all"],
)
def test_power(rlsched: Run, power: tuple[str, ...]) -> None:
    ran = rlsched(*GREEN_10, *SHORT, *settings(*power), "--json", "-")
    assert ran.code == 0, ran.err
    check(ran.json)
    assert total(ran.json, "utilization_of_on") > total(ran.json, "utilization")  # not all was on


def check_a_file(rlsched: Run, file: Path) -> None:
    """A CSV alone, then with a battery and a grid beside it."""
    alone = rlsched(*GREEN_10, *SHORT, *settings(*SERIES, f"power.file={file}"), "--json", "-")
    assert alone.code == 0, alone.err
    check(alone.json)
    assert total(alone.json, "brown_kwh") == total(alone.json, "battery_kwh") == 0
    assert total(alone.json, "carbon_kg") == 0
    with_all = settings(*SERIES, f"power.file={file}", BATTERY, "power.grid_kw=2")
    ran = rlsched(*GREEN_10, *SHORT, *with_all, "--json", "-")
    assert ran.code == 0, ran.err
    check(ran.json)
    for metric in ("brown_kwh", "battery_kwh", "charged_kwh", "carbon_kg"):
        assert total(ran.json, metric) > 0
    assert total(ran.json, "curtailed_kwh") < total(alone.json, "curtailed_kwh")
    assert total(ran.json, "job_value_ratio") > total(alone.json, "job_value_ratio")
    assert json.loads(ran.out)["scenario"]["power"]["file"] == str(file)
    assert rlsched(*GREEN_10, *SHORT, *with_all, "--json", "-").out == ran.out


def test_a_file_of_one_day(rlsched: Run, tmp_path: Path) -> None:
    """Wind in the night and sun at noon, and little in between."""
    day = rows_of([8] * 6 + [1] * 18, [0] * 10 + [9] * 5 + [0] * 9, [300] * 24)
    check_a_file(rlsched, power_file(tmp_path, *day))


@pytest.mark.parametrize("grid", ["BPAT", "CISO", "ERCO"])
def test_files_of_real_grids(rlsched: Run, data_dir: Path, grid: str) -> None:
    check_a_file(rlsched, data_dir / "power" / f"{grid}-2022-hourly.csv")


def test_the_table_is_for_people(rlsched: Run) -> None:
    ran = rlsched(*GREEN_10, *SHORT)
    assert ran.code == 0
    for metric in MEASURED:
        assert metric.removesuffix("_kwh").removesuffix("_kg").replace("_", " ") in ran.out
    assert "energy (kWh)" in ran.out


@pytest.mark.parametrize("name", [name for name in names() if load(name).workload.kind in {"poisson", "mao"}])
def test_every_shipped_size_runs(rlsched: Run, name: str) -> None:
    ran = rlsched(
        "simulate", "--scenario", name, "-p", "packing", "-b", "now,horizon", "-n", "1", "--json", "-"
    )
    assert ran.code == 0
    check_contract(ran.json)
    earned = means(ran.json, "job_value_ratio")
    if not name.endswith("-sla"):
        assert min(earned.values()) > 0.6
        return
    assert 0.5 < min(earned.values()) < max(earned.values()) < 0.8  # a third is given up
    assert means(ran.json, "on_time_value_ratio") == earned
    assert {*means(ran.json, "qos_violations").values()} == {0}


def test_deeprm_runs_every_job_to_its_end(rlsched: Run) -> None:
    options = ("-p", "fcfs,sjf,packing", "-b", "horizon", "-n", "10", "--json", "-")
    plain = rlsched("simulate", "--scenario", "deeprm", *options).json
    crowded = rlsched("simulate", "--scenario", "deeprm", "--set", "workload.max_demand=1", *options).json
    for values in (plain, crowded):
        assert {episode["metrics"]["completion_ratio"] for episode in values["episodes"]} == {1}
        assert means(values, "bounded_slowdown") == means(values, "slowdown")  # 10 s are less than a tick
    assert all(1 < mean < 4 for mean in means(plain, "slowdown").values())
    assert all(mean > 4 for mean in means(crowded, "slowdown").values())


# traces


TRACES = [
    ("green-hpc2n", "HPC2N-2002-2.2-cln.swf.gz", {"beyond_horizon_scaled": 14_123}),
    ("green-ctc", "CTC-SP2-1996-3.1-cln.swf.gz", {}),
]


@pytest.mark.parametrize(("name", "file", "repairs"), TRACES)
def test_traces_with_power(
    rlsched: Run, data_dir: Path, name: str, file: str, repairs: dict[str, int]
) -> None:
    ran = rlsched(
        *("simulate", "--scenario", name, "--trace", data_dir / "swf" / file, "--episodes", "4"),
        *("--policy", ",".join(ORDERS), "--json", "-"),
    )
    assert ran.code == 0, ran.err
    check(ran.json)
    assert ran.json["scenario"]["name"] == name
    assert ran.json["repairs"].items() >= repairs.items()
    for episode in ran.json["episodes"]:
        assert episode["offset"] is not None
        assert episode["metrics"]["makespan"] in {720 * 3600, 720 * 1800}
    on = [row["metrics"]["utilization"] / row["metrics"]["utilization_of_on"] for row in ran.json["episodes"]]
    assert 0.7 < np.mean(on) < 0.95


@pytest.fixture
def short(trace: Path) -> tuple[object, ...]:
    """A trace in a green scenario, for an hour at a time."""
    lengths = settings("cluster.tick_s=60", "episode.max_ticks=60", "workload.training_jobs=[0,200]")
    return ("--scenario", "green-hpc2n", "--trace", trace, *lengths)


def test_a_trace_replaces_that_of_the_scenario(rlsched: Run, trace: Path, short: tuple[object, ...]) -> None:
    ran = rlsched("simulate", *short, "--episodes", "2", "--json", "-")
    assert ran.code == 0, ran.err
    check_contract(ran.json)
    scenario = ran.json["scenario"]
    assert scenario["name"] == "green-hpc2n"
    assert scenario["workload"]["file"] == str(trace)
    assert [resource["units"] for resource in scenario["cluster"]["resources"]] == [PROCESSORS, 120]
    assert scenario["episode"]["max_ticks"] == 60
    assert [episode["episode"] for episode in ran.json["episodes"]] == [0, 1]
    assert min(episode["offset"] for episode in ran.json["episodes"]) >= 200


def test_a_trace_in_a_scenario_file(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    scenario_file = tmp_path / "mine.yaml"
    workload = {"kind": "swf", "file": "other.swf"}
    scenario_file.write_text(yaml.safe_dump({"name": "mine", "workload": workload}))
    words = ("--scenario", scenario_file, "--trace", trace, "--set", "episode.jobs=20")
    ran = rlsched("simulate", *words, "--json", "-")
    assert ran.code == 0, ran.err
    assert ran.json["scenario"]["name"] == "mine"
    assert len(ran.json["episodes"]) == 20  # of the scenario's length, not the whole trace


def test_a_trace_in_a_scenario_for_training(trace: Path) -> None:
    simulated, _ = settings_given(None, "green-hpc2n", trace, ["decision.window=9", "ppo.epochs=3"])
    expected = load("green-hpc2n", [f"workload.file={trace}", "decision.window=9"])
    assert simulated == expected


@dataclass(frozen=True)
class First(Forgetful):
    """A policy that takes the first legal action."""

    scenario: Scenario
    num_resources: int = 2

    def decide(self, obs: NDArray[np.float32], mask: NDArray[np.int8]) -> NDArray[np.int64]:
        return mask.argmax(axis=1)


def test_a_trace_in_a_scenario_for_evaluation(
    rlsched: Run, short: tuple[object, ...], trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artefact, "load_policy", lambda path, sample=False: First(load("green-hpc2n")))
    ran = rlsched("evaluate", tmp_path, *short, "--against", "fcfs", "--episodes", "2", "--json", "-")
    assert ran.code == 0, ran.err
    check_contract(ran.json)
    assert ran.json["scenario"]["workload"]["file"] == str(trace)
    assert {episode["policy"] for episode in ran.json["episodes"]} == {str(tmp_path), "fcfs"}


def test_a_policy_has_the_power_that_it_is_evaluated_with(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trained where power is always there; what takes the first legal job is fcfs."""
    monkeypatch.setattr(artefact, "load_policy", lambda path, sample=False: First(load("green-10")))
    battery = "power.battery={capacity_kwh: 20, charge_kw: 5, discharge_kw: 5}"
    power = ("power.kind=series", "power.wind_kw=3", "power.grid_kw=1", battery)
    words = [word for setting in (*power, "episode.max_ticks=200") for word in ("--set", setting)]
    chosen = ("--scenario", "green-10", *words, "--against", "fcfs", "--episodes", "3", "--json", "-")
    ran = rlsched("evaluate", tmp_path, *chosen)
    assert ran.code == 0, ran.err
    by_policy: dict[str, list[dict[str, float]]] = {}
    for episode in ran.json["episodes"]:
        by_policy.setdefault(episode["policy"], []).append(episode["metrics"])
    assert by_policy[str(tmp_path)] == by_policy["fcfs"]
    assert all(metrics["brown_kwh"] > 0 for metrics in by_policy["fcfs"])


def test_a_policy_that_is_shown_other_jobs_than_the_orders_is_said_so(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artefact, "load_policy", lambda path, sample=False: First(load("green-10")))
    words = (
        "--scenario",
        "green-10",
        "--episodes",
        "3",
        "--set",
        "episode.max_ticks=50",
        "--against",
        "fcfs",
    )
    same = rlsched("evaluate", tmp_path, *words)
    assert "keeps" not in same.out
    changed = rlsched(
        "evaluate", tmp_path, *words, "--set", "decision.admission=qos", "--set", "decision.window=9"
    )
    text = " ".join(changed.out.split())
    assert (
        "keeps decision.window=5, decision.admission='fcfs' of its training; the heuristics have 9, 'qos'"
        in text
    )
    assert re.search(r"3 episodes of \d+ to \d+ jobs", text)


def test_without_a_horizon_there_is_no_policy_for_power(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = First(load("lublin-256"), num_resources=2)
    monkeypatch.setattr(artefact, "load_policy", lambda path, sample=False: plain)
    ran = rlsched("evaluate", tmp_path, "--scenario", "green-10", "--episodes", "1")
    assert ran.code == 2
    assert "was trained without a horizon, scenario 'green-10' has power" in ran.err


def test_the_scenario_of_the_manual(rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guide" / "green-datacenters.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(?:yaml|csv)\n(.*?)```", page, flags=re.DOTALL)
    for name, block in zip(("mine.yaml", "mine-fast.yaml", "site.csv"), blocks, strict=True):
        Path(name).write_text(block, "utf-8")
    for name in ("mine.yaml", "mine-fast.yaml"):
        ran = rlsched(
            "simulate", "--scenario", name, "-p", ",".join(ORDERS), "--episodes", "3", "--json", "-"
        )
        assert ran.code == 0, ran.err
        check(ran.json)


def test_the_manual_names_every_shipped_scenario_and_known_keys() -> None:
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "guide" / "green-datacenters.md").read_text("utf-8")
    page += (docs / "reference" / "green-rules.md").read_text("utf-8")
    green = [name for name in names() if load(name).decision.tick_driven]
    assert all(f"| {name} |" in page for name in green)
    settings_of = {
        "workload": (PoissonWorkload, MaoWorkload, SwfWorkload),
        "power": (Power,),
        "decision": (Decision,),
        "episode": (EpisodeSettings,),
        "observation": (Observation,),
        "objective": (Objective,),
    }
    for part, key in re.findall(r"`(workload|power|decision|episode|observation|objective)\.(\w+)", page):
        assert any(key in model.model_fields for model in settings_of[part]), f"{part}.{key}"
