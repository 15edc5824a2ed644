"""A green datacenter without anybody who decides: its jobs, its power, and the steps of a tick.

The rules are those of `docs/reference/green-rules.md`; the steps are methods in its order.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario

from .grid import Grid, holders, overfull, used_by
from .jobs import in_arrival_order
from .ledger import Ledger
from .pools import Places, arrive, refill, suspend, take_back
from .power import Energy, Plant
from .task import Task, added, least_worth, worth
from .terms import Tick, mean_bounded_slowdown, units_of


def rows(tasks: Sequence[Task]) -> list[int]:
    """Where the jobs stand in the table."""
    return [task.job.row for task in tasks]


class Datacenter:
    """One episode, standing at its first submit before anything has happened.

    Attributes:
        now: tick.
        terminated: it is over and nothing comes after.
        truncated: it was cut by the clock.
        ready, wait, suspended: rows of the table, in the order of the list.
        planned, running, rejected: rows of the table, ascending.
        starts: tick of the first start by row of the table, -1 for jobs that have not started.
        ends: tick at which the job was finished by row, -1 for others.
        suspensions: how often, by row.
        used, on: units that are held and that are (forecast to be) on, [row of the grid][resource].
        battery_wh: level of the battery, 0 without one.
    """

    def __init__(
        self, scenario: Scenario, units: Sequence[int], table: JobTable, power: PowerSeries | None
    ) -> None:
        self.decision, self.objective, self.episode = scenario.decision, scenario.objective, scenario.episode
        assert self.decision.tick_driven
        assert (power is None) == (scenario.power is None)
        self.horizon, self.window, self.units = self.decision.horizon, self.decision.window, tuple(units)
        self.threshold = 10 / scenario.cluster.tick_s  # 10 s in ticks
        self.starvation = self.objective.starvation_s / scenario.cluster.tick_s
        jobs = in_arrival_order(table)
        longest = max(job.requested for job in jobs)
        assert self.episode.end != "all_finished" or longest <= self.horizon, "it would never end"
        prices = [resource.price for resource in scenario.cluster.resources]
        value_scale = getattr(scenario.workload, "value_scale", 1.0)
        tasks = [Task(job, worth(job, prices, value_scale)) for job in jobs]
        self.places = Places(tasks, self.window, self.decision.wait_pool)
        self.starts, self.ends, self.suspensions = ([n] * len(jobs) for n in (-1, -1, 0))
        self.ledger = Ledger(self.objective.gamma, self.decision.time_rule == "sparse")
        self.terminated = self.truncated = False
        self.now = self.first = jobs[0].submit
        self.plant = None if power is None else Plant(scenario, units, power, self.first)

    # what can be seen

    ready = property(lambda self: rows(self.places.ready))
    wait = property(lambda self: rows(self.places.wait))
    suspended = property(lambda self: rows(self.places.suspended))
    planned = property(lambda self: sorted(rows(self.places.planned)))
    running = property(lambda self: sorted(rows(self.places.running)))
    rejected = property(lambda self: sorted(rows(self.places.rejected)))

    @property
    def used(self) -> Grid:
        """Rows are never kept: what the running and the planned jobs hold is looked up anew."""
        holding = self.places.running + self.places.planned
        return used_by(holding, self.now, self.horizon, len(self.units))

    @property
    def expected_value(self) -> float:
        """What runs and is planned is expected to bring, discounted; nothing where nothing comes after."""
        if self.terminated:
            return 0.0
        return added(
            task.value * self.ledger.gamma ** (task.expected_end(self.now) - self.now)
            for task in self.places.running + self.places.planned
        )

    @property
    def battery_wh(self) -> float:
        return self.plant.level if self.plant else 0.0

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    # what happens when the clock has moved

    def enter_tick(self) -> None:
        """What happens before anybody decides."""
        self._complete()
        self._look_ahead()
        self._meet_shortfall()
        self._undo_plans()
        refill(self.places, self.decision.admission)
        self._start_planned()
        self._expire()
        refill(self.places, self.decision.admission)
        self._let_arrive()
        self._judge_end()

    def pass_tick(self) -> None:
        """9. The tick is booked, the clock moves."""
        self._book_tick()
        nearer = self.expected_value / self.ledger.gamma
        done = len(self.places.finished)
        self.now += 1
        self.enter_tick()
        finished = added(task.value for task in self.places.finished[done:])
        self._add("started_value", self.expected_value + finished - nearer)

    def _complete(self) -> None:
        """1. Running jobs end by what they really take."""
        for task in [task for task in self.places.running if task.end <= self.now]:
            self.places.running.remove(task)
            self.places.finished.append(task)
            self.ends[task.job.row] = self.now
            self._add("throughput", 1)
            self._add("finished_value", task.value)
            self._add("on_time_value", task.value if self.now <= task.due else 0.0)

    def _look_ahead(self) -> None:
        """2. Units on in every row, forecast anew."""
        if self.plant is None:
            self.on = [list(self.units) for _ in range(self.horizon)]
        else:
            self.on = [self.plant.units_on(share) for share in self.plant.forecast(self.now, self.horizon)]

    def _meet_shortfall(self) -> None:
        """3. Running jobs stop until the rest fits, the least worthy first."""
        while short := self._short_of():
            hold_some = [task for task in self.places.running if any(task.job.demand[r] > 0 for r in short)]
            self.suspend(least_worth(hold_some))

    def _short_of(self) -> list[int]:
        """Resources of which the running jobs hold more than is on."""
        held = units_of(self.places.running, self.units)
        return [r for r, on in enumerate(self.on[0]) if held[r] > on]

    def _undo_plans(self) -> None:
        """4. Planned jobs are taken back until no cell is overfull that a plan is to blame for."""
        while blamed := holders(self.places.planned, overfull(self.used, self.on), self.now, self.horizon):
            take_back(least_worth(blamed), self.places)

    def _start_planned(self) -> None:
        """5. Jobs whose planned tick has come, by row."""
        for task in sorted(self.places.planned, key=lambda task: task.job.index):
            if task.begin == self.now:
                self.places.planned.remove(task)
                self.start(task)

    def _expire(self) -> None:
        """6. Jobs of the pools that are no longer worth running are given up."""
        if self.decision.expiry is None:
            return
        for pool in (self.places.ready, self.places.wait):
            for task in [task for task in pool if self._expires(task)]:
                pool.remove(task)
                self.places.rejected.append(task)
                self._book_rejection(task)

    def _expires(self, task: Task) -> bool:
        """Whether it is late, or would be if it started now."""
        last = task.due + (self.decision.expiry or 0)
        return self.now > last or self.too_late(task, 0)

    def too_late(self, task: Task, row: int) -> bool:
        """Whether it must end in time, and would not if it started in this row."""
        if self.decision.expiry_rule == "violation":
            return False
        assert self.decision.expiry is not None
        return self.now + row + task.requested > task.due + self.decision.expiry

    def _let_arrive(self) -> None:
        """7. Into the pools, while they have room."""
        for task in [task for task in self.places.coming if task.job.submit <= self.now]:
            arrive(task, self.places)
            if task in self.places.rejected:
                self._book_rejection(task)

    def _judge_end(self) -> None:
        """8. Whether it is over."""
        places, limit = self.places, self.episode.max_ticks
        if len(places.finished) + len(places.rejected) == len(self.starts):
            self.terminated = True
            if places.finished:
                ended = [(task, self.ends[task.job.row]) for task in places.finished]
                self._add("terminal_bsld", -mean_bounded_slowdown(ended, self.threshold))
        elif self.episode.end == "no_new_job" and not places.coming:
            self.terminated = True
        elif limit is not None and self.now - self.first >= limit:
            self.truncated = True

    # what becomes of a job

    def start(self, task: Task) -> None:
        """The job runs from now on."""
        assert task.begin == self.now >= task.job.submit
        self.places.running.append(task)
        if self.starts[task.job.row] < 0:
            self.starts[task.job.row] = self.now

    def suspend(self, task: Task) -> None:
        suspend(task, self.places, self.now)
        self.suspensions[task.job.row] += 1
        self._add("suspension", -1)

    # what it is rewarded for

    def _add(self, term: str, amount: float) -> None:
        self.ledger.book_event(term, amount, self.now)

    def _book_rejection(self, task: Task) -> None:
        self._add("rejected", -1)
        self._add("lost_value", -task.value)

    def _book_tick(self) -> None:
        """The tick that ends now; the battery's level changes."""
        energy, places = Energy(), self.places
        if self.plant is not None:
            energy = self.plant.pass_tick(self.now, self.on[0], units_of(places.running, self.units))
        window = self.objective.scope == "window"
        in_scope = (places.ready, []) if window else (places.waiting, places.running)
        self._add("long_waits", -sum(self._passes(task) for task in places.waiting))
        bounds = self.threshold, self.starvation
        self.ledger.book_tick(Tick(self.now, places, self.units, energy, *in_scope, places.waiting, *bounds))

    def _passes(self, task: Task) -> bool:
        """Whether its wait becomes too long in the tick that ends now."""
        return self.now <= task.job.submit + self.starvation < self.now + 1
