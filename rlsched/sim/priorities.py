"""Priority functions: rules by which queues are served today. The smallest key goes first.

Ties go by submit time, then by id: a queue holds its jobs in that order, and of equal keys the first wins.
Most keys never change while a job waits and are computed once, for all jobs; those that change with the
clock or the free units are computed by `moving_key` inside the compiled core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2, log10
from typing import NamedTuple

import numpy as np

from rlsched.errors import BadInputError
from rlsched.jobs import FloatArray, IntArray, JobTable
from rlsched.sim.compiled import shared, step
from rlsched.sim.state import State

STATIC, XFACTOR, WFP3, UNICEP, PACKING = range(5)
NOT_BY_SUBMIT, LINEAR, F1 = range(3)


class Site(NamedTuple):
    """Properties of the cluster that a priority function may use."""

    units: FloatArray  # (resource,)
    prices: FloatArray  # (resource,) value of a unit for a tick


Key = Callable[[JobTable, Site], FloatArray]


@dataclass(frozen=True)
class Priority:
    """A priority function of waiting jobs.

    Attributes:
        name: its name on the command line.
        doc: formula and source.
        key: (jobs, site) -> (jobs,) keys, where they never change; else None.
        moving: which of the keys of `moving_key` it is, STATIC where `key` says it all.
        in_queue_order: the keys are sorted as the queue is, so that the first job is the best one.
        by_submit: dependence of the key on the submit time, needed with `dependencies=follow`, where submit
            times are not known beforehand: NOT_BY_SUBMIT, LINEAR (a summand) or F1 (as in that rule).
    """

    name: str
    doc: str
    key: Key | None = None
    moving: int = STATIC
    in_queue_order: bool = False
    by_submit: int = NOT_BY_SUBMIT


def _share(jobs: JobTable, site: Site) -> FloatArray:
    return (jobs.demand / site.units).sum(axis=1)


def _due(jobs: JobTable, site: Site) -> FloatArray:
    return jobs.submit + jobs.requested / jobs.qos


def _value_rate(jobs: JobTable, site: Site) -> FloatArray:
    return (jobs.demand * site.prices).sum(axis=1) * jobs.qos


def _f1(jobs: JobTable, site: Site) -> FloatArray:
    return np.log10(jobs.requested) * jobs.demand[:, 0] + 870 * np.log10(np.maximum(jobs.submit, 0.1))


def _submit(jobs: JobTable, site: Site) -> FloatArray:
    return jobs.submit.astype(np.float64)


def _requested(jobs: JobTable, site: Site) -> FloatArray:
    return jobs.requested.astype(np.float64)


def _qos(jobs: JobTable, site: Site) -> FloatArray:
    return jobs.qos


def _product(first: Key, second: Key) -> Key:
    return lambda jobs, site: first(jobs, site) * second(jobs, site)


def _most(key: Key) -> Key:
    return lambda jobs, site: -key(jobs, site)


def _density(jobs: JobTable, site: Site) -> FloatArray:
    return _value_rate(jobs, site) / _share(jobs, site)


def _slack(jobs: JobTable, site: Site) -> FloatArray:
    return _due(jobs, site) - jobs.requested


PRIORITIES: dict[str, Priority] = {
    rule.name: rule
    for rule in (
        Priority("fcfs", "submit time", _submit, in_queue_order=True, by_submit=LINEAR),
        Priority("sjf", "requested time, shortest first", _requested),
        Priority("ljf", "requested time, longest first", _most(_requested)),
        Priority("smallest", "share = sum of demand / units, smallest first", _share),
        Priority("largest", "share, largest first", _most(_share)),
        Priority("area", "share x requested, smallest first", _product(_share, _requested)),
        Priority("qos", "quality of service, highest first [Venkataswamy 2023]", _most(_qos)),
        Priority(
            "hvf",
            "demand x price x qos x requested first [Venkataswamy 2023]",
            _most(_product(_value_rate, _requested)),
        ),
        Priority("value_density", "value per share and tick, highest first", _most(_density)),
        Priority(
            "edf", "qos violation time = submit + requested / qos, earliest first", _due, by_submit=LINEAR
        ),
        Priority("least_slack", "qos violation time - requested, earliest first", _slack, by_submit=LINEAR),
        Priority(
            "f1",
            "log10(requested) x procs + 870 log10(submit) [Carastan-Santos and de Camargo 2017]",
            _f1,
            by_submit=F1,
        ),
        Priority("xfactor", "-wait / requested: highest expansion factor first", moving=XFACTOR),
        Priority("wfp3", "-(wait / requested)^3 x procs [Tang et al. 2009]", moving=WFP3),
        Priority("unicep", "-wait / (log2(procs) x requested) [Tang et al. 2009]", moving=UNICEP),
        Priority("packing", "-sum of demand x free, as shares [Grandl et al. 2014]", moving=PACKING),
        Priority("random", "a random order, drawn once per episode from its seed"),
    )
}


def priority(name: str) -> Priority:
    """The priority function of that name.

    Raises:
        BadInputError: there is none.
    """
    if name not in PRIORITIES:
        raise BadInputError("--policy", f"unknown policy {name!r}", f"use one of {', '.join(PRIORITIES)}")
    return PRIORITIES[name]


def static_keys(
    rule: Priority,
    jobs: JobTable,
    units: Sequence[int] | IntArray,
    seed: int,
    prices: FloatArray | None = None,
) -> FloatArray:
    """(jobs,) keys of a priority function that never change; zeros where they move with the clock."""
    if rule.key is not None:
        total = jobs.cluster(units).astype(np.float64)
        return rule.key(jobs, Site(total, np.ones_like(total) if prices is None else prices))
    if rule.moving == STATIC:
        return np.random.default_rng(seed).random(len(jobs))
    return np.zeros(len(jobs))


@shared
def key_by_submit(s: State, i: int, row: int, key: float, by_submit: int) -> float:
    """Key of a job at its submit time by `links`; `key` is that for its submit time in the trace."""
    job = s.jobs[i, row]
    if by_submit == LINEAR:
        return key + (job.submit - s.links[i, row].planned)
    procs = float(s.demand[i, row, 0])
    return log10(float(job.requested)) * procs + 870.0 * log10(max(float(job.submit), 0.1))


@step
def moving_key(s: State, i: int, row: int, moving: int) -> float:
    """Current key of a job whose priority changes while it waits."""
    job = s.jobs[i, row]
    wait = float(s.episodes[i].now - job.submit)
    procs = float(s.demand[i, row, 0])
    if moving == XFACTOR:
        return -wait / job.requested
    if moving == WFP3:
        return -((wait / job.requested) ** 3) * procs
    if moving == UNICEP:
        # One processor gives log2(1) = 0; the tiny summand is the one of the published simulator.
        return -wait / (log2(procs + 1e-15) * job.requested)
    match = 0.0
    for r in range(len(s.resources)):
        match += s.demand[i, row, r] / s.units[i, r] * (s.free[i, r] / s.units[i, r])
    return -match
