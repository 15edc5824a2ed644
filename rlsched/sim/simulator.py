"""VectorSimulator: N environments of one scenario, stepped in one compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.power.series import PowerSeries
from rlsched.scenario import Scenario
from rlsched.scenario.terms import TERMS
from rlsched.sim.columns import COMING_JOBS
from rlsched.sim.compiled import direct
from rlsched.sim.energy import ACCOUNTS
from rlsched.sim.kernel_arguments import KernelArguments
from rlsched.sim.layout import Layout
from rlsched.sim.load import load, load_job_values, load_power
from rlsched.sim.metrics import Played, job_metrics
from rlsched.sim.outcome import Outcome
from rlsched.sim.picture import Picture
from rlsched.sim.rules import LATE_TERMS, Plant, Rules
from rlsched.sim.state import PER_ENV, allocate, starts
from rlsched.sim.transition import step_all
from rlsched.sim.view import ABSENT, LANES, View


class Playable(Protocol):
    """An episode that can be played."""

    @property
    def jobs(self) -> JobTable:
        """In submit order."""

    @property
    def power(self) -> PowerSeries | None:
        """Power series of the episode, where the scenario has power."""


def effective_prices(scenario: Scenario) -> FloatArray:
    """(resource,) value of one unit for one tick, with the workload's factor on it."""
    factor = getattr(scenario.workload, "value_scale", 1.0)
    return factor * np.array([resource.price for resource in scenario.cluster.resources])


