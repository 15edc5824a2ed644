"""Latency and throughput of the service that `rlsched serve` runs, under load from another process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from rlsched.cli.bench import Figure
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.policy import NetworkPolicy, load_policy
from rlsched.serve.api.requests import to_columns
from rlsched.serve.api.schema import BatchRequest, ClusterState
from rlsched.serve.artefact import example_request
from rlsched.serve.load import Load, LoadJob, load_of
from rlsched.serve.process.ports import free_ports
from rlsched.serve.simulated_state import simulated_state
from rlsched.sim.simulator import VectorSimulator

HOST = "127.0.0.1"
START_S = 120.0
"""Most seconds until a service is ready."""

STATES = 256
"""Clusters that requests hold, in turn."""

BATCH = 1024
"""Clusters in a batch."""

BATCHES = 4
BATCH_CLIENTS = 4
WARM_S = 2.0
SINGLE_PATH, BATCH_PATH = "/v1/decisions", "/v1/decisions:batch"


class Service(NamedTuple):
    """A running service: its port, and the seconds until it was ready."""

    port: int
    started_s: float


class Measured(NamedTuple):
    """Result of a load.

    Attributes:
        case: kind of requests.
        replicas: of the service; 0: it is not a service of rlsched.
        clients: concurrent ones.
        states: clusters in a request.
        load: the result.
    """

    case: str
    replicas: int
    clients: int
    states: int
    load: Load

    @property
    def per_s(self) -> float:
        """Clusters with a decision per second."""
        return self.states * self.load.answered / self.load.seconds


def measure_service(
    folder: Path, replicas: Sequence[int], clients: Sequence[int], seconds: float
) -> Iterator[Measured | Service]:
    """Put all loads on services, one after the other; yields each service when it is ready, and its results.

    Args:
        folder: of the exported policy.
        replicas: number of replicas of each service.
        clients: number of concurrent clients of each load.
        seconds: time for each load.
    """
    states, source = states_of(load_policy(folder))
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch)
        singles = [_written(room / f"one-{k}.json", states[k]) for k in range(0, STATES, 4)]
        turns = [[states[(k + j) % len(states)] for j in range(BATCH)] for k in range(BATCHES)]
        batches = {
            f"batches of {BATCH}": [BatchRequest(states=turn) for turn in turns],
            f"batches of {BATCH} as columns": [BatchRequest(columns=to_columns(turn)) for turn in turns],
        }
        bodies = {
            case: [_written(room / f"many-{number}-{k}.json", body) for k, body in enumerate(requests)]
            for number, (case, requests) in enumerate(batches.items())
        }
        for count in replicas:
            with running(["-m", "rlsched", "serve", str(folder), "--replicas", str(count)], room) as service:
                yield service
                for number in clients:
                    load = put(service, SINGLE_PATH, singles, number, seconds, room)
                    yield Measured(f"single, {source}", count, number, 1, load)
                for case, files in bodies.items():
                    load = put(service, BATCH_PATH, files, BATCH_CLIENTS, seconds, room)
                    yield Measured(f"{case}, {source}", count, BATCH_CLIENTS, BATCH, load)


def figures(results: Sequence[Measured]) -> list[Figure]:
    """Figures of loads; single decisions relative to the other service with as many clients, if any."""
    rivals = {result.clients: result for result in results if result.replicas == 0}
    rows = []
    for result in results:
        plural = "s" if result.replicas > 1 else ""
        replicas = f", {result.replicas} replica{plural}" if result.replicas else ""
        case = f"{result.case}{replicas}, {result.clients} clients"
        rival = rivals.get(result.clients) if result.states == 1 and result.replicas else None
        ratio = None if rival is None else result.per_s / rival.per_s
        against = None if rival is None else rival.case
        per_s = result.load.answered / result.load.seconds
        rows.append(Figure("serve_requests_per_s", case, per_s, "1/s", against, ratio))
        rows.append(Figure("serve_p99_ms", case, result.load.p99_ms, "ms"))
        if result.states > 1:
            rows.append(Figure("serve_decisions_per_s", case, result.per_s))
    return rows


def states_of(policy: NetworkPolicy) -> tuple[list[ClusterState], str]:
    """Clusters from the policy's own episodes, and their name in words.

    Where the trace of the policy is missing, it is the example that comes with the policy.
    """
    try:
        feed = EpisodeFeed(policy.scenario)
    except BadInputError:
        return [example_request(policy)] * STATES, "example"
    sim = VectorSimulator(policy.scenario, feed.units, 8, feed.max_jobs)
    episodes = [feed.evaluation(k, 0) for k in range(sim.num_envs)]
    for env, episode in enumerate(episodes):
        sim.load(env, episode.jobs, episode.scale, episode.power)
    player = policy.actor(sim.num_envs)
    states: list[ClusterState] = []
    step = 0
    while len(states) < STATES and not (sim.terminated | sim.truncated).all():
        active = np.flatnonzero(~(sim.terminated | sim.truncated))
        if step % 5 == 4:  # states that follow one another are nearly the same
            states += [simulated_state(sim, int(env), episodes[env].jobs) for env in active]
        actions = np.full(sim.num_envs, sim.layout.num_actions - 1)
        actions[active] = player.act(active, sim.obs[active], sim.mask[active])
        sim.step(actions)
        step += 1
    states = (states * STATES)[:STATES]
    jobs = sum(len(state.running) + len(state.waiting) for state in states) / len(states)
    return states, f"{jobs:.0f} jobs"


def _written(path: Path, value: msgspec.Struct) -> str:
    path.write_bytes(msgspec.json.encode(value))
    return str(path)


@contextmanager
def running(command: Sequence[str], room: Path) -> Iterator[Service]:
    """Run a service of rlsched in another process: arguments of Python without port, folder for its files."""
    ready, port = room / "service.json", free_ports(1)[0]
    ready.unlink(missing_ok=True)
    start = time.perf_counter()
    with process([*command, "--port", str(port), "--json", str(ready)], room) as child:
        while not ready.exists():
            check_alive(child, start, room)
        yield Service(port, time.perf_counter() - start)


@contextmanager
def process(arguments: Sequence[str], room: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run Python with these arguments; its output goes to `room/log`."""
    with (room / "log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for this process, which ends the child
        )
    try:
        yield child
    finally:
        child.terminate()  # a script in the background passes on that SIGINT is ignored
        child.wait(timeout=START_S)


def check_alive(child: subprocess.Popen[bytes], start: float, room: Path) -> None:
    """Wait a moment for a service that is not ready; RuntimeError: it has ended, or takes too long."""
    late = time.perf_counter() - start > START_S
    if child.poll() is not None or late:
        last = (room / "log").read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise RuntimeError(f"the service {'is not ready' if late else 'ended'}: {' '.join(last)}")
    time.sleep(0.1)


def put(service: Service, path: str, bodies: list[str], clients: int, seconds: float, room: Path) -> Load:
    """Put a load on a service from another process, after a short warm-up.

    Args:
        service: that answers.
        path: of the requests.
        bodies: files with request bodies, taken in turn.
        clients: number of concurrent clients.
        seconds: of the measured load.
        room: folder for the description of the load.
    """
    for time_s in (WARM_S, seconds):
        job = LoadJob(HOST, service.port, path, bodies, clients, time_s)
        file = room / "job.json"
        file.write_text(json.dumps(asdict(job)), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "rlsched.serve.load", str(file)], capture_output=True, check=True
        )
        load = load_of(json.loads(done.stdout))
    return load
