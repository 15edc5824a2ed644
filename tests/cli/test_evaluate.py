"""`rlsched evaluate`, and trained policies wherever a policy is named."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from rlsched.evaluate.references import HEURISTICS
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.learn import policy as artefact
from rlsched.learn.config.sections import Network
from rlsched.learn.folder import RunFolder
from rlsched.learn.networks.policies import build_policy
from rlsched.scenario import load
from rlsched.sim.layout import Layout

from .conftest import JOBS, Run
from .contract import check_contract, means
from .saved_policies import loader_of_plain_policies, save_network, save_policy


@pytest.fixture(autouse=True)
def _loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests here need no networks: saved policies are plain Python."""
    monkeypatch.setattr(artefact, "load_policy", loader_of_plain_policies())


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policies") / "short")


def test_on_what_it_was_trained_for_against_the_best_orders(rlsched: Run, policy: Path) -> None:
    ran = rlsched("evaluate", policy, "--episodes", "3", "--json", "-")
    check_contract(ran.json)
    assert len(means(ran.json)) == 1 + len(HEURISTICS)
    assert {PolicyLabel(*label) for label in means(ran.json)} > set(HEURISTICS)
    assert (str(policy), "policy") in means(ran.json)
    assert ran.json["scenario"]["episode"]["jobs"] == 40
    assert [finding["policy"] for finding in ran.json["hoarding"]] == [str(policy)]
    assert ran.json["hoarding"][0]["breached"] is not None
    assert "Do the results count?" in ran.err
    assert "Learned policies against the best heuristic" in ran.err


def test_the_reference_of_the_hoarding_check_always_runs(rlsched: Run, policy: Path) -> None:
    ran = rlsched("evaluate", f"{policy}/", "--against", "fcfs,area:easy", "-n", "2", "--json", "-")
    assert list(means(ran.json)) == [
        (str(policy), "policy"),
        ("fcfs", "greedy"),
        ("area", "easy"),
        ("sjf", "greedy"),
    ]


def test_another_policy_as_rival(rlsched: Run, policy: Path, tmp_path: Path) -> None:
    long = save_policy(tmp_path / "long", longest=True)
    ran = rlsched("evaluate", policy, "--against", f"{long},{policy}", "-n", "4", "--json", "-")
    by_policy = means(ran.json)
    assert list(by_policy) == [(str(policy), "policy"), (str(long), "policy"), ("sjf", "greedy")]
    assert by_policy[str(policy), "policy"] < by_policy[str(long), "policy"]


def save_seeds(folder: Path, *longest: bool) -> Path:
    """A folder of seeds, the first of which is 0."""
    folder.mkdir()
    for seed, of_seed in enumerate(longest):
        place = save_policy(folder / f"seed-{seed}", longest=of_seed)
        (place / artefact.SETTINGS).write_text("{}")  # only looked for
    return folder


def test_seeds_are_compared_as_one_policy(rlsched: Run, policy: Path, tmp_path: Path) -> None:
    seeds = save_seeds(tmp_path / "seeds", False, True)
    (seeds / "seed-4").mkdir()
    ran = rlsched("evaluate", seeds, policy, "-n", "3", "--against", "fcfs", "--json", "-")
    check_contract(ran.json)
    name = str(seeds)
    alone = [e["metrics"] for e in ran.json["episodes"] if e["policy"] == str(policy)]
    first = [e["metrics"] for e in ran.json["episodes"] if (e["policy"], e["training_seed"]) == (name, 0)]
    assert first == alone
    (row,) = [row for row in ran.json["seeds"] if row["metric"] == "bounded_slowdown"]
    by_policy = means(ran.json)
    assert (row["policy"], row["seeds"], row["means"][0]) == (name, [0, 1], by_policy[str(policy), "policy"])
    assert by_policy[name, "policy"] == pytest.approx(np.mean(row["means"]))
    assert row["iqm_low"] <= row["iqm"] <= row["iqm_high"]
    assert f"{name}: no policy yet of seed 4; compared with seeds 0 and 1" in ran.err
    assert "\n  2 seeds " in ran.err
    assert "(seed 0) to " in ran.err
    assert "Interquartile means over seeds and episodes" in ran.err


