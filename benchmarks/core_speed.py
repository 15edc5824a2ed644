"""Speed of the simulator core relative to its slow twin, the plain Python simulator in `tests/twin`.

Measures what `rlsched bench core` does, and lets the twin do the same work. `make bench` runs it.
Run: `python -m benchmarks.core_speed`, or with `--seconds 1 --json core.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace as replaced
from pathlib import Path

import numpy as np

from rlsched.cli import bench_core, options, output
from rlsched.cli.bench import Figure, show_core
from rlsched.jobs import JobTable
from rlsched.scenario import Scenario
from tests.twin.env import TwinEnv
from tests.twin.green import TwinGreen
from tests.twin.replay import replay


class SlowTwin:
    """The plain Python simulator, which does the work of `rlsched bench core`."""

    name = "slow twin"

    def decisions(self, scenario: Scenario, seconds: float, seed: int) -> float:
        """Random legal decisions per second in one episode, measured for at least `seconds`."""
        scenario, source, (episode, *_) = bench_core.drawn_episodes(scenario, seed)
        units = source.cluster.units
        rng = np.random.default_rng(seed)
        elapsed, start = 0, time.perf_counter()
        while True:
            env: TwinEnv | TwinGreen
            if not scenario.decision.tick_driven:
                env = TwinEnv(scenario, units, episode.jobs)
            else:
                env = TwinGreen(scenario, units, episode.jobs, episode.power)
            while not env.over:
                env.step(int(rng.choice(np.flatnonzero(env.mask))))
                elapsed += 1
                if time.perf_counter() - start > seconds:
                    return elapsed / (time.perf_counter() - start)

    def jobs_replayed(self, jobs: JobTable, units: Sequence[int], policy: str, backfill: str) -> float:
        """Jobs per second that a heuristic schedules, on one sequence."""
        start = time.perf_counter()
        replay(jobs, units, policy, backfill)
        return len(jobs) / (time.perf_counter() - start)


def compared(
    figures: Iterable[Figure], env_scenario: Scenario, replay_scenario: Scenario, seconds: float, seed: int
) -> Iterator[Figure]:
    """Figures of `rlsched bench core`, those of decisions and replays relative to the twin."""
    twin = SlowTwin()
    scenarios = [env_scenario, *(bench_core.grid_scenario(*grid) for grid in bench_core.GRIDS)]
    by_case = {bench_core.case_of(scenario): scenario for scenario in scenarios}
    (jobs, *_), units = bench_core.sequences(replay_scenario, seed)
    for figure in figures:
        if figure.name == "jobs_per_s":
            slow = twin.jobs_replayed(jobs, units, *figure.case.split()[-2:])
        elif figure.name == "decisions_per_s" and figure.case in by_case:
            slow = twin.decisions(by_case[figure.case], seconds, seed)
        else:
            yield figure
            continue
        yield replaced(figure, against=twin.name, ratio=figure.value / slow)


def main() -> None:
    """Measure, and show the figures as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="lublin-256")
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", metavar="FILE|-")
    arguments = parser.parse_args()
    env_scenario = options.named_scenario("--scenario", arguments.scenario)
    replay_scenario = env_scenario
    if arguments.trace is not None:
        replay_scenario = options.trace_scenario(arguments.trace, [])
    elif env_scenario.decision.tick_driven:
        replay_scenario = options.named_scenario("--scenario", "lublin-256")
    measured = env_scenario, replay_scenario, arguments.seconds, arguments.seed
    show_core(compared(bench_core.measure_core(*measured), *measured), output.Targets(arguments.json).check())


if __name__ == "__main__":
    main()
