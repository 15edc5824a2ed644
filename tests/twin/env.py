"""The decision process: what is legal, when the agent is asked, what it is rewarded for."""

from __future__ import annotations

from collections.abc import Sequence

from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from rlsched.scenario.terms import terms_that_need

from .jobs import Job, Machine, Running, by_dependency, in_arrival_order, released_by
from .pools import Places
from .power import Energy
from .rules import Reservation, admissible, reserve, start_behind, visible
from .task import Task
from .terms import RATES as ALL_RATES
from .terms import Tick

RATES = {name: term for name, term in ALL_RATES.items() if name not in terms_that_need("horizon")}
EVENTS = ("throughput", "terminal_bsld", "long_waits")


class TwinEnv:
    """One episode. After `__init__` and after `step` it stands at a decision or is over.

    Attributes:
        now: tick.
        terms: unweighted reward terms of the last transition, by name.
        reward: their weighted and scaled sum.
        elapsed: ticks that the last transition took.
        terminated: it is over and nothing comes after.
        truncated: it was cut by the clock.
        starts: start tick by row of the table, -1 for jobs that have not started.
    """

    def __init__(self, scenario: Scenario, units: Sequence[int], table: JobTable, scale: float = 1.0) -> None:
        self.decision, self.objective, self.episode = scenario.decision, scenario.objective, scenario.episode
        self.window, self.scale = scenario.decision.window, scale
        self.threshold = 10 / scenario.cluster.tick_s  # 10 s in ticks
        self.longest = scenario.objective.starvation_s / scenario.cluster.tick_s
        self.machine = Machine(tuple(units))
        self.jobs = in_arrival_order(table)
        self.arriving, self.followers = by_dependency(table)
        self.waiting, self.finished = list[Job](), list[Running]()
        self.starts = [-1] * len(self.jobs)
        self.reservation: Reservation | None = None
        self.actions_since_clock = 0
        self.terminated = self.truncated = False
        self.now = self.first = self.jobs[0].submit
        self._begin_transition()
        self._process_events()
        self._go_to_ask()
        self._begin_transition()  # what passed before the first decision belongs to nobody

    # what is legal

    @property
    def visible(self) -> list[Job]:
        return visible(self.waiting, self.window)

    def legal_jobs(self) -> list[Job]:
        """The visible jobs that may be chosen."""
        if self.actions_since_clock >= self.window + 2:
            return []
        fitting = [job for job in self.visible if self.machine.fits(job)]
        if self.decision.action_rule == "fit":
            return fitting
        if self.reservation is not None:
            held = self.reservation
            return [job for job in self.visible if admissible(job, self.now, self.machine, held)]
        return self.visible if fitting else []

    def noop_legal(self) -> bool:
        """Waiting must be for something, and under `commit` behind a reservation or for want of a choice."""
        something_comes = bool(self.machine.running or self.arriving)
        free = self.decision.action_rule != "commit"
        allowed = free or self.reservation is not None or not self.legal_jobs()
        return something_comes and allowed

    @property
    def mask(self) -> list[int]:
        """1 per legal action: the slots of the window, then no-op."""
        legal = self.legal_jobs()
        slots = [int(job in legal) for job in self.visible]
        return [*slots, *[0] * (self.window - len(slots)), int(self.noop_legal())]

    def asks(self) -> bool:
        """Whether the agent has a say now."""
        mask = self.mask
        if sum(mask) >= 2:
            return True
        return not self.decision.skip_forced and (self.decision.time_rule == "tick" or any(mask[:-1]))

    # what an action does

    def step(self, action: int) -> None:
        """Take the action, then every forced one, up to the next decision or the end."""
        assert not self.over
        self._begin_transition()
        self._take(action)
        self._go_to_ask()

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    @property
    def reward(self) -> float:
        weights = self.objective.reward
        return self.scale * sum(weight * self.terms[name] for name, weight in weights.items())

    def _go_to_ask(self) -> None:
        while not self.over and not self.asks():
            assert sum(self.mask) == 1
            self._take(self.mask.index(1))

    def _take(self, action: int) -> None:
        assert self.mask[action]
        if action == self.window:
            self._let_time_pass()
        else:
            self._choose(self.visible[action])
            self.actions_since_clock += 1

    def _choose(self, job: Job) -> None:
        """Start the job, or promise it the next place."""
        if not self.machine.fits(job):
            self.reservation = reserve(job, self.now, self.machine)
            return
        if self.reservation is None:
            self.machine.start(job, self.now)
        else:
            start_behind(job, self.now, self.machine, self.reservation)
        self.waiting.remove(job)
        self.starts[job.row] = self.now

    def _let_time_pass(self) -> None:
        """One tick, or up to the next event; never beyond the last tick of the episode."""
        ends = [running.end for running in self.machine.running]
        until = self.now + 1
        if self.decision.time_rule != "tick":
            until = min(ends + [job.submit for job in self.arriving])
        if self.episode.max_ticks is not None:
            until = min(until, self.first + self.episode.max_ticks)
        while self.now < until:
            self._book_tick()
            self.now += 1
        self.actions_since_clock = 0
        self._process_events()

    def _process_events(self) -> None:
        """Completions, then arrivals, then whether it is over."""
        ended = self.machine.release(self.now)
        released, self.followers = released_by(ended, self.followers)
        self.arriving += released
        arrived = [job for job in self.arriving if job.submit <= self.now]
        self.finished += ended
        self.waiting += arrived
        self.arriving = [job for job in self.arriving if job.submit > self.now]
        if ended or arrived:
            self.reservation = None
        self._add("throughput", len(ended))
        if len(self.finished) == len(self.jobs):
            self.terminated = True
            self._add("terminal_bsld", -self._mean_bounded_slowdown())
        elif self.episode.end == "no_new_job" and not self.arriving and not self.followers:
            self.terminated = True
        elif self.episode.max_ticks is not None and self.now - self.first >= self.episode.max_ticks:
            self.truncated = True

    # what it is rewarded for

    def _begin_transition(self) -> None:
        self.terms = dict.fromkeys((*RATES, *EVENTS), 0.0)
        self.began = self.now

    @property
    def elapsed(self) -> int:
        return self.now - self.began

    def _add(self, term: str, amount: float) -> None:
        self.terms[term] += self.objective.gamma**self.elapsed * amount

    def _book_tick(self) -> None:
        """The tick that begins now; `sparse` drops the rates of all but the first of a transition."""
        self._add("long_waits", -sum(self._passes(job) for job in self.waiting))
        if self.decision.time_rule == "sparse" and self.elapsed > 0:
            return
        waiting, visible, running = (
            [Task(job, 0) for job in jobs]
            for jobs in (self.waiting, self.visible, [task.job for task in self.machine.running])
        )
        places = Places([], self.window, None, wait=waiting, running=running)
        in_scope = (visible, [], visible) if self.objective.scope == "window" else (waiting, running, waiting)
        bounds = self.threshold, self.longest
        tick = Tick(self.now, places, self.machine.units, Energy(), *in_scope, *bounds)
        for name, rate in RATES.items():
            self._add(name, rate(tick))

    def _passes(self, job: Job) -> bool:
        """Whether its wait becomes too long in the tick that begins now."""
        return self.now <= job.submit + self.longest < self.now + 1

    def _mean_bounded_slowdown(self) -> float:
        def bounded(running: Running) -> float:
            response = running.start - running.job.submit + running.job.runtime
            return max(1.0, response / max(running.job.runtime, self.threshold))

        return sum(bounded(running) for running in self.finished) / len(self.finished)
