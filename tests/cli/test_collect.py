"""`rlsched collect` and `rlsched dataset`: from a command to a dataset, and back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rlsched.cli.output import ARTEFACTS
from rlsched.offline.manifest import read_manifest

from .conftest import Run

SHORT = ("--set", "episode.max_ticks=100")


@pytest.fixture
def mixed(rlsched: Run, tmp_path: Path) -> Path:
    out = tmp_path / "mixed"
    words = ("collect", "--scenario", "green-10", "--policy", "sjf:0.75,qos:0.25", "--steps", 1500)
    ran = rlsched(*words, "--out", out, "--json", "-", *SHORT)
    assert ran.code == 0, ran.err
    values = ran.json
    assert values["folder"] == str(out)
    assert values["rows"] >= 1500
    assert {behavior["behavior"] for behavior in values["behaviors"]} == {"sjf", "qos"}
    assert f"rlsched dataset check {out}" in ran.err
    return out


def test_a_dataset_is_described_and_checked(rlsched: Run, mixed: Path) -> None:
    values = rlsched("dataset", "info", mixed, "--json", "-").json
    described = rlsched("dataset", "info", mixed)
    assert described.code == 0
    assert f"{values['rows']:,} decisions in {values['episodes']:,} episodes" in described.out
    assert "job_value_ratio" in described.out
    whole = rlsched("dataset", "check", mixed)
    assert whole.code == 0
    assert whole.out.startswith(f"whole: {values['rows']:,} decisions")
    assert rlsched("dataset", "check", mixed, "--json", "-").json["problems"] == []


def test_figures_are_not_written_over_a_file_of_the_dataset(rlsched: Run, mixed: Path) -> None:
    before = {path: path.read_bytes() for path in mixed.rglob("*.*")}
    ran = rlsched("dataset", "check", mixed, "--json", mixed / "dataset.json")
    assert (ran.code, ran.out) == (2, "")
    assert f"--json: '{mixed}/dataset.json' belongs to a folder that is read; name another file" in ran.err
    assert {path: path.read_bytes() for path in mixed.rglob("*.*")} == before
    for _ in range(2):  # figures of an earlier command are replaced
        assert rlsched("dataset", "check", mixed, "--json", mixed / "checked.json").code == 0
    (mixed / "checked.json").unlink()
    assert {path.name for path in mixed.rglob("*.json")} <= ARTEFACTS


def test_broken_shards_are_named(rlsched: Run, mixed: Path) -> None:
    path = mixed / "part-00000.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    ran = rlsched("dataset", "check", mixed)
    assert ran.code == 2
    assert ran.err.startswith(f"error: {mixed}: part-00000.parquet: is cut short: ")
    (problem,) = rlsched("dataset", "check", mixed, "--json", "-").json["problems"]
    assert problem["shard"] == "part-00000.parquet"


def test_a_recipe_is_recorded_and_goes_on(rlsched: Run, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    behaviors = "[{policy: fcfs, noise: 0.5, name: drunk}]"
    file.write_text(f"scenario: green-10\nbehaviors: {behaviors}\nsteps: 300\n")
    out = tmp_path / "out"
    assert rlsched("collect", file, "--out", out, *SHORT, "--set", "seed=3").code == 0
    grown = rlsched("collect", "--resume", "--out", out, "--steps", 600, "--json", "-").json
    assert grown["rows"] >= 600
    assert grown["recipe"]["seed"] == 3
    assert grown["behaviors"][0]["behavior"] == "drunk"
    assert grown["scenario"]["episode"]["max_ticks"] == 100


def test_datasets_are_mixed_and_split(rlsched: Run, mixed: Path, tmp_path: Path) -> None:
    split = rlsched("dataset", "split", mixed, "train:3", "test:1", "--out", tmp_path, "--json", "-").json
    assert [Path(part["folder"]).name for part in split["datasets"]] == ["train", "test"]
    rows = [part["rows"] for part in split["datasets"]]
    again = rlsched("dataset", "mix", f"{tmp_path}/train", f"{tmp_path}/test:0.25", "--out", tmp_path / "m")
    assert again.code == 0, again.err
    assert sum(rows) == rlsched("dataset", "info", mixed, "--json", "-").json["rows"]
    assert rlsched("dataset", "check", tmp_path / "m").code == 0
    assert "of its scenario" not in again.out


def test_a_mix_says_whose_scenario_it_names(rlsched: Run, mixed: Path, tmp_path: Path) -> None:
    words = ("collect", "--scenario", "green-10", "--policy", "fcfs", "--steps", 300, *SHORT)
    busier = ("--set", "workload.load=1.2", "--set", "episode.max_ticks=90")
    assert rlsched(*words, *busier, "--out", tmp_path / "busy").code == 0
    ran = rlsched("dataset", "mix", mixed, f"{tmp_path}/busy:0.2", "--out", tmp_path / "m")
    text = f"workload and episode of its scenario as in {mixed}"
    assert ran.code == 0, ran.err
    assert f"note         {text}; rlsched train --scenario sets another one\n" in ran.out
    values = rlsched("dataset", "info", tmp_path / "m", "--json", "-").json
    assert values["origin"].endswith(f", {text}")
    assert values["scenario"]["episode"]["max_ticks"] == 100


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["collect"], "error: rlsched collect: nothing to record; give RECIPE, or --scenario"),
        (
            ["collect", "--scenario", "green-10", "--policy", "sjf:easy"],
            "error: --policy: 'sjf:easy': a recorded heuristic has no rule 'easy'",
        ),
        (
            ["collect", "--scenario", "green-10", "--policy", "sjf:horizon"],
            "error: --policy: 'sjf' is to plan jobs (horizon), but decision.placement is 'now'; set",
        ),
        (
            ["collect", "--scenario", "lublin-256", "--policy", "sjf:now:0.5"],
            "error: --policy: 'sjf' has the rule 'now', but scenario 'lublin-256' has no horizon",
        ),
        (
            ["collect", "--scenario", "green-10", "--policy", "random:now"],
            "error: --policy: 'random' has no rule 'now': it is not a priority rule",
        ),
        (["collect", "--scenario", "green-10", "--policy", "sjf:0"], "error: --policy: 'sjf:0': share '0'"),
        (["collect", "--scenario", "green-10", "--policy", "sjff"], "error: --policy: unknown policy 'sjff'"),
        (
            ["collect", "--scenario", "green-10", "--noise", "1.5"],
            "error: --noise: value '1.5'",
        ),
        (["collect", "--scenario", "green-10", "--set", "stepz=1"], "error: --set: stepz: unknown key"),
        (["collect", "--resume", "--out", "none"], "error: none: holds no dataset to resume"),
        (["collect", "--resume", "--policy", "sjf"], "error: --resume: uses the settings of the"),
        (["collect", "--scenario", "green-10", "--set", "scenrio=1"], "error: --set: scenrio: unknown key"),
        (["train", "--dataset", __file__], f"error: {__file__}: is a file; name its folder: "),
        (["collect", "none.yaml"], "error: none.yaml: no such file"),
        (["dataset", "info", "none"], "error: none: no such folder"),
        (["dataset", "mix", "none:1", "--out", "x"], "error: none: no such folder"),
        (["dataset", "split", "none", "a:1", "a:2", "--out", "x"], "error: NAME[:SHARE]: 'a' is given twice"),
        (["dataset", "split", "none", "a/b:1", "--out", "x"], "error: NAME[:SHARE]: 'a/b' is not a folder"),
    ],
)
def test_bad_input_is_one_line(
    rlsched: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = rlsched(*words)
    assert ran.code == 2
    assert ran.err.startswith(line), ran.err
    assert ran.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_misspelt_scenario_is_named(rlsched: Run, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("scenrio: green-10\nbehaviors: [{policy: fcfs}]\n")
    ran = rlsched("collect", recipe, "--out", tmp_path / "out")
    assert (ran.code, ran.err.partition("use one of")[0]) == (
        2,
        f"error: {recipe}: scenrio: unknown key; ",
    )


def test_parts_of_a_split_are_named(rlsched: Run, mixed: Path, tmp_path: Path) -> None:
    assert rlsched("dataset", "split", mixed, "a:1", "b:1", "--out", tmp_path / "parts").code == 0
    ran = rlsched("dataset", "info", tmp_path / "parts")
    assert ran.code == 2
    assert f"name one that is in it: {tmp_path}/parts/a, {tmp_path}/parts/b" in ran.err


def test_who_is_interrupted_knows_what_is_safe(
    rlsched: Run, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    copy = tmp_path / "copy"
    shutil.copytree(mixed, copy)
    monkeypatch.setattr("rlsched.offline.collect.collect", stopped)
    ran = rlsched("collect", "--resume", "--out", copy)
    assert ran.code == 130
    assert f"{read_manifest(mixed).rows:,} decisions are safe" in ran.out
    assert "resume       rlsched collect --resume" in ran.out