def test_seeds_wherever_a_policy_is_named(rlsched: Run, policy: Path, tmp_path: Path) -> None:
    """As a trial of a sweep has them."""
    seeds = save_seeds(tmp_path / "trial", False, True)
    (seeds / "point.json").write_text("{}")
    ran = rlsched("evaluate", policy, "-n", "1", "--against", f"{seeds}/", "--json", "-")
    assert {e["training_seed"] for e in ran.json["episodes"]} == {None, 0, 1}
    arguments = ("--scenario", "lublin-256", "--set", "decision.window=16", "--jobs", "40", "-n", "1")
    page = tmp_path / "page"
    ran = rlsched("simulate", *arguments, "-p", f"{seeds},fcfs", "--report", page, "--json", "-")
    assert {e["training_seed"] for e in ran.json["episodes"]} == {None, 0, 1}
    assert "Do the seeds agree?" in (page / "report.html").read_text("utf-8")


def test_seeds_that_cannot_be_evaluated(rlsched: Run, tmp_path: Path) -> None:
    (tmp_path / "empty" / "seed-0").mkdir(parents=True)
    different = save_seeds(tmp_path / "other", False)
    (save_policy(different / "seed-1", "decision.window=8") / artefact.SETTINGS).write_text("{}")
    for folder, message in (
        (tmp_path / "empty", "no policy yet of seed 0; train longer, or name another folder"),
        (different, "seed 1 was trained with another decision than seed 0; name their folders one by one"),
    ):
        ran = rlsched("evaluate", folder, "-n", "1")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(f"error: {folder}: {message}")


def test_on_a_trace_of_another_cluster(rlsched: Run, policy: Path, trace: Path) -> None:
    ran = rlsched("evaluate", policy, "--trace", trace, "--offsets", "0,100", "--jobs", "50", "--json", "-")
    check_contract(ran.json)
    assert ran.json["scenario"]["cluster"]["resources"][0]["units"] == 64
    assert {episode["offset"] for episode in ran.json["episodes"]} == {0, 100}


def test_with_heuristics_in_simulate(rlsched: Run, policy: Path, trace: Path) -> None:
    ran = rlsched(
        *("simulate", "--trace", trace, "-p", f"fcfs,{policy}", "-b", "none,easy", "--json", "-"),
    )
    assert list(means(ran.json)) == [("fcfs", "none"), ("fcfs", "easy"), (str(policy), "policy")]
    assert {e["metrics"]["completion_ratio"] for e in ran.json["episodes"]} == {1.0}
    assert "not judged" in ran.err


def test_every_job_runs_to_its_end_whatever_it_was_trained_with(rlsched: Run, tmp_path: Path) -> None:
    policy = save_policy(tmp_path / "cut", "episode.end=max_ticks", "episode.max_ticks=1000")
    ran = rlsched("evaluate", policy, "-n", "2", "--json", "-")
    assert {e["metrics"]["completion_ratio"] for e in ran.json["episodes"]} == {1.0}
    assert ran.json["scenario"]["episode"]["end"] == "all_finished"


def test_hoarding_is_said_in_plain_words(rlsched: Run, tmp_path: Path) -> None:
    long = save_policy(tmp_path / "long", longest=True)
    ran = rlsched("evaluate", long, "-n", "3", "--set", "episode.jobs=300", "--against", "fcfs")
    assert "does not count: its jobs wait too long on average" in ran.out
    assert "hoards" in ran.out


def test_rows_it_was_trained_on_are_said(rlsched: Run, trace: Path, tmp_path: Path) -> None:
    file = f"workload={{kind: swf, file: {trace}}}"
    policy = save_policy(tmp_path / "seen", file)
    message = "may have been trained on jobs of 1 of the 2 episodes"
    assert message in rlsched("evaluate", policy, "--offsets", "0,250", "--against", "fcfs").out
    assert "may have been trained" not in rlsched("evaluate", policy, "--against", "fcfs", "-n", "2").out


