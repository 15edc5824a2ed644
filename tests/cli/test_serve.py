"""`rlsched export`, `serve`, `report serve` and `bench serve` where something is wrong, and what they say."""

from __future__ import annotations

import json
import shlex
import socket
from pathlib import Path

import pytest

from rlsched.cli.bench import Figure
from rlsched.cli.bench_serve import BATCH, Measured, figures, states_of
from rlsched.cli.output import ARTEFACTS
from rlsched.learn.policy import load_policy
from rlsched.serve.load import Load
from tests.serve.conftest import HPC, feed_of, untrained

from .conftest import Run


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy as a run leaves it."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    untrained(feed_of(*HPC).scenario).save(folder / "best")
    return folder


def test_an_export_says_what_to_do_next(rlsched: Run, run_folder: Path, tmp_path: Path) -> None:
    ran = rlsched("export", run_folder, tmp_path / "policy", "--json", tmp_path / "figures.json")
    assert ran.code == 0
    assert f"rlsched serve {tmp_path / 'policy'}" in ran.out
    exported = json.loads((tmp_path / "figures.json").read_text())
    assert exported["version"] == load_policy(tmp_path / "policy").fingerprint[:16]
    assert exported["units"] == [256]
    again = rlsched("export", run_folder, tmp_path / "policy")
    assert again.code == 0


def test_commands_that_are_suggested_can_be_pasted(rlsched: Run, run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "my [runs] über $HOME; it's"
    ran = rlsched("export", run_folder, folder / "a policy")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("serve it ")]
    assert shlex.split(line)[2:] == ["rlsched", "serve", str(folder / "a policy")]
    card = (folder / "a policy" / "README.md").read_text()
    (curl,) = [line for line in card.splitlines() if line.strip().startswith("curl")]
    assert shlex.split(curl)[-1] == f"@{folder / 'a policy' / 'example.json'}"
    trace = folder / "a trace.swf"
    trace.write_text(
        "; MaxProcs: 4\n1 0 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n2 9 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n"
    )
    ran = rlsched("trace", "info", trace)
    (line,) = [line for line in ran.out.splitlines() if line.startswith("more: ")]
    assert shlex.split(line)[-1] == str(trace)


def test_what_cannot_be_exported(rlsched: Run, run_folder: Path, tmp_path: Path) -> None:
    served = tmp_path / "served"
    assert rlsched("export", run_folder, served).code == 0
    before = {path: path.read_bytes() for folder in (run_folder, served) for path in folder.rglob("*.*")}
    assert {path.name for path in before if path.suffix == ".json"} <= ARTEFACTS
    for arguments, line in (
        ((tmp_path / "none", tmp_path / "p"), f"error: {tmp_path / 'none'}: no such folder"),
        (
            ("sjf", tmp_path / "p"),
            "error: sjf: no such folder; sjf is a heuristic, which can be served as a fallback",
        ),
        ((run_folder, run_folder), f"error: {run_folder}: holds other files"),
        ((run_folder, run_folder / "best"), f"error: {run_folder / 'best'}: holds other files"),
        ((served, served, "--window", 8), f"error: {served}: is also what is exported; name another"),
    ):
        ran = rlsched("export", *arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert ran.err.startswith(line)
    assert not (tmp_path / "p").exists()
    rows = {path: path.read_bytes() for folder in (run_folder, served) for path in folder.rglob("*.*")}
    assert rows == before


def test_figures_are_not_written_over_a_run_that_goes_on(rlsched: Run, tmp_path: Path) -> None:
    for name in ("train.yaml", "metrics.csv"):
        path = tmp_path / name
        path.write_text("kept")
        ran = rlsched("train", "--resume", "--out", tmp_path, "--json", path)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err == f"error: --json: '{path}' belongs to a folder that is read; name another file\n"
        assert path.read_text() == "kept"


def test_what_cannot_be_served(rlsched: Run, run_folder: Path, tmp_path: Path) -> None:
    policy, port = tmp_path / "policy", socket.socket()
    rlsched("export", run_folder, policy)
    port.bind(("127.0.0.1", 0))
    port.listen()
    (tmp_path / "bad.yaml").write_text("policies: {a: b}\nscalling: {replicas: 2}\n")
    for arguments, line in (
        ((), "error: DIR: names no policy"),
        ((run_folder,), f"error: policies.default: {str(run_folder)!r} holds no exported policy"),
        ((policy, policy), "error: DIR: two policies are called 'default'"),
        ((policy, "--port", port.getsockname()[1]), "error: --port: cannot listen on 127.0.0.1:"),
        ((policy, "--port", 70_000), "error: --port: value '70000'; use a whole number from 1 to 65535"),
        ((policy, "--mode", "shade"), "error: serve: mode: value 'shade'"),
        ((policy, "--set", "limits.jobs=1"), "error: --set: limits.jobs: value 1"),
        ((policy, "--set", "scaling={replicas: 4, most: 2}"), "error: --set: scaling.most: value 2 is less"),
        (
            (policy, "--token-file", tmp_path / "none"),
            f"error: --token-file: cannot read {str(tmp_path / 'none')!r}",
        ),
        ((policy, "--fallback", "sjf:esy"), "error: --fallback: unknown rule 'esy'; use one of easy, greedy"),
        ((policy, "--fallback", "sfj"), "error: --fallback: unknown heuristic 'sfj'; use one of fcfs, sjf"),
        (("--config", tmp_path / "bad.yaml"), f"error: {tmp_path / 'bad.yaml'}: scalling: unknown key"),
        ((policy, "--log", policy / "policy.json"), "error: --log: "),
    ):
        ran = rlsched("serve", *arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), arguments
        assert ran.err.startswith(line), ran.err
    port.close()


def test_what_cannot_be_measured_or_drawn(rlsched: Run, run_folder: Path, tmp_path: Path) -> None:
    for arguments, line in (
        (("bench", "serve", tmp_path), "error: DIR: "),
        (("bench", "serve", run_folder, "--clients", "0"), "error: --clients: value '0'"),
        (("report", "serve", tmp_path), f"error: {tmp_path}: holds no journal"),
    ):
        ran = rlsched(*arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), arguments
        assert ran.err.startswith(line), ran.err


def test_figures_are_relative_to_another_service() -> None:
    def measured(case: str, replicas: int, clients: int, states: int, answered: int) -> Measured:
        return Measured(case, replicas, clients, states, Load(answered, {}, 0, 2.0, 1.0, 9.0))

    rows = figures(
        [
            measured("single", 1, 8, 1, 400),
            measured("batches", 2, 4, BATCH, 10),
            measured("stock", 0, 8, 1, 100),
        ]
    )
    assert rows[0] == Figure(
        "serve_requests_per_s", "single, 1 replica, 8 clients", 200.0, "1/s", "stock", 4.0
    )
    assert rows[1] == Figure("serve_p99_ms", "single, 1 replica, 8 clients", 9.0, "ms")
    assert rows[4] == Figure("serve_decisions_per_s", "batches, 2 replicas, 4 clients", 5 * BATCH)


def test_requests_hold_clusters_of_episodes(run_folder: Path) -> None:
    policy = load_policy(run_folder)
    states, words = states_of(policy)
    assert len(states) == 256
    assert words.endswith(" jobs")
    assert len({state.now for state in states}) > 20
    assert any(state.waiting for state in states)
