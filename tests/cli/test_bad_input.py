"""Bad input: one line on stderr that says what, where and what to do; exit code 2; nothing written."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from .conftest import Run

LUBLIN = ("simulate", "--scenario", "lublin-256", "--episodes", "1")
GREEN = ("simulate", "--scenario", "green-10", "--episodes", "1")


def refused(rlsched: Run, *arguments: object) -> str:
    """The line that the command is refused with."""
    ran = rlsched(*arguments)
    assert ran.code == 2, ran
    assert ran.out == ""
    assert ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("error: ")
    assert "Traceback" not in ran.err
    return ran.err.removeprefix("error: ").strip()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["simulate"], ["--scenario, --trace: neither is given"]),
        (["simulate", "--trace", "a", "--scenario", "b"], ["--scenario: unknown scenario 'b'"]),
        (
            ["simulate", "--trace", "a", "--scenario", "lublin-256"],
            ["--scenario, --trace: both are given", "the lublin model", "hpc-trace"],
        ),
        (["simulate", "--trace", "none.swf"], ["none.swf: no such file"]),
        (["simulate", "--scenario", "lublin-265"], ["'lublin-265'; did you mean 'lublin-256'?", "hpc-trace"]),
        (["simulate", "--scenario", "mine.yaml"], ["mine.yaml: no such file"]),
        (["simulate", "--scenario", "hpc-trace"], ["'trace.swf.gz': no such file", "--trace FILE"]),
        ([*LUBLIN, "-p", "fcsf"], ["--policy: unknown policy 'fcsf'; did you mean 'fcfs'?", "wfp3"]),
        ([*LUBLIN, "-p", "FCFS"], ["unknown policy 'FCFS'; did you mean 'fcfs'?"]),
        ([*LUBLIN, "-p", "zzz"], ["unknown policy 'zzz'; use one of fcfs,"]),
        ([*LUBLIN, "-p", "sjf:esy"], ["--policy: unknown backfilling rule 'esy'; did you mean 'easy'?"]),
        ([*LUBLIN, "-p", "runs/none"], ["runs/none: no such folder"]),
        ([*LUBLIN, "-b", "eazy"], ["--backfill: unknown backfilling rule 'eazy'; did you mean 'easy'?"]),
        (
            [*LUBLIN, "-b", "horizon"],
            ["--backfill: value 'horizon' is not supported without a horizon; use one of"],
        ),
        (
            [*GREEN, "-b", "easy"],
            ["--backfill: value 'easy' is not supported with a horizon; use one of"],
        ),
        (
            [*GREEN, "-p", "sjf:easy"],
            ["--policy: value 'easy' is not supported with a horizon; use one of"],
        ),
        ([*LUBLIN, "-b", "rlscheduler"], ["--backfill: 'rlscheduler'", "--protocol rlscheduler"]),
        (
            [*LUBLIN, "--set", "workload.laod=1"],
            ["--set: workload.laod: unknown key; did you mean 'load'? use one of daily_cycle, estimates"],
        ),
        ([*LUBLIN, "--set", "workload.load=much"], ["--set: workload.load: value 'much'"]),
        ([*LUBLIN, "--set", "workload.load"], ["--set: 'workload.load' is no assignment"]),
        ([*LUBLIN, "--set", "episode.end=no_new_job"], ["--set: 'episode.end=no_new_job'"]),
        ([*LUBLIN, "--jobs", "0"], ["--jobs: value '0'; use a whole number from 1 on"]),
        ([*LUBLIN, "--jobs", "9" * 5000], [f"--jobs: value '{'9' * 18}...'; use a whole number from 1 on"]),
        ([*LUBLIN, "--jobs", "9" * 18], ["--jobs: value 999999999999999999; use at most 10000000"]),
        (["simulate", "-s", "lublin-256", "-n", "9" * 18], ["--episodes: value 999", "use at most 1000000"]),
        (["bench", "serve", ".", "--clients", "9" * 5000], ["--clients: value '999", "from 1 on, as in 1,2"]),
        ([*LUBLIN, "--jobs", "ten"], ["--jobs: value 'ten'"]),
        ([*LUBLIN, "--episodes", "0"], ["--episodes: value '0'"]),
        ([*LUBLIN, "--seed", "-1"], ["--seed: value '-1'; use a whole number from 0 on"]),
        ([*LUBLIN, "--window", "0"], ["--window: value '0'"]),
        ([*LUBLIN, "--protocol", "rls"], ["--protocol", "'rls'", "rlscheduler"]),
        ([*LUBLIN, "--polcy", "fcfs"], ["--polcy", "--policy"]),
        (["simulate", "--scenario", "lublin-256", "--offsets", "1,2"], ["--offsets: are rows of a trace"]),
        (["simulate", "--scenario", "lublin-256", "--offsets", "1,x"], ["--offsets: 'x' is not a trace row"]),
        (
            ["simulate", "--scenario", "lublin-256", "--offsets", "9" * 5000],
            ["--offsets: '999", "is not a trace row"],
        ),
        (["simulate", "--scenario", "lublin-256", "--offsets", "-1"], ["--offsets: '-1' is not a trace row"]),
        (["simulate", "--scenario", "lublin-256", "--protocol", "rlscheduler"], ["--protocol", "--trace"]),
        ([*LUBLIN, "--json", "file/f.json"], ["--json: cannot write 'file/f.json'"]),
        ([*LUBLIN, "--json", "."], ["--json: '.' is a folder"]),
        ([*LUBLIN, "--render", "file/p.png"], ["--render: cannot write"]),
        ([*LUBLIN, "--render", "p.jpg"], ["--render: 'p.jpg': unknown format; end it in .png"]),
        ([*LUBLIN, "--report", "file/report"], ["--report: ", "is a file"]),
        (["evaluate"], ["CHECKPOINT", "rlsched evaluate --help"]),
        (["evaluate", "sjf"], ["sjf: no such folder; sjf is a heuristic", "--against"]),
        (["evaluate", "runs/none"], ["runs/none: no such folder"]),
        (["evaluate", "."], [".: holds no trained policy"]),
        (["train"], ["rlsched train: nothing to train on; give CONFIG, or --scenario, --trace or both"]),
        (
            ["train", "--trace", "a", "--scenario", "lublin-256"],
            ["--scenario, --trace: both are given", "the lublin model", "hpc-trace"],
        ),
        (["train", "c.yaml", "--trace", "a"], ["rlsched train: CONFIG and --trace are both given"]),
        (["train", "--scenario", "hpc-trace"], ["'trace.swf.gz': no such file", "--trace FILE"]),
        (["evaluate", ".", "--against", "sfj"], ["--against: unknown policy 'sfj'; did you mean 'sjf'?"]),
        (["scenarios", "show", "lublin"], ["scenarios show: unknown scenario 'lublin'"]),
        (["scenarios", "--json", "file/f.json"], ["--json: cannot write"]),
        (["bench", "core", "--seconds", "0"], ["--seconds: value 0"]),
        (["bench"], ["Missing command"]),
        (["simulat"], ["No such command 'simulat'", "rlsched --help"]),
    ],
)
def test_one_line_that_helps(
    rlsched: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    parts: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    line = refused(rlsched, *arguments)
    for part in parts:
        assert part in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"1 2\0 3", "is binary"),
        (b"; Version: 2\n; only a header\n", "has no job line"),
        (gzip.compress(b"1 2 3", mtime=0)[:-6], "ends early"),
        (b"1 0 -1 0 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n", "has no usable job"),
        (b"1 0 -1 9 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n", "add --set cluster.resources.0.units=N"),
    ],
)
def test_unusable_traces(rlsched: Run, tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "odd.swf"
    path.write_bytes(content)
    line = refused(rlsched, "simulate", "--trace", path, "--json", tmp_path / "f.json")
    assert line.startswith(f"{path}: ")
    assert message in line
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--jobs", "301"], ["--jobs: value 301", "300 jobs that fit the machine are less"]),
        (["--jobs", "200"], ["--jobs: value 200", "for evaluation", "--offsets"]),
        (["--episodes", "2"], ["60 jobs in a row for evaluation", "set a smaller --jobs"]),
        (["--offsets", "0,290", "--jobs", "20"], ["--offsets: no 20 jobs from row 290", "rows 0 to 280"]),
        (["--offsets", "1,1", "--jobs", "20"], ["--offsets: names a row twice in 1,1"]),
        (["--offsets", "1", "--episodes", "2"], ["--episodes: given together with --offsets"]),
        (["--set", "episode.jobs=null", "--episodes", "2"], ["--episodes: 2 times the same whole trace"]),
        (
            ["--set", "episode={jobs: 9, offsets: [1, 2]}", "--episodes", "3"],
            ["--episodes: value 3: the scenario lists 2"],
        ),
        (["--protocol", "rlscheduler"], ["--protocol: its sequences are of 1024 jobs", "300 jobs"]),
        (["--protocol", "rlscheduler", "--jobs", "10"], ["--jobs: value 10 goes with --protocol"]),
        (["--protocol", "rlscheduler", "--seed", "2"], ["--seed: value 2 goes with --protocol"]),
        (["--protocol", "rlscheduler", "--episodes", "2"], ["--episodes: given together with --protocol"]),
        (["--protocol", "rlscheduler", "--set", "episode.jobs=9"], ["--set: 'episode.jobs=9': --protocol"]),
    ],
)
def test_episodes_that_are_not_there(rlsched: Run, trace: Path, options: list[str], parts: list[str]) -> None:
    line = refused(rlsched, "simulate", "--trace", trace, *options)
    for part in parts:
        assert part in line
    assert "episode.offsets" not in line


def test_an_order_that_the_protocol_does_not_know(rlsched: Run, data_dir: Path) -> None:
    trace = data_dir / "swf" / "lublin_256.swf.gz"
    line = refused(rlsched, "simulate", "--trace", trace, "-p", "xfactor", "--protocol", "rlscheduler")
    assert line.startswith("--policy: 'xfactor' under rlscheduler")


def test_a_trace_too_short_to_measure_on(rlsched: Run, trace: Path) -> None:
    line = refused(rlsched, "bench", "core", "--seconds", "0.01", "--trace", trace)
    assert line.startswith(f"{trace}: 300 jobs")
    assert line.endswith("measure on a longer trace")


def test_a_misspelt_key_in_a_file(rlsched: Run, tmp_path: Path) -> None:
    scenario_file = tmp_path / "mine.yaml"
    scenario_file.write_text("workload: {kind: lublin}\nclustr: {tick_s: 1}\n")
    line = refused(rlsched, "simulate", "--scenario", scenario_file)
    expected = f"{scenario_file}: clustr: unknown key; did you mean 'cluster'? use one of cluster"
    assert line.startswith(expected)