class VectorSimulator:
    """N clusters under a scenario's decision rules, observations and objective.

    Its clusters have the given units, or less, where jobs come with a smaller cluster of their own. Each
    environment is given its episode by `load`, and is then stepped with all others by `step`. All
    arrays are views of the simulator's own memory and are overwritten by the next call.

    Attributes:
        layout: positions of the observation blocks.
        obs: (env, layout.size) float32.
        images: (env, row, column) int8, see `picture`; no environments unless observed and drawn. Where they
            are, the profile that `obs` holds in their place is not written.
        mask: (env, action) int8, 1 where legal; the no-op is last.
        reward: (env,) of the last transition.
        terms: (env, term) of the last transition, in the order of `TERMS`.
        elapsed: (env,) ticks of the last transition.
        terminated: (env,) whether the episode has ended.
        truncated: (env,) whether it was cut.
        state, outcome, rules: data of the compiled core, for reading.
        units: (env, resource) of each cluster.
        arguments: these and where observations go, as a kernel takes them.
        prices: (resource,) value of one unit for one tick.
    """

    def __init__(
        self,
        scenario: Scenario,
        units: Sequence[int],
        num_envs: int,
        max_jobs: int,
        *,
        every_term: bool = False,
        draw_images: bool = False,
    ) -> None:
        self.scenario = scenario
        self.num_envs = num_envs
        self._every_term, self._draw_images = every_term, draw_images
        self.layout = Layout.of(scenario.observation, scenario.decision, len(units))
        self.state = allocate(
            num_envs, max_jobs, units, horizon=scenario.decision.horizon or 0, linked=scenario.linked
        )
        self.rules = Rules.of(scenario, units, every_term=every_term)
        self.prices = effective_prices(scenario)
        self.outcome = Outcome.room(num_envs, scenario.decision.window, self.layout.num_actions)
        self._view = _view(num_envs, self.layout, scenario, units, self.rules.plant, draw_images)
        self._envs = np.arange(num_envs, dtype=np.uint64)
        self._no_actions = np.zeros(0, np.int64)
        self.arguments = self._kernel_arguments()
        self.obs = self._view.vector
        self.images = self._view.picture.cells
        self.mask = self.outcome.mask
        self.reward = self.outcome.reward
        self.terms = self.outcome.terms
        self.elapsed = self.outcome.elapsed
        self.terminated = self.outcome.terminated
        self.truncated = self.outcome.truncated
        self.free = self.state.free
        self.units = self.state.units

    def _kernel_arguments(self) -> KernelArguments:
        return KernelArguments(self.state, self.outcome, self.rules, self._view)

    @cached_property
    def _step_all(self) -> Callable[[KernelArguments, NDArray[np.uint64], IntArray, bool], int]:
        return direct(step_all, self.arguments, self._envs, self._no_actions, True)

    @property
    def now(self) -> IntArray:
        """(env,) clock in ticks."""
        return self.state.episodes["now"]

    def load(self, env: int, jobs: JobTable, scale: float = 1.0, power: PowerSeries | None = None) -> None:
        """Begin an episode in one environment and advance to its first decision.

        An episode in which nothing is ever to be decided is over at once.

        Args:
            env: which environment.
            jobs: in submit order, within the cluster, which is theirs where they name its units.
            scale: factor on this episode's rewards.
            power: series that feeds the episode; needed where the scenario has `power`.

        Raises:
            BadInputError: jobs that cannot be simulated.
            IndexError: there is no such environment.
            ValueError: no power where it is needed.
        """
        if not 0 <= env < self.num_envs:  # which compiled code would not notice
            raise IndexError(f"environment {env} of {self.num_envs}")
        load(self.state, env, jobs, tick_s=self.scenario.cluster.tick_s, scale=scale)
        if self.scenario.decision.tick_driven:
            load_job_values(self.state, env, jobs, self.prices)
        if self.scenario.power is not None:
            if power is None:
                raise ValueError("a scenario with power needs the power series of the episode")
            self.make_room(len(power.supply_w))
            load_power(self.state, env, power)
        self._step_all(self.arguments, self._envs[env : env + 1], self._no_actions, True)

    def make_room(self, ticks: int) -> None:
        """Make room for power series of `ticks` ticks."""
        missing = ticks - self.state.supply_w.shape[1]
        if missing > 0:
            before = self.arguments.type
            pad = ((0, 0), (0, missing))
            self.state = self.state._replace(
                supply_w=np.pad(self.state.supply_w, pad), carbon=np.pad(self.state.carbon, pad)
            )
            self.arguments = self._kernel_arguments()
            assert self.arguments.type == before  # or `_step_all` would take it for something else

    def step(self, actions: IntArray) -> None:
        """One transition of every environment; where an episode is over, nothing happens.

        Args:
            actions: (env,) each legal under `mask`.

        Raises:
            ValueError: an action is illegal, or there is not one whole number for every environment.
        """
        # Compiled code checks neither types nor shapes.
        if actions.shape != (self.num_envs,) or actions.dtype.kind not in "iu":
            raise ValueError(
                f"{actions.dtype} actions of shape {actions.shape}: give a whole number for each of "
                f"{self.num_envs} environments"
            )
        actions = np.ascontiguousarray(actions, np.int64)
        problem = self._step_all(self.arguments, self._envs, actions, False)
        if problem >= 0:
            raise ValueError(
                f"action {actions[problem]} of environment {problem} is illegal: choose one its mask allows"
            )

    def copy(self, source: IntArray) -> None:
        """Continue every environment from the state of another: its episode, clock and last transition.

        Args:
            source: (env,) environment whose state each takes over; its own number keeps its state.
        """
        changed = np.flatnonzero(source != np.arange(self.num_envs))
        for array in self._contents():
            array[changed] = array[source[changed]]

    def _contents(self) -> list[NDArray[Any]]:
        """All that says where the environments are, environment index first."""
        picture = self._view.picture
        arrays = [array for name, array in self.state._asdict().items() if name in PER_ENV]
        arrays += [*self.outcome, self._view.vector, self._view.slot_rows, self._view.num_shown]
        if len(picture.cells):
            arrays += [
                picture.cells,
                picture.used,
                picture.on,
                picture.slots,
                picture.lengths,
                picture.backlog,
            ]
        return arrays

    def __reduce__(self) -> tuple[Any, ...]:
        """Support copies, also in other processes: compiled code holds addresses, so a copy has its own."""
        state = self.state
        arguments = (self.scenario, state.most.tolist(), self.num_envs, state.jobs.shape[1])
        flags = (self._every_term, self._draw_images)
        return _restored, (arguments, flags, state.supply_w.shape[1], self._contents())

    def starts(self, env: int) -> IntArray:
        """(jobs,) start tick of every job of the episode, -1 not started."""
        return starts(self.state, env)

    def played(self, env: int, jobs: JobTable) -> Played:
        """Outcome, up to now, of the episode that was loaded with these jobs.

        Energies and the totals of terms are there in tick-driven scenarios only; terms that take a look at
        every job, where they were counted (`Rules.count_late`).
        """
        state, n = self.state, len(jobs)
        records, e = state.jobs[env, :n], state.episodes[env]
        if not self.scenario.decision.tick_driven:
            return Played.of_starts(jobs, records["start"].copy())
        done = (records["end"] >= 0) & (records["end"] <= e["now"])
        job_values = state.job_values[env, :n]
        late = () if self.rules.count_late else LATE_TERMS
        accounts = dict(zip(ACCOUNTS, self.outcome.accounts[env].tolist(), strict=True))
        if not self.rules.plant.powered:
            accounts = {name: accounts[name] for name in ("used_share", "on_share")}
        return Played(
            jobs=jobs,
            start=records["start"].copy(),
            end=np.where(done, records["end"], -1),
            suspensions=job_values["suspensions"].copy(),
            rejected=job_values["rejected"] > 0,
            ticks=int(e["now"] - e["first_submit"]),
            totals={
                name: value
                for name, value in zip(TERMS, self.outcome.totals[env].tolist(), strict=True)
                if name not in late
            },
            accounts=accounts,
        )

    def metrics(self, env: int, jobs: JobTable) -> dict[str, float]:
        """Every metric of the episode that was loaded with these jobs, up to now."""
        played = self.played(env, jobs)
        return job_metrics(played, self.units[env].tolist(), self.scenario.cluster.tick_s, self.prices)

    def queue(self, env: int) -> NDArray[np.int32]:
        """(waiting,) rows of the waiting jobs, oldest first."""
        e = self.state.episodes[env]
        return self.state.queue[env, e["queue_lo"] : e["queue_hi"]].copy()


