"""The batching queue of a replica: an event loop takes requests, and one thread decides.

Each wait has a limit.

Requests that wait when the thread becomes free are decided together: in a batch, a cluster costs a fifth of
what it costs alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from rlsched.errors import BadInputError
from rlsched.serve.api.requests import num_clusters
from rlsched.serve.api.schema import Answer, BatchRequest
from rlsched.serve.decide.policy_store import LoadedPolicy
from rlsched.serve.settings import STATES_A_TIMEOUT, ServeLimits

MAX_HUNG_THREADS = 3  # threads that may hang in a policy before a replica reports that it is unhealthy
TIMEOUT = "timeout"  # reason in answers: the policy did not decide in time
MAX_JOINED = 64  # clusters of several requests that are decided together


class BusyError(RuntimeError):
    """Too many requests wait; the next one is refused."""


@dataclass(eq=False)
class _Entry:
    """A request in the queue, its number of clusters, and a future of its answers."""

    loaded: LoadedPolicy
    request: BatchRequest
    clusters: int
    answers: asyncio.Future[list[Answer]]


class BatchingQueue:
    """Queues requests for the threads that decide."""

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self.pending = 0  # requests that are decided or wait
        self._policy_worker = _Worker("rlsched-policy")
        self._heuristic_worker = _Worker("rlsched-fallback", failure=TIMEOUT)
        self._hung: list[_Worker] = []

    @property
    def healthy(self) -> bool:
        """Whether policies still finish."""
        self._hung = [worker for worker in self._hung if worker.busy_s > 0.0]
        return len(self._hung) < MAX_HUNG_THREADS

    async def submit(self, loaded: LoadedPolicy, request: BatchRequest) -> list[Answer]:
        """Queue a request and wait for its answers; see `LoadedPolicy.decide`.

        Raises:
            BusyError: too many requests wait.
            BadInputError: a state is invalid.
        """
        if self.pending >= self._limits.concurrency:
            raise BusyError(f"{self.pending} wait here")
        self.pending += 1
        try:
            worker, clusters = self._policy_worker, num_clusters(request)
            timeout_s = self._limits.timeout_s * (1 + clusters // STATES_A_TIMEOUT)
            try:
                return await asyncio.wait_for(worker.put(loaded, request, clusters), timeout_s)
            except TimeoutError:
                self._replace_if_hung(worker, loaded, timeout_s)
            return await self._heuristic_worker.put(loaded, request, clusters)
        finally:
            self.pending -= 1

    def _replace_if_hung(self, worker: _Worker, loaded: LoadedPolicy, timeout_s: float) -> None:
        """Use another thread if the policy hangs, and not if the queue is long."""
        if worker is self._policy_worker and worker.busy_s >= timeout_s / 2:
            self._hung.append(worker)
            loaded.inference = loaded.inference.copy()  # the hanging thread may keep the old one
            self._policy_worker = _Worker("rlsched-policy")
            self._policy_worker.take_over(worker)

    def close(self) -> None:
        """Release the threads."""
        for worker in (self._policy_worker, self._heuristic_worker):
            worker.close()


class _Worker:
    """One thread and its queue; failure: as for `LoadedPolicy.decide`."""

    def __init__(self, name: str, failure: str = "") -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._failure = failure
        self._queue: deque[_Entry] = deque()
        self._began: float | None = None
        self._running = False

    @property
    def busy_s(self) -> float:
        """Seconds since the thread began its present work; 0 if it is idle."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def put(self, loaded: LoadedPolicy, request: BatchRequest, clusters: int) -> asyncio.Future[list[Answer]]:
        """Queue a request; call it on the event loop."""
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Entry(loaded, request, clusters, answers))
        self._decide_next()
        return answers

    def take_over(self, hung: _Worker) -> None:
        """Take the queue of a worker that hangs."""
        self._queue, hung._queue = hung._queue, deque()
        self._decide_next()

    def _decide_next(self) -> None:
        while self._queue and self._queue[0].answers.done():
            self._queue.popleft()
        if not self._running and self._queue:
            self._running = True
            self._pool.submit(self._decide, self._joinable(), asyncio.get_running_loop())

    def _joinable(self) -> list[_Entry]:
        """The oldest request, and later ones that may be decided together with it."""
        first = self._queue.popleft()
        entries, clusters = [first], first.clusters
        while self._queue:
            entry = self._queue[0]
            if entry.answers.done():  # its client waits no more
                self._queue.popleft()
                continue
            clusters += entry.clusters
            same = entry.loaded is first.loaded and entry.request.explain == first.request.explain
            if not same or clusters > MAX_JOINED:
                break
            entries.append(self._queue.popleft())
        return entries

    def _decide(self, entries: list[_Entry], loop: asyncio.AbstractEventLoop) -> None:
        """Decide in the thread, together if all requests are valid; errors are for the clients."""
        self._began = time.monotonic()
        results: list[list[Answer] | BaseException] = []
        groups = [entries]
        while groups:
            group = groups.pop(0)
            first, requests = group[0], [entry.request for entry in group]
            try:
                answers = first.loaded.decide(requests, explain=first.request.explain, failure=self._failure)
            except BaseException as error:
                if len(group) > 1 and isinstance(error, BadInputError):
                    # One request is invalid; the others still get their answers.
                    groups = [[entry] for entry in group]
                else:
                    results += [error] * len(group)
            else:
                remaining = iter(answers)
                results += [[*islice(remaining, entry.clusters)] for entry in group]
        self._began = None
        loop.call_soon_threadsafe(self._deliver, entries, results)

    def _deliver(self, entries: list[_Entry], results: list[list[Answer] | BaseException]) -> None:
        """Set the futures, on the event loop."""
        for entry, result in zip(entries, results, strict=True):
            if entry.answers.done():  # timed out
                continue
            if isinstance(result, BaseException):
                entry.answers.set_exception(result)
            else:
                entry.answers.set_result(result)
        self._running = False
        self._decide_next()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
