"""Settings of a sweep; wrong ones are refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.settings import RenamedSettingWarning
from rlsched.tune.sweep import Sweep, Target
from rlsched.tune.sweep_file import read_sweep

from .conftest import write

SHIPPED = sorted((Path(__file__).parents[2] / "tune_configs").glob("*.yaml"))


def changed(sweep: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**sweep, **more}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"space": {}}, "space: is empty; add a setting and its values"),
        (
            {"space": {"ppo.learning_rat": {"values": [1]}}},
            "space.ppo.learning_rat: unknown key; did you mean 'learning_rate'?",
        ),
        ({"space": {"workload.lod": {"values": [1]}}}, "space.workload.lod: unknown key; did you mean"),
        (
            {"space": {"ppo.epochs": {"values": [2, 0]}}},
            "space.ppo.epochs: value 0; Input should be greater than or equal to 1",
        ),
        (
            {"space": {"ppo.learning_rate": {"uniform": [0.1, 0.2]}}},
            "space.ppo.learning_rate: is a range, which has no grid; list values, or set search.kind",
        ),
        ({"space": {"ppo.epochs": {"valuse": [2]}}}, "space.ppo.epochs.valuse: unknown key; did you mean"),
        (
            {"space": {"ppo.epochs": [2, 3]}},
            r"ppo.epochs: value \[2, 3\] names no kind; write {values: \[",
        ),
        ({"space": {"ppo.epochs": 2}}, r"ppo.epochs: value 2 is one value; write {values: \[2\]}, or set it"),
        ({"space": None}, "space: is empty"),
        ({"seeds": 3}, r"seeds: value 3 is one number; list seeds: \[3\], or \[0, 1, 2\]"),
        (
            {"space": {"dqn.batch": {"values": [64]}}},
            "space.dqn.batch: is not supported by algo=ppo",
        ),
        ({"space": {"seed": {"values": [1, 2]}}}, "space.seed: cannot be searched; list seeds outside"),
        ({"serach": {}}, "serach: unknown key; did you mean 'search'?"),
        ({"search": {"kind": "random"}}, "search.samples: is missing for kind=random"),
        ({"search": {"kind": "grid", "samples": 3}}, "search.samples: value 3 is not supported by kind=grid"),
        (
            {"search": {"kind": "random", "samples": 3, "rungs": 3}},
            "search.rungs: is not supported by kind=random",
        ),
        ({"seeds": [1, 1]}, r"seeds: value \[1, 1\]; list each once"),
        ({"objectives": [{"metric": "speed"}]}, "objectives: value 'speed' is neither a metric nor searched"),
        ({"policy": "packing:now"}, "base: algo is not supported with a policy; remove it"),
        (
            {"policy": "packing:now", "base": {"scenario": "green-10"}},
            "space.ppo.learning_rate: is not supported with a policy",
        ),
        ({"episodes": 50}, "episodes: is only used with a policy"),
        ({"set": ["seed=3"]}, "base: sets a seed, and each point is trained with all seeds"),
        (
            {"set": ["ppo.learning_rate=0.5"]},
            "space.ppo.learning_rate: is set and searched; set it, or search it",
        ),
        (
            {"space": {"ppo.epochs": {"values": [2, 2]}}},
            "space.ppo.epochs.values: have 2 twice; list each value once",
        ),
        (
            {"space": {"ppo.epochs": {"integers": [1, 10**20]}}},
            "space.ppo.epochs.integers: value .* is too large",
        ),
        ({"objectives": [{"metric": "wait"}, {"metric": "wait"}]}, r"objectives: value \['wait', 'wait'\]"),
        (
            {"space": {"network.hidden": {"values": [[8]]}}, "objectives": [{"metric": "network.hidden"}]},
            "objectives: value 'network.hidden' is searched, but not a number",
        ),
        (
            {"space": {"steps": {"values": [512, 1024]}}, "search": {"kind": "asha", "samples": 2}},
            "space.steps: changes the rungs, and asha needs common ones; set search.kind=random",
        ),
        (
            {
                "space": {
                    "network.hidden": {"values": [[8], [4]]},
                    "ppo.minibatch": {"values": [64, 9999, 128]},
                },
                "search": {"kind": "optuna", "samples": 4},
            },
            "ppo.minibatch=9999",
        ),
        ({"base": {"scenario": "green-11"}}, "unknown scenario 'green-11'"),
        (
            {"space": {"ppo.minibatch": {"values": [64, 4096]}, "ppo.fragment": {"values": [8, 32]}}},
            r"ppo.fragment=8, ppo.minibatch=4096: --set: ppo.minibatch 4096 is more than the 64 decisions",
        ),
    ],
)
def test_one_line_before_anything_starts(
    tiny: dict[str, Any], tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    path = write(tmp_path / "sweep.yaml", changed(tiny, **change))
    with pytest.raises(BadInputError, match=line) as error:
        read_sweep(path)
    assert str(error.value).startswith((str(path), "--scenario"))


def test_values_may_depend_on_each_other(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A minibatch of 4,096 is too large for the base, and fits the other settings of its point."""
    space = {"ppo.minibatch": {"values": [4096]}, "sampling.envs_per_runner": {"values": [64]}}
    sweep = read_sweep(write(tmp_path / "sweep.yaml", changed(tiny, space=space)))
    assert sweep.points() == [{"ppo.minibatch": 4096, "sampling.envs_per_runner": 64}]