def test_resampled_days_of_evaluation_are_new(rlsched: Run, tmp_path: Path) -> None:
    file = "workload={kind: swf, file: datasets/sample.swf.gz, resample: always}"
    policy = save_policy(tmp_path / "days", file, "episode.jobs=40")
    ran = rlsched("evaluate", policy, "--against", "fcfs", "-n", "2")
    assert ran.code == 0, ran
    assert "may have been trained" not in ran.out
    different = ("--set", "workload.training_jobs=[5000,null]")
    ran = rlsched("evaluate", policy, "--against", "fcfs", "-n", "2", *different)
    assert "may have been trained" in ran.out


def test_a_network_and_sampling_from_it(rlsched: Run, tmp_path: Path) -> None:
    policy = save_network(tmp_path / "network")
    options = ("evaluate", policy, "-n", "2", "--against", "fcfs", "--json", "-")
    sampled = rlsched(*options, "--sample").json
    assert sampled == rlsched(*options, "--sample").json
    assert sampled != rlsched(*options).json


def test_on_queues_and_clusters_of_another_length_and_size(rlsched: Run, tmp_path: Path) -> None:
    """A window as long as the queue sees all of it; a shorter one does not."""
    policy = save_network(tmp_path / "network", "job_scorer")
    options = ("evaluate", policy, "-n", "2", "--against", "fcfs", "--json", "-")
    wider = ("--set", "cluster.resources.0.units=1024", "--jobs", "200")
    by_policy = {n: means(rlsched(*options, *wider, "--window", n).json) for n in (2, 16, 200, 4096)}
    assert by_policy[16] == means(rlsched(*options, *wider).json)
    assert by_policy[200] == by_policy[4096]
    assert len({row[str(policy), "policy"] for row in by_policy.values()}) == 3
    assert len({row["fcfs", "greedy"] for row in by_policy.values()}) == 1
    ran = rlsched(*options, *wider, "--window", "200")
    assert f"{policy} sees the first 200 waiting jobs; in training they were 16\n" in ran.err
    observed = {(row["policy"], row["window"], tuple(row["units"])) for row in ran.json["episodes"]}
    assert observed == {(str(policy), 200, (1024,)), ("fcfs", None, (1024,)), ("sjf", None, (1024,))}