def _restored(
    arguments: tuple[Scenario, Sequence[int], int, int],
    flags: tuple[bool, bool],
    power_ticks: int,
    contents: Sequence[NDArray[Any]],
) -> VectorSimulator:
    """A simulator that continues from the contents of another."""
    every_term, draw_images = flags
    made = VectorSimulator(*arguments, every_term=every_term, draw_images=draw_images)
    made.make_room(power_ticks)
    for target, source in zip(made._contents(), contents, strict=True):
        target[...] = source
    return made


def _view(
    num_envs: int, layout: Layout, scenario: Scenario, units: Sequence[int], plant: Plant, draw_images: bool
) -> View:
    def offset(name: str) -> int:
        block = layout.block(name)
        return ABSENT if block is None else block.offset

    drawn = draw_images and "image" in scenario.observation.blocks
    scratch = max(2 * scenario.decision.window, scenario.observation.event_horizon)
    scratch = -(-scratch // LANES) * LANES
    numbers, mantissas = np.ones(scratch, np.float32), np.ones(scratch, np.float32)
    return View(
        vector=np.zeros((num_envs, layout.size), np.float32),
        slot_rows=np.zeros((num_envs, scenario.decision.window), np.int32),
        num_shown=np.zeros(num_envs, np.int64),
        jobs_at=offset("jobs"),
        events_at=offset("event_horizon"),
        queue_at=offset("queue"),
        history_at=offset("history"),
        outlook_at=offset("outlook"),
        coming_at=offset("coming"),
        coming=np.array(COMING_JOBS),
        profile_at=ABSENT if drawn and "profile" not in scenario.observation.blocks else offset("profile"),
        supply_at=offset("supply"),
        full_w=plant.full_w,
        busy_w=plant.unit_w - plant.idle_w,
        idle_w=plant.idle_w,
        forecast_error=plant.forecast_error,
        left_over=np.zeros(layout.horizon),
        fed=np.zeros(layout.horizon + 1),
        job_columns=len(layout.features("jobs")),
        price_top=float((effective_prices(scenario) * np.asarray(units)).sum()) or 1.0,
        density_top=float(effective_prices(scenario).max()) or 1.0,
        capacity_wh=plant.capacity_wh,
        picture=Picture.room(
            num_envs if drawn else 0, units, scenario.decision, classic=scenario.observation.classic
        ),
        num_events=scenario.observation.event_horizon,
        event_columns=len(layout.features("event_horizon")),
        shares=1.0 / np.asarray(units, np.float64),
        log_time=float(1.0 / np.log2(1.0 + scenario.observation.time_scale_s / scenario.cluster.tick_s)),
        tick_s=float(scenario.cluster.tick_s),
        rows=np.zeros(scratch, np.int32),
        numbers=numbers,
        number_bits=numbers.view(np.int32),
        mantissas=mantissas,
        mantissa_bits=mantissas.view(np.int32),
    )
