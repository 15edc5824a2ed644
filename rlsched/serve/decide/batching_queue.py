"""The desk of a replica: requests come in on an event loop, one thread decides, and nobody waits for ever.

What waits when the thread is free again is decided together: side by side, clusters cost a fifth of what each
costs by itself.
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
from rlsched.serve.api.requests import Sent, States
from rlsched.serve.api.schema import Answer
from rlsched.serve.decide.engine import Engine, Served
from rlsched.serve.settings import STATES_A_TIMEOUT

LEFT_BEHIND = 3
"""Threads that may hang in a policy before a replica says that it is not well."""

TIMEOUT = "timeout"

TOGETHER = 64
"""Clusters of several requests that are decided about together."""


class BusyError(RuntimeError):
    """So many requests wait that another one is not taken."""


@dataclass(eq=False)
class _Asked:
    """A request.

    Attributes:
        served: by which policy.
        sent, explain: as for `Engine.answer`.
        answer: what comes of it.
    """

    served: Served
    sent: Sent
    explain: bool
    answer: asyncio.Future[list[Answer]]


class Desk:
    """Takes requests to an engine.

    Args:
        engine: that decides.

    Attributes:
        engine: the same.
        waiting: requests that are being worked at, or wait for that.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.waiting = 0
        self._decide = _Worker("rlsched-policy", self._answer)
        self._fall_back = _Worker("rlsched-fallback", self._answer_by_heuristic)
        self._left_behind: list[_Worker] = []

    @property
    def well(self) -> bool:
        """Whether policies still come to an end."""
        self._left_behind = [worker for worker in self._left_behind if worker.busy_s > 0.0]
        return len(self._left_behind) < LEFT_BEHIND

    async def ask(self, served: Served, sent: Sent, *, explain: bool) -> list[Answer]:
        """Decide about clusters; see `Engine.answer`.

        Raises:
            BusyError: others are to be answered first.
            BadInputError: a state means nothing.
        """
        limits = self.engine.config.limits
        if self.waiting >= limits.concurrency:
            raise BusyError(f"{self.waiting} wait here")
        self.waiting += 1
        try:
            worker, patience = self._decide, limits.timeout_s * (1 + len(sent.where) // STATES_A_TIMEOUT)
            try:
                return await asyncio.wait_for(worker.put(served, sent, explain), patience)
            except TimeoutError:
                self._leave_behind(worker, served, patience)
            return await self._fall_back.put(served, sent, explain)
        finally:
            self.waiting -= 1

    def _answer(self, asked: Sequence[_Asked]) -> list[list[Answer] | BaseException]:
        """Decide about the clusters of several requests to one policy."""
        return _together(asked, self.engine.answer)

    def _answer_by_heuristic(self, asked: Sequence[_Asked]) -> list[list[Answer] | BaseException]:
        return _together(asked, partial(self.engine.fall_back, because=TIMEOUT))

    def _leave_behind(self, worker: _Worker, served: Served, patience: float) -> None:
        """Go on with another thread, if it is the policy that hangs and not the queue that is long."""
        if worker is self._decide and worker.busy_s >= patience / 2:
            self._left_behind.append(worker)
            served.renew()
            self._decide = _Worker("rlsched-policy", self._answer)
            self._decide.take_over(worker)

    def close(self) -> None:
        """Let go of threads."""
        for worker in (self._decide, self._fall_back):
            worker.close()


def _together(
    asked: Sequence[_Asked], answer: Callable[..., list[Answer]]
) -> list[list[Answer] | BaseException]:
    """(request,) what comes of each, answered together if all of them mean something."""
    first = asked[0]
    sent = first.sent
    if len(asked) > 1:
        sent = States.joined([one.sent for one in asked])
    try:
        answers = answer(first.served, sent, explain=first.explain)
    except BadInputError as error:
        if len(asked) == 1:
            return [error]
        # Whose is it? The others have nothing to do with it.
        return [part for one in asked for part in _together([one], answer)]
    ends = accumulate(len(one.sent.where) for one in asked)
    return [answers[end - len(one.sent.where) : end] for one, end in zip(asked, ends, strict=True)]


class _Worker:
    """One thread that works at what waits, together where it may.

    Args:
        name: of the thread.
        work: on some requests that may be answered together: what comes of each.
    """

    def __init__(
        self, name: str, work: Callable[[Sequence[_Asked]], list[list[Answer] | BaseException]]
    ) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._work = work
        self._waiting: deque[_Asked] = deque()
        self._began: float | None = None
        self._going_on = False

    @property
    def busy_s(self) -> float:
        """Seconds that it is at one thing; 0 where it is at none."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def put(self, served: Served, sent: Sent, explain: bool) -> asyncio.Future[list[Answer]]:
        """Ask; to be called on the event loop."""
        answer: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(served, sent, explain, answer))
        self._go_on()
        return answer

    def take_over(self, other: _Worker) -> None:
        """Work at what waits for another, which hangs."""
        self._waiting, other._waiting = other._waiting, deque()
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._waiting[0].answer.done():
            self._waiting.popleft()
        if not self._going_on and self._waiting:
            self._going_on = True
            self._pool.submit(self._run, self._some(), asyncio.get_running_loop())

    def _some(self) -> list[_Asked]:
        """What waits longest, and what may be decided about together with it."""
        first = self._waiting.popleft()
        found, count = [first], len(first.sent.where)
        while self._waiting:
            one = self._waiting[0]
            if one.answer.done():  # nobody waits for it any more
                self._waiting.popleft()
                continue
            count += len(one.sent.where)
            if one.served is not first.served or one.explain != first.explain or count > TOGETHER:
                break
            found.append(self._waiting.popleft())
        return found

    def _run(self, asked: list[_Asked], loop: asyncio.AbstractEventLoop) -> None:
        """In the thread."""
        self._began = time.monotonic()
        results: Sequence[list[Answer] | BaseException]
        try:
            results = self._work(asked)
        except BaseException as error:  # for whoever asked, not for this thread
            results = [error] * len(asked)
        self._began = None
        loop.call_soon_threadsafe(self._deliver, asked, results)

    def _deliver(self, asked: list[_Asked], results: Sequence[list[Answer] | BaseException]) -> None:
        """On the event loop."""
        for one, result in zip(asked, results, strict=True):
            if one.answer.done():  # given up
                continue
            if isinstance(result, BaseException):
                one.answer.set_exception(result)
            else:
                one.answer.set_result(result)
        self._going_on = False
        self._go_on()

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
