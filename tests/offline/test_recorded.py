"""Replaying what the scheduler of a trace did."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlsched.cli.main import main
from rlsched.jobs import IntArray, JobTable
from rlsched.offline.manifest import read_manifest
from rlsched.offline.recorded import RecordedActor
from rlsched.scenario import Scenario
from rlsched.sim.heuristics import SimulatorHeuristic
from rlsched.sim.simulator import VectorSimulator
from rlsched.workloads import swf
from tests.strategies import random_jobs
from tests.strategies import scenario as queued

UNITS = (5,)


def play(scenario: Scenario, jobs: JobTable, order: str | None) -> IntArray:
    """Starts under an order; None: as the jobs themselves say."""
    sim = VectorSimulator(scenario, UNITS, 1, len(jobs))
    sim.load(0, jobs)
    env = np.zeros(1, np.uint64)
    policy = None if order is None else SimulatorHeuristic(sim, order, "now")
    actor = RecordedActor(sim)
    for starting in (policy, actor):
        if starting is not None:
            starting.begin(0, jobs, 0)
    while not (sim.terminated[0] or sim.truncated[0]):
        sim.step(actor.probabilities(env).argmax(axis=1) if policy is None else policy.act(env))
    return sim.starts(0)


def replayed(jobs: JobTable, window: int, time_rule: str = "smdp") -> tuple[list[int], dict[str, float]]:
    """Starts, and what is told of them; ticks are minutes."""
    minutes = queued(action_rule="fit", time_rule=time_rule, window=window, tick_s=60)
    sim = VectorSimulator(minutes, UNITS, 1, len(jobs))
    sim.load(0, jobs)
    actor = RecordedActor(sim)
    actor.begin(0, jobs, 0)
    while not sim.terminated[0]:
        sim.step(actor.probabilities(np.zeros(1, np.uint64)).argmax(axis=1))
    return sim.starts(0).tolist(), actor.followed(0)


@pytest.mark.parametrize("time_rule", ["smdp", "tick"])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_scheduler_did_is_done_again(seed: int, time_rule: str) -> None:
    """Whoever it was: every job starts when it did, known by its start alone."""
    rng = random.Random(seed)
    chosen = queued(action_rule="fit", time_rule=time_rule, window=30)
    jobs = random_jobs(rng, UNITS, 30)
    starts = play(chosen, jobs, rng.choice(["sjf", "fcfs", "wfp3", "area", "largest"]))
    again = play(chosen, replace(jobs, start=starts), None)
    np.testing.assert_array_equal(again, starts)


def test_a_reservation_is_for_whom_started_next() -> None:
    """B needs all 5 units and was started before C and D; D, short, went ahead of it."""
    jobs = JobTable.build(
        submit=[0, 1, 1, 1], runtime=[10, 5, 20, 3], demand=[3, 5, 2, 2], start=[0, 10, 15, 1]
    )
    assert play(queued(window=4), jobs, None).tolist() == [0, 10, 15, 1]
    np.testing.assert_array_equal(play(queued(action_rule="fit", window=4), jobs, None), jobs.start)


def test_a_job_that_was_held_back_is_held_back() -> None:
    """There were units, and nobody took them: A ran before B was allowed to, at an event."""
    jobs = JobTable.build(submit=[0, 0, 4], runtime=[10, 5, 1], demand=[1, 1, 1], start=[0, 6, 4])
    result = play(queued(action_rule="fit", window=4), jobs, None)
    assert result.tolist() == [0, 5, 4]  # at 5 C has ended; nothing else happens before 6
    by_tick = play(queued(action_rule="fit", time_rule="tick", window=4), jobs, None)
    assert by_tick.tolist() == [0, 6, 4]


def test_what_cannot_be_followed_is_counted() -> None:
    """Minutes; two jobs are seen at a time.

    C would start at 1, but stands behind A and B, which are to start later: it is seen when A has gone, at 5,
    and A holds all units until 6. D needs all units at 7, when B has some until 9. Of E nobody knows. F is to
    start at 25, but waiting is illegal where nothing runs and nobody comes.
    """
    jobs = JobTable.build(
        submit=[0, 0, 0, 6, 19, 20],
        runtime=[1, 3, 1, 1, 1, 1],
        demand=[5, 1, 1, 5, 1, 1],
        start=[5, 6, 1, 7, -1, 25],
    )
    starts, reported = replayed(jobs, 2, "tick")
    assert starts == [5, 6, 6, 9, 19, 20]
    assert reported == {
        "recorded_jobs": 5,
        "unrecorded_jobs": 1,
        "started_as_recorded": 2,
        "started_by_event": 0,
        "started_earlier": 1,
        "started_later": 2,
        "later_unseen": 1,
        "not_started": 0,
        "later_s": 300 + 120,
    }


def test_a_start_between_two_events_is_counted_separately() -> None:
    """B was held until 900, and nothing happens before A ends at 1,000: it starts at 0."""
    jobs = JobTable.build(submit=[0, 0], runtime=[1000, 5], demand=[1, 1], start=[0, 900])
    starts, reported = replayed(jobs, 4)
    assert starts == [0, 0]
    assert (reported["started_as_recorded"], reported["started_by_event"], reported["started_earlier"]) == (
        1,
        1,
        0,
    )


def test_a_job_that_nobody_knows_of_holds_up_nobody() -> None:
    """B needs all units, and C is known to have started beside A."""
    jobs = JobTable.build(submit=[0, 0, 1], runtime=[100, 5, 5], demand=[3, 5, 1], start=[0, -1, 1])
    assert play(queued(action_rule="fit", window=4), jobs, None).tolist() == [0, 100, 1]


def test_the_first_job_of_a_full_machine_is_in_the_window() -> None:
    """Nobody is asked then; B is late for its units, not for its place."""
    jobs = JobTable.build(submit=[0, 1], runtime=[10, 1], demand=[5, 5], start=[0, 2])
    _, reported = replayed(jobs, 4)
    assert (reported["started_later"], reported["later_unseen"]) == (1, 0)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """What the largest jobs first came to, as a trace."""
    jobs = random_jobs(random.Random(0), UNITS, 100, span=300)
    jobs = replace(jobs, user=np.full(100, -1), queue=np.full(100, -1), qos=np.ones(100))
    chosen = queued(action_rule="fit", window=100)
    starts = play(chosen, jobs, "largest")
    swf.write(tmp_path / "site.swf", jobs, processors=5, starts=starts, tick_s=600)
    return tmp_path / "site.swf"


def test_a_trace_is_replayed_by_the_command(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "site"
    settings = ["--set", "workload.training_jobs=[0,null]"]
    assert main(["collect", "--from-trace", str(trace), *settings, "--out", str(out)]) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert "of 100 jobs 100.0% started as in the trace, 0.0% at the last event before, 0 earlier" in reported
    dataset = read_manifest(out)
    assert (dataset.episodes, dataset.behaviors[0].behavior) == (1, "recorded")
    assert dataset.behaviors[0].metrics["started_as_recorded"].mean == 100
    assert main(["dataset", "check", str(out)]) == 0
    assert main(["collect", "--resume", "--steps", "500", "--out", str(out)]) == 2
    assert "a whole trace is replayed only once" in capsys.readouterr().err


def test_waits_in_a_trace_are_read(trace: Path, tmp_path: Path) -> None:
    jobs = swf.read(trace).jobs
    assert (jobs.start >= jobs.submit).all()
    assert (swf.read(trace, tick_s=600).jobs.start == jobs.start // 600).all()
    lines = trace.read_text("utf-8").splitlines()
    first = next(k for k, line in enumerate(lines) if not line.startswith(";"))
    fields = lines[first].split()
    for wait in ("-1", "?", "1e17"):
        second = tmp_path / "other.swf"
        second.write_text(
            "\n".join([" ".join([*fields[:2], wait, *fields[3:]]), *lines[first + 1 :]]), "utf-8"
        )
        result = swf.read(second).jobs
        assert result.start[result.id == int(fields[0])].tolist() == [-1]
        assert (result.start >= 0).sum() == len(jobs) - 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "sjf"], "--from-trace: sets episodes, policy and length; so does --policy"),
        (["--steps", "5"], "so does --steps"),
        (["--set", "steps=5"], "so does --set steps=5"),
        (["--set", "episode.jobs=5"], "so does --set episode.jobs=5"),
        (["--scenario", "green-hpc2n"], "episodes of scenario 'green-hpc2n' end by episode.max_ticks"),
    ],
)
def test_contradictions_are_refused(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    out = tmp_path / "no"
    assert main(["collect", "--from-trace", str(trace), *words, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not out.exists()


def test_nobody_recorded_it(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = swf.read(trace).jobs
    swf.write(tmp_path / "silent.swf", jobs, processors=5)
    silent, out = str(tmp_path / "silent.swf"), str(tmp_path / "no")
    assert main(["collect", "--from-trace", silent, "--out", out]) == 2
    assert "silent.swf: says of no job for training how long it waited" in capsys.readouterr().err.replace(
        "\n", " "
    )
    assert main(["collect", "--scenario", "green-10", "--policy", "recorded", "--out", out]) == 2
    assert "but scenario 'green-10' has a model of jobs" in capsys.readouterr().err.replace("\n", " ")


def test_days_put_together_anew_were_decided_about_by_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    submit = 3600 * np.arange(200)
    jobs = JobTable.build(submit=submit, runtime=np.full(200, 60), demand=np.ones(200, int), start=submit)
    swf.write(tmp_path / "days.swf", jobs, processors=5, starts=jobs.start)
    played = ["--trace", str(tmp_path / "days.swf"), "--policy", "recorded", "--steps", "50"]
    words = ["collect", *played, "--out", str(tmp_path / "out")]
    again = ["--set", "workload.resample=training", "--set", "episode.jobs=30"]
    assert main([*words, *again]) == 2
    assert "not about days put together anew; set workload.resample=never" in capsys.readouterr().err


def test_jobs_that_follow_others_come_at_times_nobody_decided_about(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", "--trace", str(trace), "--policy", "recorded", "--steps", "50"]
    follow = ["--set", "workload.dependencies=follow", "--set", "episode.jobs=3"]
    assert main([*words, *follow, "--out", str(tmp_path / "out")]) == 2
    assert "not about jobs that follow others; set workload.dependencies=ignore" in capsys.readouterr().err
