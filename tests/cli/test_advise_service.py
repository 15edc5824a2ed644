"""`rlsched advise slurm` against a decision service over HTTP, and the commands of its page."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rlsched.integrations.slurm.policies import ExportedPolicy
from rlsched.serve.api.schema import Answer, DecisionRequest

from .conftest import Outcome, Run
from .slurm_policy import NOW, ROOT, SINFO, SQUEUE, TOKEN, exported


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported(tmp_path_factory.mktemp("exported"))


@dataclass
class Service:
    """A service that records requests and answers with a policy, or with a fixed content."""

    url: str = ""
    policy: Path = Path()
    status: int = 200
    shadow: bool = False
    gate: dict[str, Any] | None = None
    content: bytes | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    def answer(self, path: str, body: bytes) -> bytes:
        local = ExportedPolicy(self.policy, None)
        if path == "/v1/policy":
            about = {
                "name": "default",
                "resources": local.settings.resources,
                "units": local.settings.trained_units,
            }
            about |= {} if self.gate is None else {"gate": self.gate}
            return json.dumps({"policies": [about | {"horizon": None, "remembers": False}]}).encode()
        assert path == "/v1/decisions"
        self.requests.append(json.loads(body))
        request = msgspec.json.decode(body, type=DecisionRequest)  # as the service checks it
        decision: Answer = local.decide(request)
        if self.shadow:
            decision = msgspec.structs.replace(decision, decided_by="fallback", because="shadow")
        return msgspec.json.encode(decision)


@pytest.fixture
def service(policy: Path) -> Iterator[Service]:
    """A service of this policy, over HTTP."""
    service_ = Service(policy=policy)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(b"")

        def do_POST(self) -> None:
            self._respond(self.rfile.read(int(self.headers["content-length"])))

        def _respond(self, body: bytes) -> None:
            service_.tokens.append(self.headers["authorization"])
            content = service_.answer(self.path, body) if service_.content is None else service_.content
            self.send_response(service_.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr, which is looked at."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    service_.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield service_
    server.shutdown()
    thread.join()
    server.server_close()


def ask(run: Run, url: str, *more: object) -> Outcome:
    return run("advise", "slurm", "--url", url, "--squeue", SQUEUE, "--sinfo", SINFO, "--at", NOW, *more)


def test_a_service_gives_the_same_advice(
    rlsched: Run, policy: Path, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    files = ("--squeue", SQUEUE, "--sinfo", SINFO, "--at", NOW)
    expected = rlsched("advise", "slurm", policy, *files, "--json", "-").json
    outcome = ask(rlsched, service.url, "--json", "-", "--token-file", tmp_path / "token")
    assert outcome.code == 0, outcome.err
    assert outcome.json == expected
    assert service.tokens == [f"Bearer {TOKEN}"] * 2
    assert service.requests[0]["cluster"] == "hpc"


def test_notes_name_the_fallback_and_the_gate(rlsched: Run, service: Service) -> None:
    service.shadow = True
    assert "note: the heuristic decided, not the policy: shadow" in ask(rlsched, service.url).out
    service.gate = {"line": "default fails the gate: \N{MINUS SIGN}2\x1b"}
    assert "note: default fails the gate: -2?\n" in ask(rlsched, service.url).out


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
    assert re.search(r"--url: value '.*' is not an address", outcome.err)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://me:hushhush@127.0.0.1:1", "value 'http://***@127.0.0.1:1' holds a user name or password"),
        ("http://me:hush/hush@127.0.0.1:1", "value 'http://***@127.0.0.1:1' is not an address"),
        ("http://me:1/hushhush@127.0.0.1", "value 'http://***@127.0.0.1' holds a user name or password"),
        ("me:hushhush@127.0.0.1:1", "value '***@127.0.0.1:1' is not an address"),
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
