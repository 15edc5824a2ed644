"""What a sweep says, and what it may not say: found before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlsched.errors import BadInputError
from rlsched.tune.sweep import Sweep, Target, read_sweep

from .conftest import write

SHIPPED = sorted((Path(__file__).parents[2] / "tune_configs").glob("*.yaml"))


def changed(sweep: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**sweep, **more}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"space": {}}, "space: is empty: nothing would be searched; name a setting and its values"),
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
            r"ppo.epochs: value \[2, 3\] does not say how; write {values: \[",
        ),
        ({"space": {"ppo.epochs": 2}}, r"ppo.epochs: value 2 is one value; write {values: \[2\]}, or set it"),
        ({"space": None}, "space: is empty: nothing would be searched"),
        ({"seeds": 3}, r"seeds: value 3 is one number; list seeds: \[3\], or \[0, 1, 2\]"),
        (
            {"space": {"dqn.batch": {"values": [64]}}},
            "space.dqn.batch: means nothing to ppo, which is trained",
        ),
        ({"space": {"seed": {"values": [1, 2]}}}, "space.seed: cannot be searched; list seeds beside"),
        ({"serach": {}}, "serach: unknown key; did you mean 'search'?"),
        ({"search": {"kind": "random"}}, "search.samples: is missing, which random needs"),
        ({"search": {"kind": "grid", "samples": 3}}, "search.samples: value 3 means nothing to a grid"),
        ({"search": {"kind": "random", "samples": 3, "halts": 3}}, "search.halts: means nothing to random"),
        ({"seeds": [1, 1]}, r"seeds: value \[1, 1\]; name each once"),
        ({"objectives": [{"metric": "speed"}]}, "objectives: value 'speed' is no metric and not searched"),
        ({"policy": "packing:now"}, "base: algo means nothing where nothing is trained; leave it out"),
        (
            {"policy": "packing:now", "base": {"scenario": "green-10"}},
            "space.ppo.learning_rate: means nothing where nothing is trained",
        ),
        ({"episodes": 50}, "episodes: are played only with a policy"),
        ({"set": ["seed=3"]}, "base: names a seed, and each point is tried with all seeds"),
        ({"set": ["ppo.learning_rate=0.5"]}, "space.ppo.learning_rate: is set, too; set it, or search it"),
        (
            {"space": {"ppo.epochs": {"values": [2, 2]}}},
            "space.ppo.epochs.values: name 2 twice; name each once",
        ),
        (
            {"space": {"ppo.epochs": {"integers": [1, 10**20]}}},
            "space.ppo.epochs.integers: value .* is too far",
        ),
        ({"objectives": [{"metric": "wait"}, {"metric": "wait"}]}, r"objectives: value \['wait', 'wait'\]"),
        (
            {"space": {"network.hidden": {"values": [[8]]}}, "objectives": [{"metric": "network.hidden"}]},
            "objectives: value 'network.hidden' is searched, but no number",
        ),
        (
            {"space": {"steps": {"values": [512, 1024]}}, "search": {"kind": "asha", "samples": 2}},
            "space.steps: has no common halts, at which asha compares; set search.kind=random",
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
    with pytest.raises(BadInputError, match=line) as found:
        read_sweep(path)
    assert str(found.value).startswith((str(path), "--scenario"))


def test_values_that_need_each_other_are_no_mistake(tiny: dict[str, Any], tmp_path: Path) -> None:
    """A minibatch of 4,096 is too many for the base, and not for the point that it stands in."""
    space = {"ppo.minibatch": {"values": [4096]}, "sampling.envs_per_runner": {"values": [64]}}
    sweep = read_sweep(write(tmp_path / "sweep.yaml", changed(tiny, space=space)))
    assert sweep.points() == [{"ppo.minibatch": 4096, "sampling.envs_per_runner": 64}]


def test_a_policy_that_cannot_play_is_refused(tiny: dict[str, Any], tmp_path: Path) -> None:
    space = {"workload.load": {"values": [0.5]}}
    tiny["base"] = {"scenario": "green-10"}
    for policy, line in (("packng:now", "did you mean 'packing'"), ("packing:easy", "means nothing")):
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
    assert sorted(map(str, drawn.points())) == sorted(map(str, grid.points()))  # each once, there are no more


def test_halts_are_shorter_and_shorter(tiny: dict[str, Any]) -> None:
    search = {"kind": "asha", "samples": 2, "reduction": 4, "halts": 2}
    assert Sweep.model_validate(changed(tiny, search=search)).rungs(16_000) == [1000, 4000, 16_000]
    assert Sweep.model_validate(tiny).rungs(16_000) == [16_000]


def test_objectives_know_their_direction(tiny: dict[str, Any]) -> None:
    assert Sweep.model_validate(tiny).targets("here") == (Target(metric="job_value_ratio", mode="max"),)
    limited = changed(tiny, set=["objective.costs={delayed_jobs: 5}"])
    assert [one.mode for one in Sweep.model_validate(limited).targets("here")] == ["max", "min"]
    own = changed(tiny, objectives=[{"metric": "wait"}, {"metric": "ppo.learning_rate", "mode": "max"}])
    assert [one.mode for one in Sweep.model_validate(own).targets("here")] == ["min", "max"]


def test_assignments_of_the_command_line_come_last(tiny: dict[str, Any], tmp_path: Path) -> None:
    sweep = read_sweep(write(tmp_path / "s.yaml", tiny), ["steps=512", "episode.max_ticks=7"])
    scenario, config = sweep.settings("here", sweep.points()[1], ["seed=5"])
    assert (config.steps, config.seed, config.ppo.learning_rate) == (512, 5, 0.0001)
    assert scenario.episode.max_ticks == 7


def test_what_is_named_by_files_is_in_it_or_named_from_the_root(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials run in folders of their own, and a scenario's file may change while they do."""
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
def test_what_is_shipped_can_be_run(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.startswith("# ")
    assert "on 2 cores" in text.split("description:")[0]
    sweep = read_sweep(path)
    assert sweep.description
    assert len(sweep.points()) >= 3


def test_all_that_were_promised_are_shipped() -> None:
    wanted = "battery_sizing cost_limits encoder_size horizon pid_gains ppo_lublin ready_pool wait_limits"
    assert [path.stem for path in SHIPPED] == wanted.split()
