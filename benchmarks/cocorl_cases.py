"""Cases of the CoCoRL study: green sites and traces, with the limits that policies must meet."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.studies import StudyOptions

STEPS = 500_000
EPISODES = 96
COST = "delayed_jobs"
LOADS = ("0.2", "0.4", "0.6", "0.8", "1.0", "1.2")
POSSIBLE = "0.6"
"""Of these, where some order keeps a share: here the memory is tried, too."""
SHARES = ("0.4", "0.6", "0.8")
CONTROLLERS = {"pid": [], "lagrange": ["--set", "cocorl.pid.kp=0", "--set", "cocorl.pid.kd=0"]}
OTHERWISE = {"lagrange": CONTROLLERS["lagrange"], "lstm": ["--set", "network.lstm=512"]}
"""How the largest share is tried once more: plain Lagrange, and a memory [Venkataswamy 2023, table A.3]."""
DATA = Path(os.environ.get("RLSCHED_DATA", Path(__file__).parents[1] / "../shared/data"))
SITE = [
    *("--scenario", "green-10", "--set", "workload.load=0.4"),
    *("--set", "power={kind: series, grid_kw: 8, wind_kw: 6, solar_kw: 12}"),
    *("--set", "observation.blocks=[jobs, queue, profile, supply, coming]"),
]
"""A site whose wind and sun are worth waiting for."""

ORDERS = {"fcfs": "-", "sjf": "--", "qos": "-.", "hvf": ":", "packing": (0, (6, 1, 1, 1, 1, 1))}
"""Common orders, and how they are drawn."""


class Case(NamedTuple):
    """Where limits are kept.

    Attributes:
        scenario: words that choose it.
        kinds: of what is trained within limits: shares, and what `OTHERWISE` knows.
        training: words beside these.
        within: likewise, of what is trained within limits.
        steps: decisions of a run.
        episodes: on which all are evaluated.
    """

    scenario: Sequence[str]
    kinds: Sequence[str]
    training: Sequence[str] = ("--set", "validation.episodes=128")
    within: Sequence[str] = ()
    steps: int = STEPS
    episodes: int = EPISODES


def at_load(load: str) -> Case:
    """Green-10 at a load."""
    scenario = ["--scenario", "green-10", "--set", f"workload.load={load}"]
    return Case(scenario, (*SHARES, *(OTHERWISE if load == POSSIBLE else ["lagrange"])))


def imitating(order: str) -> list[str]:
    """Words that begin with imitation of an order."""
    return ["--set", f"warm_start={{teacher: {order}, decisions: 200000}}"]


def of_trace(scenario: str, trace: str, power: str) -> Case:
    """A trace, fed by the wind and sun of another place.

    What is to earn was shown the order that earns most, what is to keep limits the one that delays least.
    Episodes are long, and multipliers move once every environment has ended one: so few environments play.
    """
    words = ["--scenario", scenario, "--trace", str(DATA / "swf" / trace)]
    words += ["--set", f"power.file={json.dumps(str(DATA / 'power' / power))}"]
    checked = ["--set", "validation.episodes=16"]
    few = ["sampling.envs_per_runner=8", "sampling.fragment=4096", "cocorl.fragment=1024"]
    return Case(
        words,
        ("0.6", "0.8"),
        [*checked, *imitating("qos")],
        [*checked, *imitating("sjf"), *(word for item in few for word in ("--set", item))],
        STEPS // 2,
        EPISODES // 4,
    )


TRACES = {
    "hpc2n": of_trace("green-hpc2n", "HPC2N-2002-2.2-cln.swf.gz", "CISO-2022-hourly.csv"),
    "ctc": of_trace("green-ctc", "CTC-SP2-1996-3.1-cln.swf.gz", "ERCO-2022-hourly.csv"),
}
CASES: Mapping[str, Case] = {load: at_load(load) for load in LOADS} | TRACES


def share_of(kind: str) -> str:
    """That is kept."""
    return SHARES[-1] if kind in OTHERWISE else kind


def run_of(study: StudyOptions, case: str, kind: str, seed: int) -> Path:
    """The folder of a run: kind is `free`, a share, or what `OTHERWISE` knows."""
    return study.folder / f"{case}-{kind}-{seed}"