def test_a_network_of_one_window_is_refused_another(rlsched: Run, tmp_path: Path) -> None:
    policy = save_network(tmp_path / "network")
    for command in (
        ("evaluate", policy, "-n", "1", "--window", "17"),
        ("export", policy, tmp_path / "served", "--window", "17"),
    ):
        ran = rlsched(*command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.endswith(
            "error: --window: value 17: a policy of network.kind mlp chooses among the 16 jobs of its "
            "training; leave it out, or train one of network.kind=job_scorer\n"
        )
    assert not (tmp_path / "served").exists()


def test_a_ready_pool_is_no_window(rlsched: Run, tmp_path: Path) -> None:
    scenario = load("green-10")
    net = build_policy(Layout.of(scenario.observation, scenario.decision, 2), Network())
    artefact.NetworkPolicy(scenario, Network(), net, 2, {}).save(tmp_path / "green")
    for command in (("evaluate", tmp_path / "green"), ("export", tmp_path / "green", tmp_path / "served")):
        ran = rlsched(*command, "--window", "7")
        assert (ran.code, ran.out) == (2, "")
        assert "error: --window: value 7: the policy has a ready pool of 5 jobs (decision.horizon)" in ran.err


def test_who_plans_ahead_is_not_shown_clusters_of_different_size(rlsched: Run, tmp_path: Path) -> None:
    scenario = load("deeprm", ["cluster.resources=[{name: cpu, units: 20}]"])
    net = build_policy(Layout.of(scenario.observation, scenario.decision, 1), Network())
    artefact.NetworkPolicy(scenario, Network(), net, 1, {}).save(tmp_path / "planner")
    parts = "[{units: 128, workload: {kind: lublin}}, {workload: {kind: lublin}}]"
    mixed = ("--scenario", "lublin-256", "--set", f"workload={{kind: mixture, parts: {parts}}}")
    ran = rlsched("evaluate", tmp_path / "planner", *mixed, "-n", "8", "--jobs", "20")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "plans ahead (decision.horizon), and clusters of scenario 'lublin-256' differ in size" in ran.err


def test_a_policy_is_exported_for_a_longer_queue(rlsched: Run, tmp_path: Path) -> None:
    policy = save_network(tmp_path / "network", "job_scorer")
    assert rlsched("export", policy, tmp_path / "served", "--window", "64").code == 0
    exported = json.loads((tmp_path / "served/policy.json").read_text())
    assert exported["scenario"]["decision"]["window"] == exported["spaces"]["actions"]["slots"] == 64
    assert exported["about"]["trained_window"] == 16
    card = (tmp_path / "served/README.md").read_text()
    assert "| looks at | the first 64 waiting jobs (the first 16 in training and validation);" in card
    assert rlsched("evaluate", tmp_path / "served", "-n", "1").code == 0


@pytest.mark.parametrize(
    ("prepare", "parts"),
    [
        (
            lambda folder: save_policy(folder, resources=2),
            ["was trained on 2 resource types", "has 1", "jobs 16 x 13, not 16 x 15", "queue 9, not 11"],
        ),
        (lambda folder: (save_network(folder) / "weights.safetensors").unlink(), ["is damaged"]),
        (lambda folder: (save_network(folder) / "policy.json").write_text("{"), ["is damaged"]),
        (lambda folder: folder.mkdir(), ["holds no trained policy"]),
    ],
)
def test_policies_that_cannot_be_evaluated(
    rlsched: Run, tmp_path: Path, prepare: object, parts: list[str]
) -> None:
    assert callable(prepare)
    prepare(tmp_path / "odd")
    ran = rlsched("evaluate", tmp_path / "odd", "-n", "1")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith(f"error: {tmp_path / 'odd'}: ")
    for part in parts:
        assert part in ran.err


def test_policies_for_different_things_need_a_scenario(rlsched: Run, policy: Path, tmp_path: Path) -> None:
    different = save_policy(tmp_path / "other", "workload.load=0.5")
    ran = rlsched("evaluate", policy, different, "-n", "1")
    assert ran.code == 2
    assert f"{different}: was trained with another workload than {policy}" in ran.err
    assert rlsched("evaluate", policy, different, "-n", "1", "--scenario", "lublin-256").code == 0


def test_the_report_has_the_learning_curve_of_every_run(rlsched: Run, policy: Path, tmp_path: Path) -> None:
    """Also of one that was killed while it wrote, whose start is evaluated; the exported policy has none."""
    runs = [RunFolder(save_policy(tmp_path / name)) for name in ("one", "two")]
    for run in runs:
        heuristics = {"sjf": {"bounded_slowdown": 9.0}, "area": {"bounded_slowdown": 8.0}}
        run.save_validation({"metric": "bounded_slowdown", "episodes": 4, "heuristics": heuristics})
        for k in range(3):
            checked = {"validation_bounded_slowdown": 9.0 - k, "kept": 1}
            run.append_metrics({"iteration": k, "steps": 100 * k, "bounded_slowdown": 9.5 - k, **checked})
    with runs[1].metrics.open("ab") as file:
        file.write(b"3,300,6.5,")
    start = save_policy(runs[1].start)
    page = tmp_path / "report"
    ran = rlsched(
        *("evaluate", policy, runs[0].path, start, "-n", "2", "--against", "fcfs", "--report", page),
    )
    assert ran.code == 0, ran.err
    written = (page / "report.html").read_text("utf-8")
    best = "best heuristic in validation: area + greedy 8"  # as training says it
    assert written.count(f"<h2>Learning curve: bounded slowdown; {best}</h2>") == 1
    picture = (page / "learning-1.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert b64encode(picture).decode() in written
    assert not (page / "learning-2.png").exists()


def test_the_report_of_policies_that_are_no_runs_has_no_learning_curve(
    rlsched: Run, policy: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report"
    assert rlsched("evaluate", policy, "-n", "1", "--against", "fcfs", "--report", page).code == 0
    assert "Learning curve" not in (page / "report.html").read_text("utf-8")


def test_the_whole_trace(rlsched: Run, policy: Path, trace: Path) -> None:
    ran = rlsched("evaluate", policy, "--trace", trace, "--set", "episode.jobs=null", "--against", "fcfs")
    assert f"1 episode of {JOBS} jobs" in ran.out
