"""What `rlsched bench serve` measures: the service as `rlsched serve` runs it, asked by another process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
import numpy as np

import rlsched
from rlsched.cli.bench_core import Figure
from rlsched.envs.episodes import EpisodeFeed
from rlsched.errors import BadInputError
from rlsched.learn.policy import TrainedPolicy, load_policy
from rlsched.serve.api.requests import turned
from rlsched.serve.api.schema import BatchRequest, ClusterState
from rlsched.serve.artefact import example_request
from rlsched.serve.describing import describe
from rlsched.serve.load import Job, Load, load_of
from rlsched.serve.process.ports import free_ports
from rlsched.sim.simulator import VectorSimulator

HOST = "127.0.0.1"
START_S = 120.0
"""That a service may take to be ready."""

STATES = 256
"""Clusters that are asked about, in turn."""

BATCH = 1024
"""Clusters in a batch."""

BATCHES = 4
BATCH_CLIENTS = 4
WARM_S = 2.0
STOCK = "stock FastAPI + batch"


@dataclass(frozen=True)
class Service:
    """One that runs.

    Attributes:
        port: it listens at.
        started_s: until it was ready.
    """

    port: int
    started_s: float


@dataclass(frozen=True)
class Measured:
    """What came of a load.

    Attributes:
        case: what was asked.
        replicas: of the service; 0: it was the stock one.
        clients: at once.
        states: clusters in a request.
        load: what came of it.
    """

    case: str
    replicas: int
    clients: int
    states: int
    load: Load

    @property
    def per_s(self) -> float:
        """Clusters decided about in a second."""
        return self.states * self.load.answered / self.load.seconds


def measure(
    folder: Path, replicas: Sequence[int], clients: Sequence[int], seconds: float, stock: Path | None
) -> Iterator[Measured | Service]:
    """All loads, one after the other.

    Args:
        folder: of the policy.
        replicas: of services, one after the other.
        clients: at once, likewise.
        seconds: for each load.
        stock: the script of the stock service, where there is one.

    Yields:
        What came of a load; before those on a service, that it runs.
    """
    policy = load_policy(folder)
    states, source = states_of(policy)
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch)
        singles = [_written(room / f"one-{k}.json", states[k]) for k in range(0, STATES, 4)]
        turns = [[states[(k + j) % len(states)] for j in range(BATCH)] for k in range(BATCHES)]
        batches = {
            f"batches of {BATCH}": [BatchRequest(states=turn) for turn in turns],
            f"batches of {BATCH} as columns": [BatchRequest(columns=turned(turn)) for turn in turns],
        }
        bodies = {
            case: [_written(room / f"many-{number}-{k}.json", body) for k, body in enumerate(found)]
            for number, (case, found) in enumerate(batches.items())
        }
        for count in replicas:
            with running(["-m", "rlsched", "serve", str(folder), "--replicas", str(count)], room) as service:
                yield service
                for number in clients:
                    load = put(service, "/v1/decisions", singles, number, seconds, room)
                    yield Measured(f"single, {source}", count, number, 1, load)
                for case, many in bodies.items():
                    load = put(service, "/v1/decisions:batch", many, BATCH_CLIENTS, seconds, room)
                    yield Measured(f"{case}, {source}", count, BATCH_CLIENTS, BATCH, load)
        if stock is not None:
            questions = _stock_bodies(policy, room)
            with running_stock(stock, folder) as service:
                for number in clients:
                    load = put(service, "/act", questions, number, seconds, room)
                    yield Measured(STOCK, 0, number, 1, load)


def figures(found: Sequence[Measured]) -> list[Figure]:
    """In the shape of cli.md; single decisions are held against the stock service with as many clients."""
    stock = {one.clients: one for one in found if one.replicas == 0}
    told = []
    for one in found:
        many = "s" if one.replicas > 1 else ""
        where = one.case if one.replicas == 0 else f"{one.case}, {one.replicas} replica{many}"
        case = f"{where}, {one.clients} clients"
        beside = stock.get(one.clients) if one.states == 1 and one.replicas else None
        ratio = None if beside is None else one.per_s / beside.per_s
        against = None if beside is None else STOCK
        told.append(
            Figure("serve_requests_per_s", case, one.load.answered / one.load.seconds, "1/s", against, ratio)
        )
        told.append(Figure("serve_p99_ms", case, one.load.p99_ms, "ms"))
        if one.states > 1:
            told.append(Figure("serve_decisions_per_s", case, one.per_s))
    return told


def states_of(policy: TrainedPolicy) -> tuple[list[ClusterState], str]:
    """Clusters to ask about, as the policy's own episodes bring them, and in words which they are.

    Where its trace is not here, it is the example that comes with it.
    """
    try:
        feed = EpisodeFeed(policy.scenario)
    except BadInputError:
        return [example_request(policy)] * STATES, "example"
    sim = VectorSimulator(policy.scenario, feed.units, 8, feed.max_jobs)
    episodes = [feed.evaluation(k, 0) for k in range(sim.num_envs)]
    for env, episode in enumerate(episodes):
        sim.load(env, episode.jobs, episode.scale, episode.power)
    player = policy.player(sim.num_envs)
    found: list[ClusterState] = []
    step = 0
    while len(found) < STATES and not (sim.terminated | sim.truncated).all():
        asked = np.flatnonzero(~(sim.terminated | sim.truncated))
        if step % 5 == 4:  # those that follow one another are nearly the same
            found += [describe(sim, int(env), episodes[env].jobs) for env in asked]
        actions = np.full(sim.num_envs, sim.layout.num_actions - 1)
        actions[asked] = player.act(asked, sim.obs[asked], sim.mask[asked])
        sim.step(actions)
        step += 1
    found = (found * STATES)[:STATES]
    jobs = sum(len(state.running) + len(state.waiting) for state in found) / len(found)
    return found, f"{jobs:.0f} jobs"


def _written(path: Path, value: msgspec.Struct) -> str:
    path.write_bytes(msgspec.json.encode(value))
    return str(path)


def _stock_bodies(policy: TrainedPolicy, room: Path) -> list[str]:
    layout = policy.layout
    body = {"obs": np.linspace(0, 1, layout.size).round(4).tolist(), "mask": [1] * layout.num_actions}
    path = room / "stock.json"
    path.write_text(json.dumps(body), "utf-8")
    return [str(path)]


@contextmanager
def running(command: Sequence[str], room: Path) -> Iterator[Service]:
    """`rlsched serve` in a process of its own, ended at the end.

    Raises:
        RuntimeError: it does not come up.
    """
    told, port = room / "service.json", free_ports(1)[0]
    told.unlink(missing_ok=True)
    began = time.perf_counter()
    with _process([*command, "--port", str(port), "--json", str(told)], room) as process:
        while not told.exists():
            _check_alive(process, began, room)
        yield Service(port, time.perf_counter() - began)


@contextmanager
def running_stock(script: Path, folder: Path) -> Iterator[Service]:
    """The stock service, likewise."""
    with tempfile.TemporaryDirectory() as scratch:
        room, port = Path(scratch), free_ports(1)[0]
        began = time.perf_counter()
        with _process([str(script), str(folder), str(port)], room) as process:
            while "serving" not in (room / "log").read_text("utf-8", "replace"):
                _check_alive(process, began, room)
            yield Service(port, time.perf_counter() - began)


@contextmanager
def _process(arguments: Sequence[str], room: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (room / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=Path(rlsched.__file__).parents[1],
            start_new_session=True,  # Ctrl-C is for us, who end it
        )
    try:
        yield process
    finally:
        process.terminate()  # SIGINT is ignored by what a script has started in the background
        process.wait(timeout=START_S)


def _check_alive(process: subprocess.Popen[bytes], began: float, room: Path) -> None:
    late = time.perf_counter() - began > START_S
    if process.poll() is not None or late:
        last = (room / "log").read_text("utf-8", "replace").strip().splitlines()[-1:]
        raise RuntimeError(f"the service {'is not ready' if late else 'ended'}: {' '.join(last)}")
    time.sleep(0.1)


def put(service: Service, path: str, bodies: list[str], clients: int, seconds: float, room: Path) -> Load:
    """Put a load on a service from another process, after a short one that does not count."""
    for time_s in (WARM_S, seconds):
        job = Job(HOST, service.port, path, bodies, clients, time_s)
        file = room / "job.json"
        file.write_text(json.dumps(asdict(job)), "utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "rlsched.serve.load", str(file)], capture_output=True, check=True
        )
        load = load_of(json.loads(done.stdout))
    return load
