"""The batching queue of a replica: an event loop takes requests, and one thread decides.

Each wait has a limit.

Requests that wait when the thread becomes free are decided together: in a batch, a cluster costs a fifth of
what it costs alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from rlsched.errors import BadInputError
from rlsched.serve.api.requests import Request, num_clusters
from rlsched.serve.api.schema import Answer
from rlsched.serve.decide.engine import Engine, LoadedPolicy
from rlsched.serve.settings import STATES_A_TIMEOUT

MAX_HUNG_THREADS = 3
"""Threads that may hang in a policy before a replica reports that it is unhealthy."""

TIMEOUT = "timeout"

MAX_JOINED = 64
"""Clusters of several requests that are decided together."""


class BusyError(RuntimeError):
    """Too many requests wait; the next one is refused."""


@dataclass(eq=False)
class _Entry:
    """A request in the queue.

    Attributes:
        loaded: its policy.
        request, explain: as for `Engine.answer`.
        answers: a future of its answers.
    """

    loaded: LoadedPolicy
    request: Request
    explain: bool
    answers: asyncio.Future[list[Answer]]

    @property
    def clusters(self) -> int:
        return num_clusters(self.request)


Result = list[Answer] | BaseException


class BatchingQueue:
    """Queues requests for an engine.

    Args:
        engine: decides.

    Attributes:
        engine: the same.
        pending: requests that are decided or wait.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.pending = 0
        self._policy_worker = _Worker("rlsched-policy", self._answer)
        self._heuristic_worker = _Worker("rlsched-fallback", self._answer_by_heuristic)
        self._hung: list[_Worker] = []

    @property
    def healthy(self) -> bool:
        """Whether policies still finish."""
        self._hung = [worker for worker in self._hung if worker.busy_s > 0.0]
        return len(self._hung) < MAX_HUNG_THREADS

    async def answer(self, loaded: LoadedPolicy, request: Request, *, explain: bool) -> list[Answer]:
        """Decide about the clusters of a request; see `Engine.answer`.

        Raises:
            BusyError: too many requests wait.
            BadInputError: a state is invalid.
        """
        limits = self.engine.config.limits
        if self.pending >= limits.concurrency:
            raise BusyError(f"{self.pending} wait here")
        self.pending += 1
        try:
            worker = self._policy_worker
            timeout_s = limits.timeout_s * (1 + num_clusters(request) // STATES_A_TIMEOUT)
            try:
                return await asyncio.wait_for(worker.put(loaded, request, explain), timeout_s)
            except TimeoutError:
                self._replace_if_hung(worker, loaded, timeout_s)
            return await self._heuristic_worker.put(loaded, request, explain)
        finally:
            self.pending -= 1

    def _answer(self, entries: Sequence[_Entry]) -> list[Result]:
        return _joint_answers(entries, self.engine.answer)

    def _answer_by_heuristic(self, entries: Sequence[_Entry]) -> list[Result]:
        return _joint_answers(entries, partial(self.engine.fall_back, because=TIMEOUT))

    def _replace_if_hung(self, worker: _Worker, loaded: LoadedPolicy, timeout_s: float) -> None:
        """Use another thread if the policy hangs, and not if the queue is long."""
        if worker is self._policy_worker and worker.busy_s >= timeout_s / 2:
            self._hung.append(worker)
            loaded.replace_inference()
            self._policy_worker = _Worker("rlsched-policy", self._answer)
            self._policy_worker.take_over(worker)

    def close(self) -> None:
        """Release the threads."""
        for worker in (self._policy_worker, self._heuristic_worker):
            worker.close()


def _joint_answers(entries: Sequence[_Entry], answer: Callable[..., list[Answer]]) -> list[Result]:
    """(request,) answers, made together if all requests are valid."""
    first = entries[0]
    try:
        answers = answer(first.loaded, [entry.request for entry in entries], explain=first.explain)
    except BadInputError as error:
        if len(entries) == 1:
            return [error]
        # One request is invalid; the others still get their answers.
        return [result for entry in entries for result in _joint_answers([entry], answer)]
    ends = accumulate(entry.clusters for entry in entries)
    return [answers[end - entry.clusters : end] for entry, end in zip(entries, ends, strict=True)]


class _Worker:
    """One thread and its queue.

    Args:
        name: of the thread.
        work: from requests that may be joined to the result of each.
    """

    def __init__(self, name: str, work: Callable[[Sequence[_Entry]], list[Result]]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._work = work
        self._queue: deque[_Entry] = deque()
        self._began: float | None = None
        self._running = False

    @property
    def busy_s(self) -> float:
        """Seconds since the thread began its present work; 0 if it is idle."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def put(self, loaded: LoadedPolicy, request: Request, explain: bool) -> asyncio.Future[list[Answer]]:
        """Queue a request; call it on the event loop."""
        answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Entry(loaded, request, explain, answers))
        self._run_next()
        return answers

    def take_over(self, hung: _Worker) -> None:
        """Take the queue of a worker that hangs."""
        self._queue, hung._queue = hung._queue, deque()
        self._run_next()

    def _run_next(self) -> None:
        while self._queue and self._queue[0].answers.done():
            self._queue.popleft()
        if not self._running and self._queue:
            self._running = True
            self._pool.submit(self._run, self._joinable(), asyncio.get_running_loop())

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
            same = entry.loaded is first.loaded and entry.explain == first.explain
            if not same or clusters > MAX_JOINED:
                break
            entries.append(self._queue.popleft())
        return entries

    def _run(self, entries: list[_Entry], loop: asyncio.AbstractEventLoop) -> None:
        """Work in the thread."""
        self._began = time.monotonic()
        results: Sequence[Result]
        try:
            results = self._work(entries)
        except BaseException as error:  # for the clients, not for this thread
            results = [error] * len(entries)
        self._began = None
        loop.call_soon_threadsafe(self._deliver, entries, results)

    def _deliver(self, entries: list[_Entry], results: Sequence[Result]) -> None:
        """Set the futures, on the event loop."""
        for entry, result in zip(entries, results, strict=True):
            if entry.answers.done():  # timed out
                continue
            if isinstance(result, BaseException):
                entry.answers.set_exception(result)
            else:
                entry.answers.set_result(result)
        self._running = False
        self._run_next()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
