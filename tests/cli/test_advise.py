"""`rlsched advise slurm` through the command line, on an untrained policy, and against a service."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import Outcome, Run
from .slurm_policy import MAY_START, NOW, SINFO, SQUEUE, exported


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("exported"))


@dataclass
class Slurm:
    """The command on the recorded files."""

    run: Run
    policy: Path

    def __call__(
        self, *more: object, squeue: object = SQUEUE, sinfo: object = SINFO, at: int = NOW
    ) -> Outcome:
        return self.run(
            "advise", "slurm", self.policy, "--squeue", squeue, "--sinfo", sinfo, "--at", at, *more
        )


@pytest.fixture
def slurm(rlsched: Run, policy: Path) -> Slurm:
    return Slurm(rlsched, policy)


def test_the_table(slurm: Slurm) -> None:
    outcome = slurm()
    assert (outcome.code, outcome.err) == (0, "")
    assert re.search(r"cpus +48 free of 96, 16 out of service", outcome.out)
    assert "3 hold units, 6 may start" in outcome.out
    for words in ("200_2", "fcfs:easy", "JobHeldUser", "needs units that are not free", "note: advice"):
        assert words in outcome.out
    row = next(line for line in outcome.out.splitlines() if line.startswith("302"))
    assert row.split()[:8] == ["302", "cyd", "batch,gpu", "0:50", "1", "4", "0:30", "start"]


def test_the_json(slurm: Slurm) -> None:
    advice = slurm("--json", "-").json
    assert (advice["schema"], advice["at"], advice["slurm"]) == (1, NOW, "24.11.5")
    assert (advice["units"], advice["free"], advice["out_of_service"]) == ([96], [48], [16])
    assert {row["job"] for row in advice["jobs"]} == MAY_START
    started = {row["job"]: row for row in advice["jobs"] if row["action"] == "start"}
    assert 0 < sum(row["demand"][0] for row in started.values()) <= 48
    assert {decision["job"] for decision in advice["decisions"]} >= set(started)
    assert advice["left_out"]["JobArrayTaskLimit"] == {"jobs": [200], "count": 7}
    assert [command["job"] for command in advice["scontrol"]] == [
        str(row["job"]) for row in advice["jobs"] if row["action"] in {"start", "reserve"}
    ]


def test_one_of_both_may_come_from_stdin(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = slurm("--json", "-").json
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SQUEUE.read_bytes())))
    assert slurm("--json", "-", squeue="-").json == expected


def test_commands_of_an_old_state_are_refused_unless_their_time_is_given(
    slurm: Slurm, policy: Path, tmp_path: Path
) -> None:
    squeue, sinfo = tmp_path / "q.json", Path(shutil.copy(SINFO, tmp_path))
    words = ("advise", "slurm", policy, "--squeue", squeue, "--sinfo", sinfo, "--as-scontrol")

    def changed(seconds: int) -> None:
        """Jobs last changed so long ago, and the file is new."""
        content = json.loads(SQUEUE.read_text())
        content["last_update"]["number"] = int(time.time()) - seconds
        squeue.write_text(json.dumps(content))

    changed(0)
    assert slurm.run(*words).code == 0
    os.utime(sinfo, (time.time() - 1200,) * 2)
    outcome = slurm.run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--as-scontrol: the output of squeue and sinfo is 20 minutes old" in outcome.err
    os.utime(sinfo)
    changed(3600)
    outcome = slurm.run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert "is 60 minutes old, too old to act on; run both again; where nothing has happened since" in (
        outcome.err
    )
    assert slurm.run(*words, "--at", NOW).code == 0


def test_commands_are_a_script_that_a_shell_understands(slurm: Slurm, tmp_path: Path) -> None:
    outcome = slurm("--as-scontrol")
    assert (outcome.code, outcome.err) == (0, "")
    # A scontrol that prints its arguments, in an empty PATH.
    (tmp_path / "scontrol").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "scontrol").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-eu"],
        input=outcome.out,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    commands = done.stdout.splitlines()
    assert commands
    assert done.stderr == ""
    for line in commands:
        assert re.fullmatch(r"update JobId=(301|302|303|311|312|200_2) Nice=-\d+", line)
    assert outcome.out.count("# scontrol update") == len(commands)


def test_units_may_be_nodes(slurm: Slurm) -> None:
    advice = slurm("--json", "-", "--units", "nodes", "--partition", "batch").json
    assert (advice["counts"], advice["units"], advice["free"]) == (["nodes"], [4], [1])


def test_the_heuristic_may_be_another(slurm: Slurm) -> None:
    assert slurm("--json", "-", "--fallback", "sjf:greedy").json["fallback"]["name"] == "sjf:greedy"


def test_several_resources(rlsched: Run, tmp_path: Path) -> None:
    resources = "cluster.resources=[{name: cpu, units: 96}, {name: gpu, units: 4}]"
    folder = exported(tmp_path, resources, "workload={kind: mao}")
    advice = Slurm(rlsched, folder)("--json", "-").json
    assert (advice["counts"], advice["units"], advice["free"]) == (["cpus", "gpu"], [96, 4], [48, 2])
    assert next(row["demand"] for row in advice["jobs"] if row["job"] == 311) == [8, 2]


def test_a_policy_with_a_memory_gets_a_note(rlsched: Run, tmp_path: Path) -> None:
    advice = Slurm(rlsched, exported(tmp_path, lstm=8))("--json", "-").json
    assert any("the policy has a memory" in note for note in advice["notes"])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--squeue", SINFO, "--sinfo", SINFO], "has 'sinfo', which sinfo prints; give it as --sinfo"),
        (["--squeue", SQUEUE, "--sinfo", SQUEUE], "has 'jobs', which squeue prints; give it as --squeue"),
        (["--squeue", "-", "--sinfo", "-"], "--squeue, --sinfo: both are stdin"),
        (["--squeue", SQUEUE], "--sinfo: is not given"),
        (["--sinfo", SINFO], "--squeue: is not given"),
        (["--squeue", "none.json", "--sinfo", SINFO], "none.json: no such file"),
    ],
)
def test_files_that_are_not_given_well(rlsched: Run, policy: Path, more: list[object], message: str) -> None:
    outcome = rlsched("advise", "slurm", policy, *more)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--partition", "x"], "--partition: value 'x' is not a partition"),
        (["--units", "cores"], "--units: value 'cores'"),
        (["--url", "http://127.0.0.1:1"], "DIR, --url: both are given"),
        (["--policy", "x"], "--policy: value 'x' needs --url"),
        (["--token-file", "x"], "--token-file: value 'x' needs --url"),
        (["--default-limit", "0"], "--default-limit: value '0'"),
        (["--at", "noon"], "--at: value 'noon'"),
        (["--as-scontrol", "--json", "-"], "both write to stdout"),
        (["--fallback", "fcfs:never"], "unknown rule 'never'"),
    ],
)
def test_options_that_do_not_fit(slurm: Slurm, more: list[str], message: str) -> None:
    outcome = slurm(*more)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_no_policy_is_refused(rlsched: Run, tmp_path: Path) -> None:
    outcome = rlsched("advise", "slurm", tmp_path, "--squeue", SQUEUE, "--sinfo", SINFO)
    assert (outcome.code, outcome.out) == (2, "")
    assert "holds no exported policy; name a folder that rlsched export wrote" in outcome.err
    outcome = rlsched("advise", "slurm", "--squeue", SQUEUE, "--sinfo", SINFO)
    assert "DIR, --url: neither is given" in outcome.err


def test_help_teaches(rlsched: Run) -> None:
    assert "advise slurm" in rlsched("advise", "--help").out
    help_text = " ".join(rlsched("advise", "slurm", "--help").out.split())
    assert "squeue --all --json > q.json" in help_text
    assert "changes nothing" in help_text
