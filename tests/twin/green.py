"""The decision process with a horizon: what is legal, when the agent is asked, what an action does."""

from __future__ import annotations

from collections.abc import Sequence

from rlsched.jobs import JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario

from .datacenter import Datacenter
from .grid import Grid, first_row, fits_at
from .pools import refill
from .task import Task, least_worth


class TwinGreen(Datacenter):
    """One episode. After `__init__` and after `step` it stands at a decision or is over.

    Attributes, beside those of the datacenter:
        terms: unweighted reward terms of the last transition, by name.
        reward: their weighted and scaled sum.
        elapsed: ticks that the last transition took.
        totals: terms since the start of the episode: every tick, every event, no discount.
        energies: likewise kWh of each flow, and `carbon_kg`.
    """

    def __init__(
        self,
        scenario: Scenario,
        units: Sequence[int],
        table: JobTable,
        power: PowerSeries | None,
        scale: float = 1.0,
    ) -> None:
        super().__init__(scenario, units, table, power)
        self.scale, self.actions_since_clock = scale, 0
        self.ledger.begin_transition(self.now)
        self.enter_tick()
        self._go_to_ask()
        self.ledger.begin_transition(self.now)  # what passed before the first decision belongs to nobody

    # what it was rewarded for

    @property
    def terms(self) -> dict[str, float]:
        return self.ledger.terms

    @property
    def totals(self) -> dict[str, float]:
        return self.ledger.totals

    @property
    def energies(self) -> dict[str, float]:
        return self.ledger.energies

    @property
    def elapsed(self) -> int:
        return self.now - self.ledger.began

    @property
    def reward(self) -> float:
        weights = self.objective.reward
        return self.scale * sum(weight * self.terms[name] for name, weight in weights.items())

    # what is legal

    def place_for(self, task: Task, used: Grid) -> int | None:
        """The row at which the job would be placed, None where it may not be chosen."""
        if self.decision.placement == "horizon":
            row = first_row(task, used, self.on)
        else:
            row = 0 if fits_at(task, 0, used, self.on) else None
        return None if row is None or self.too_late(task, row) else row

    def may_be_suspended(self) -> list[Task]:
        """The running jobs that the agent may suspend the least worthy of."""
        room = len(self.places.suspended) < self.decision.suspend_pool
        if not self.decision.suspend or not room:
            return []
        return [task for task in self.places.running if task.begin < self.now]

    @property
    def mask(self) -> list[int]:
        """1 per legal action: the slots of the ready pool, suspend, no-op."""
        legal = [0] * (self.window + 1)
        if self.actions_since_clock < self.window + 2:
            used = self.used
            for position, task in enumerate(self.places.ready):
                legal[position] = int(self.place_for(task, used) is not None)
            legal[self.window] = int(bool(self.may_be_suspended()))
        something_comes = bool(self.places.running or self.places.planned or self.places.coming)
        return [*legal, int(something_comes or not any(legal))]

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
        self.ledger.begin_transition(self.now)
        self._take(action)
        self._go_to_ask()

    def _go_to_ask(self) -> None:
        while not self.over and not self.asks():
            assert sum(self.mask) == 1
            self._take(self.mask.index(1))

    def _take(self, action: int) -> None:
        assert self.mask[action]
        if action == self.window + 1:
            self.pass_tick()
            self.actions_since_clock = 0
            return
        before = self.expected_value
        if action == self.window:
            self.suspend(least_worth(self.may_be_suspended()))
        else:
            self._place(self.places.ready[action])
        self._add("started_value", self.expected_value - before)
        refill(self.places, self.decision.admission)
        self.actions_since_clock += 1

    def _place(self, task: Task) -> None:
        row = self.place_for(task, self.used)
        assert row is not None
        self.places.ready.remove(task)
        task.begin = self.now + row
        if row == 0:
            self.start(task)
        else:
            self.places.planned.append(task)
