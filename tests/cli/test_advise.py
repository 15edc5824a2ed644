"""`rlsched advise slurm` through the command line, on an untrained policy, and against a service."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from rlsched import scenario
from rlsched.integrations.slurm.asking import Local
from rlsched.learn.config.sections import Network
from rlsched.learn.networks.policies import build_policy
from rlsched.learn.policy import TrainedPolicy
from rlsched.serve.api.schema import Answer, DecisionRequest
from rlsched.serve.artefact import export_policy
from rlsched.sim.layout import Layout

from .conftest import Outcome, Run

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "integrations" / "slurm"
NOW = 1_760_000_000
SQUEUE, SINFO = FILES / "squeue-24.11.5.json", FILES / "sinfo-24.11.5.json"
TOKEN = "0123456789abcdef"
MAY_START = {"200_2", 301, 302, 303, 311, 312}


def exported(folder: Path, *overrides: str, lstm: int = 0) -> Path:
    """A policy that was never trained."""
    made = scenario.load("lublin-256", ["decision.window=32", *overrides])
    resources = len(made.cluster.resources)
    torch.manual_seed(0)
    network = Network(kind="job_scorer", hidden=(16,), lstm=lstm)
    net = build_policy(Layout.of(made.observation, made.decision, resources), network)
    TrainedPolicy(made, network, net, resources, {"algo": "ppo"}).save(folder / "raw")
    export_policy(folder / "raw", folder / "policy")
    return folder / "policy"


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


def test_it_tells_people(slurm: Slurm) -> None:
    outcome = slurm()
    assert (outcome.code, outcome.err) == (0, "")
    assert re.search(r"cpus +48 free of 96, 16 out of service", outcome.out)
    assert "3 hold units, 6 may start" in outcome.out
    for words in ("200_2", "fcfs:easy", "JobHeldUser", "needs units that are not free", "note: advice"):
        assert words in outcome.out
    row = next(line for line in outcome.out.splitlines() if line.startswith("302"))
    assert row.split()[:8] == ["302", "cyd", "batch,gpu", "0:50", "1", "4", "0:30", "start"]


def test_it_tells_machines(slurm: Slurm) -> None:
    told = slurm("--json", "-").json
    assert (told["schema"], told["at"], told["slurm"]) == (1, NOW, "24.11.5")
    assert (told["units"], told["free"], told["out_of_service"]) == ([96], [48], [16])
    assert {row["job"] for row in told["jobs"]} == MAY_START
    started = {row["job"]: row for row in told["jobs"] if row["action"] == "start"}
    assert 0 < sum(row["demand"][0] for row in started.values()) <= 48
    assert {decision["job"] for decision in told["decisions"]} >= set(started)
    assert told["left_out"]["JobArrayTaskLimit"] == {"jobs": [200], "count": 7}
    assert [command["job"] for command in told["scontrol"]] == [
        str(row["job"]) for row in told["jobs"] if row["action"] in {"start", "reserve"}
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
        told = json.loads(SQUEUE.read_text())
        told["last_update"]["number"] = int(time.time()) - seconds
        squeue.write_text(json.dumps(told))

    changed(0)
    assert slurm.run(*words).code == 0
    os.utime(sinfo, (time.time() - 1200,) * 2)
    outcome = slurm.run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--as-scontrol: what squeue and sinfo said is 20 minutes old" in outcome.err
    os.utime(sinfo)
    changed(3600)
    outcome = slurm.run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert "is 60 minutes old, too old to be acted on; take it anew; where nothing has happened since" in (
        outcome.err
    )
    assert slurm.run(*words, "--at", NOW).code == 0


def test_commands_are_a_script_that_a_shell_understands(slurm: Slurm, tmp_path: Path) -> None:
    outcome = slurm("--as-scontrol")
    assert (outcome.code, outcome.err) == (0, "")
    # A scontrol that says what it is told, beside nothing else.
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
    asked = done.stdout.splitlines()
    assert asked
    assert done.stderr == ""
    for line in asked:
        assert re.fullmatch(r"update JobId=(301|302|303|311|312|200_2) Nice=-\d+", line)
    assert outcome.out.count("# scontrol update") == len(asked)


def test_units_may_be_nodes(slurm: Slurm) -> None:
    told = slurm("--json", "-", "--units", "nodes", "--partition", "batch").json
    assert (told["counts"], told["units"], told["free"]) == (["nodes"], [4], [1])


def test_the_heuristic_may_be_another(slurm: Slurm) -> None:
    assert slurm("--json", "-", "--fallback", "sjf:greedy").json["fallback"]["name"] == "sjf:greedy"


def test_several_resources(rlsched: Run, tmp_path: Path) -> None:
    both = "cluster.resources=[{name: cpu, units: 96}, {name: gpu, units: 4}]"
    folder = exported(tmp_path, both, "workload={kind: mao}")
    told = Slurm(rlsched, folder)("--json", "-").json
    assert (told["counts"], told["units"], told["free"]) == (["cpus", "gpu"], [96, 4], [48, 2])
    assert next(row["demand"] for row in told["jobs"] if row["job"] == 311) == [8, 2]


def test_a_policy_that_remembers_is_asked_for_the_first_time(rlsched: Run, tmp_path: Path) -> None:
    told = Slurm(rlsched, exported(tmp_path, lstm=8))("--json", "-").json
    assert any("the policy remembers" in note for note in told["notes"])


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
        (["--partition", "x"], "--partition: value 'x' is no partition"),
        (["--units", "cores"], "--units: value 'cores'"),
        (["--url", "http://127.0.0.1:1"], "DIR, --url: both are given"),
        (["--policy", "x"], "--policy: value 'x' means nothing here"),
        (["--token-file", "x"], "--token-file: value 'x' means nothing here"),
        (["--default-limit", "0"], "--default-limit: value '0'"),
        (["--at", "noon"], "--at: value 'noon'"),
        (["--as-scontrol", "--json", "-"], "both write to stdout"),
        (["--fallback", "fcfs:never"], "unknown rule 'never'"),
    ],
)
def test_options_that_mean_nothing(slurm: Slurm, more: list[str], message: str) -> None:
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
    told = " ".join(rlsched("advise", "slurm", "--help").out.split())
    assert "squeue --all --json > q.json" in told
    assert "changes nothing" in told


@dataclass
class Service:
    """What a service that is asked says, and what it was asked."""

    url: str = ""
    policy: Path = Path()
    status: int = 200
    shadow: bool = False
    gate: dict[str, Any] | None = None
    content: bytes | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    def answer(self, path: str, body: bytes) -> bytes:
        local = Local(self.policy, None)
        if path == "/v1/policy":
            about = {"name": "default", "resources": local.about.resources, "units": local.about.units}
            about |= {} if self.gate is None else {"gate": self.gate}
            return json.dumps({"policies": [about | {"horizon": None, "remembers": False}]}).encode()
        assert path == "/v1/decisions"
        self.asked.append(json.loads(body))
        request = msgspec.json.decode(body, type=DecisionRequest)  # as the service checks it
        found: Answer = local.decide(request)
        if self.shadow:
            found = msgspec.structs.replace(found, decided_by="fallback", because="shadow")
        return msgspec.json.encode(found)


@pytest.fixture
def service(policy: Path) -> Iterator[Service]:
    """A service of this policy, over HTTP."""
    found = Service(policy=policy)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(b"")

        def do_POST(self) -> None:
            self._respond(self.rfile.read(int(self.headers["content-length"])))

        def _respond(self, body: bytes) -> None:
            found.tokens.append(self.headers["authorization"])
            content = found.answer(self.path, body) if found.content is None else found.content
            self.send_response(found.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr, which is looked at."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def ask(run: Run, url: str, *more: object) -> Outcome:
    return run("advise", "slurm", "--url", url, "--squeue", SQUEUE, "--sinfo", SINFO, "--at", NOW, *more)


def test_a_service_says_the_same(slurm: Slurm, rlsched: Run, service: Service, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    expected = slurm("--json", "-").json
    outcome = ask(rlsched, service.url, "--json", "-", "--token-file", tmp_path / "token")
    assert outcome.code == 0, outcome.err
    assert outcome.json == expected
    assert service.tokens == [f"Bearer {TOKEN}"] * 2
    assert service.asked[0]["cluster"] == "hpc"


def test_who_decided_is_said(rlsched: Run, service: Service) -> None:
    service.shadow = True
    assert "note: the heuristic decided, not the policy: shadow" in ask(rlsched, service.url).out
    service.gate = {"line": "default stands back: \N{MINUS SIGN}2\x1b"}
    assert "note: default stands back: -2?\n" in ask(rlsched, service.url).out


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (401, b'{"error": "authorization: no token"}', "answers 401: authorization: no token; give a token"),
        (422, b'{"error": "waiting: 3 jobs\\nin all"}', "answers 422: waiting: 3 jobs?in all"),
        (502, b"<html>bad gateway</html>", "answers 502: Bad Gateway"),
        (200, b"<html>hello</html>", "does not answer as rlsched serve does"),
        (200, b"{}", "does not answer as rlsched serve does"),
        (200, b'{"policies": []}', "does not answer as rlsched serve does"),
        (200, b"[" * 100_000, "does not answer as rlsched serve does"),
    ],
)
def test_services_that_refuse(
    rlsched: Run, service: Service, status: int, content: bytes, message: str
) -> None:
    service.status, service.content = status, content
    outcome = ask(rlsched, service.url)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert outcome.err.count("\n") == 1


def test_unknown_policies_of_a_service(rlsched: Run, service: Service) -> None:
    outcome = ask(rlsched, service.url, "--policy", "x")
    assert outcome.err == "error: --policy: unknown policy 'x'; name one of default\n"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "127.0.0.1:8000", "http://", "http://h:x", "http://a b"]
)
def test_addresses_that_are_none(rlsched: Run, url: str) -> None:
    outcome = ask(rlsched, url)
    assert outcome.code == 2
    assert re.search(r"--url: value '.*' is no address", outcome.err)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://me:hushhush@127.0.0.1:1", "value 'http://***@127.0.0.1:1' holds a user name or password"),
        ("http://me:hush/hush@127.0.0.1:1", "value 'http://***@127.0.0.1:1' is no address"),
        ("http://me:1/hushhush@127.0.0.1", "value 'http://***@127.0.0.1' holds a user name or password"),
        ("me:hushhush@127.0.0.1:1", "value '***@127.0.0.1:1' is no address"),
    ],
)
def test_a_password_in_an_address_is_not_shown(rlsched: Run, url: str, problem: str) -> None:
    outcome = ask(rlsched, url)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"error: --url: {problem}; ")
    assert outcome.err.count("\n") == 1


def test_nobody_answers(rlsched: Run, service: Service) -> None:
    port = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    url = f"http://127.0.0.1:{port.server_port}"
    port.server_close()
    outcome = ask(rlsched, url)
    assert outcome.code == 2
    assert "does not answer (" in outcome.err


def test_what_the_page_tells_to_type_runs(
    rlsched: Run, policy: Path, service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SQUEUE, "q.json")
    shutil.copy(SINFO, "n.json")
    shutil.copytree(policy, tmp_path / "runs" / "policy")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    page = (ROOT / "docs" / "guide" / "beside-slurm.md").read_text("utf-8")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    rlsched advise slurm")]
    assert len(lines) >= 4
    for line in lines:
        words = shlex.split(line.replace("http://127.0.0.1:8000", service.url))
        if ">" in words:
            words = words[: words.index(">")]
        outcome = rlsched(*words[1:], "--at", NOW)
        assert outcome.code == 0, f"{line}\n{outcome.err}"
