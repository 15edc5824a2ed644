"""Rules of a scenario for all environments of a vector, as plain numbers that compiled code reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlsched.jobs import FloatArray
from rlsched.scenario import Power, Scenario
from rlsched.scenario.terms import TERMS, terms_that_need

LATE_TERMS = terms_that_need("every_job")
"""Terms that take a look at every job, and are counted only where they are needed."""

ALL_FINISHED, NO_NEW_JOB, MAX_TICKS = range(3)
ENDS = {"all_finished": ALL_FINISHED, "no_new_job": NO_NEW_JOB, "max_ticks": MAX_TICKS}

FCFS, SJF, QOS, HVF = range(4)
ADMISSIONS = {"fcfs": FCFS, "sjf": SJF, "qos": QOS, "hvf": HVF}

NO_LIMIT = 1 << 40
"""Stands for a pool without a size and for jobs that are never given up."""


class Plant(NamedTuple):
    """Power between supply and cluster, in watts and watt-hours; see docs/reference/green-rules.md."""

    powered: bool  # energy is counted
    unit_w: FloatArray  # (resource,) of a unit that runs a job
    idle_w: FloatArray  # (resource,) of a unit that is on and idle
    full_w: float  # of all units running
    tick_h: float
    charge_w: float
    discharge_w: float
    capacity_wh: float
    initial_wh: float
    efficiency: float
    grid_w: float
    forecast_error: float

    @classmethod
    def of(cls, scenario: Scenario, units: Sequence[int]) -> Plant:
        """The plant of a scenario on a cluster of these units."""
        power = scenario.power or Power()
        resources = scenario.cluster.resources
        idle = np.array([resource.idle_w for resource in resources])
        running = np.array([r.idle_w + (r.full_w - r.idle_w) * power.utilization for r in resources])
        battery = power.battery
        return cls(
            powered=scenario.power is not None,
            unit_w=running,
            idle_w=idle,
            full_w=float(sum(count * watts for count, watts in zip(units, running, strict=True))),
            tick_h=scenario.cluster.tick_s / 3600.0,
            charge_w=battery.charge_kw * 1000.0 if battery else 0.0,
            discharge_w=battery.discharge_kw * 1000.0 if battery else 0.0,
            capacity_wh=battery.capacity_kwh * 1000.0 if battery else 0.0,
            initial_wh=battery.capacity_kwh * 1000.0 * battery.initial if battery else 0.0,
            efficiency=battery.efficiency if battery else 1.0,
            grid_w=power.grid_kw * 1000.0,
            forecast_error=power.forecast_error,
        )


class Rules(NamedTuple):
    """Rules of decisions and rewards."""

    window: int  # slots
    commit: bool  # a job that does not fit may be chosen and gets a reservation
    may_noop: bool  # the no-op is legal where nothing is reserved, too
    tick_rule: bool  # the no-op advances one tick, not to the next event
    sparse: bool  # rates are earned for the first tick of a transition only
    skip_forced: bool  # no decision where one action is legal
    gamma: float  # discount per tick within a transition
    discounts: FloatArray  # (ticks,) of a value that comes so many ticks later, at most the horizon
    window_scope: bool  # only visible jobs count as waiting
    end: int
    max_ticks: int
    weights: FloatArray  # (term,) of the reward
    num_actions: int  # the no-op is the last
    plan_ahead: bool  # a job may be planned for a later row
    suspend: bool
    suspend_pool: int
    wait_pool: int
    admission: int
    expiry: int  # ticks past due
    latest_start: bool  # jobs expire as soon as they cannot end by then
    starvation: float  # ticks
    count_late: bool  # the terms of LATE_TERMS are counted
    plant: Plant

    @classmethod
    def of(cls, scenario: Scenario, units: Sequence[int], *, every_term: bool = False) -> Rules:
        """The rules of a scenario.

        Args:
            scenario: to be simulated.
            units: (resource,) units of the cluster.
            every_term: in tick-driven scenarios, count `LATE_TERMS` even where no reward or cost needs them.
        """
        decision, objective, episode = scenario.decision, scenario.objective, scenario.episode
        weights = {str(term): weight for term, weight in objective.reward.items()}
        every_term = every_term and decision.tick_driven  # without, totals follow from starts
        return cls(
            window=decision.window,
            commit=decision.action_rule != "fit",
            may_noop=decision.action_rule != "commit",
            tick_rule=decision.time_rule == "tick",
            sparse=decision.time_rule == "sparse",
            skip_forced=decision.skip_forced,
            gamma=objective.gamma,
            discounts=objective.gamma ** np.arange((decision.horizon or 0) + 1.0),
            window_scope=objective.scope == "window",
            end=ENDS[episode.end],
            max_ticks=episode.max_ticks or 0,
            weights=np.array([weights.get(term, 0.0) for term in TERMS]),
            num_actions=decision.num_actions,
            plan_ahead=decision.placement == "horizon",
            suspend=decision.suspend,
            suspend_pool=decision.suspend_pool,
            wait_pool=NO_LIMIT if decision.wait_pool is None else decision.wait_pool,
            admission=ADMISSIONS[decision.admission],
            expiry=NO_LIMIT if decision.expiry is None else decision.expiry,
            latest_start=decision.expiry_rule == "latest_start",
            starvation=objective.starvation_s / scenario.cluster.tick_s,
            count_late=every_term or bool(LATE_TERMS & {*objective.reward, *objective.costs}),
            plant=Plant.of(scenario, units),
        )