def test_a_policy_that_does_not_fit_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    space = {"workload.load": {"values": [0.5]}}
    tiny["base"] = {"scenario": "green-10"}
    for policy, line in (
        ("packng:now", "did you mean 'packing'"),
        ("packing:easy", "is not supported with a horizon"),
    ):
        path = write(tmp_path / "sweep.yaml", changed(tiny, space=space, policy=policy))
        with pytest.raises(BadInputError, match=line):
            read_sweep(path)


def test_points_of_a_grid_and_of_chance(tiny: dict[str, Any]) -> None:
    space = {"ppo.epochs": {"values": [1, 2]}, "ppo.minibatch": {"values": [64, 128]}}
    grid = Sweep.model_validate(changed(tiny, space=space))
    assert grid.points() == [
        {"ppo.epochs": 1, "ppo.minibatch": 64},
        {"ppo.epochs": 1, "ppo.minibatch": 128},
        {"ppo.epochs": 2, "ppo.minibatch": 64},
        {"ppo.epochs": 2, "ppo.minibatch": 128},
    ]
    drawn = Sweep.model_validate(changed(tiny, space=space, search={"kind": "random", "samples": 9}))
    assert drawn.points() == drawn.points()
    assert sorted(map(str, drawn.points())) == sorted(map(str, grid.points()))  # each point once


def test_rungs_are_powers_of_the_reduction_factor(tiny: dict[str, Any]) -> None:
    search = {"kind": "asha", "samples": 2, "reduction_factor": 4, "rungs": 2}
    assert Sweep.model_validate(changed(tiny, search=search)).rungs(16_000) == [1000, 4000, 16_000]
    assert Sweep.model_validate(tiny).rungs(16_000) == [16_000]


def test_former_names_of_settings_are_accepted(tiny: dict[str, Any]) -> None:
    """Folders of sweeps that an earlier version wrote have them."""
    search = {"kind": "asha", "samples": 2, "reduction": 4, "halts": 1}
    with pytest.warns(RenamedSettingWarning, match=r"'(reduction|halts)' is now called"):
        sweep = Sweep.model_validate(changed(tiny, search=search))
    assert (sweep.search.reduction_factor, sweep.search.rungs) == (4, 1)


def test_objectives_know_their_direction(tiny: dict[str, Any]) -> None:
    assert Sweep.model_validate(tiny).targets("here") == (Target(metric="job_value_ratio", mode="max"),)
    limited = changed(tiny, set=["objective.costs={delayed_jobs: 5}"])
    assert [target.mode for target in Sweep.model_validate(limited).targets("here")] == ["max", "min"]
    custom = changed(tiny, objectives=[{"metric": "wait"}, {"metric": "ppo.learning_rate", "mode": "max"}])
    assert [target.mode for target in Sweep.model_validate(custom).targets("here")] == ["min", "max"]


def test_assignments_of_the_command_line_come_last(tiny: dict[str, Any], tmp_path: Path) -> None:
    sweep = read_sweep(write(tmp_path / "s.yaml", tiny), ["steps=512", "episode.max_ticks=7"])
    scenario, config = sweep.settings("here", sweep.points()[1])
    assert (config.steps, config.ppo.learning_rate) == (512, 0.0001)
    assert scenario.episode.max_ticks == 7


def test_a_sweep_does_not_depend_on_the_current_folder(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials run in other folders, and a scenario's file may change meanwhile."""
    monkeypatch.chdir(tmp_path)
    write(Path("own.yaml"), {"workload": {"kind": "swf", "file": "jobs.swf"}, "cluster": {}})
    lines = [f"{k} {k * 60} 0 60 4 -1 -1 4 90 -1 1 1 1 1 1 -1 -1 -1" for k in range(1, 900)]
    Path("jobs.swf").write_text("; MaxProcs: 16\n" + "\n".join(lines) + "\n")
    tiny["base"]["scenario"] = "own.yaml"
    tiny["set"] = ["episode.jobs=64", "dataset=null"]
    sweep = read_sweep(write(Path("sweep.yaml"), tiny))
    Path("own.yaml").unlink()
    monkeypatch.chdir("/")
    scenario, config = sweep.settings("here", sweep.points()[0])
    assert scenario.workload.file == tmp_path / "jobs.swf"
    assert (scenario.episode.jobs, config.steps, config.sampling.fragment) == (64, 4096, 64)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_sweeps_are_valid(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("# ")
    assert "on 2 cores" in text.split("description:")[0]
    sweep = read_sweep(path)
    assert sweep.description
    assert len(sweep.points()) >= 3


def test_all_documented_sweeps_are_shipped() -> None:
    wanted = "battery_sizing cost_limits encoder_size horizon pid_gains ppo_lublin ready_pool wait_limits"
    assert [path.stem for path in SHIPPED] == wanted.split()
