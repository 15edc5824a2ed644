"""Learned policies on green datacenters against the best of all heuristics, several seeds each.

A priority function is searched for on green-10 as it is; for every other case the search goes on from there.
In some cases a job scorer imitates what was found and goes on with PPO. All plan on the horizon. They are
evaluated on 24 paired episodes that no training saw, beside every common order under both placements. What a
run may take is a number of decisions, not of minutes: a busy machine gets the same results, later. On one
quiet core that is about 5 minutes for the first search, 2 for each of the others and 5 of PPO. Two runs at a
time, each with half of the cores.
Run: `make study-green`, or with `--seeds 1 --scale 0.2 --cases load-1.0` for a look; what was done is not
done again.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from statistics import fmean

from benchmarks.studies import (
    GOING_ON_STEPS,
    SEARCH,
    SEARCH_STEPS,
    StudyOptions,
    ahead,
    best_heuristic,
    evaluate,
    going_on_from,
    study_options,
    train,
)
from rlsched.evaluate.statistics import SummaryRow, Table, summarise

PPO_STEPS = 1_000_000
SHORTER = {
    "pool-15": 0.75,
    "pool-48": 0.4,
    "admission-qos-pool-48": 0.4,
}  # decisions among more jobs take longer


def failing(level: float) -> list[str]:
    """Power that is at this level in that share of the time [Venkataswamy 2023, B.1]."""
    return ["power.kind=synthetic", f"power.level={level}", f"power.probability={level}"]


FIRST = "load-1.0"
"""The case of green-10 as it is."""

CASES = {
    "pool-48": ["decision.window=48"],
    "pool-15": ["decision.window=15"],
    FIRST: ["workload.load=1.0"],
    "load-1.0-power-0.9": ["workload.load=1.0", *failing(0.9)],
    "load-1.0-power-0.8": ["workload.load=1.0", *failing(0.8)],
    "load-1.2": ["workload.load=1.2"],
    "load-1.2-power-0.9": ["workload.load=1.2", *failing(0.9)],
    "load-1.2-power-0.8": ["workload.load=1.2", *failing(0.8)],
    "admission-qos": ["decision.admission=qos"],
    "admission-qos-pool-48": ["decision.admission=qos", "decision.window=48"],
    "green-50": [],
    "green-100": [],
}
PUBLISHED = ("fcfs", "sjf", "qos", "hvf")
"""Orders that the policies of Venkataswamy 2023 are held against there: they are 18 to 25 % ahead of each at
full power, 8 to 13 % at less."""

WITH_PPO = {FIRST, "pool-15", "pool-48"}
"""Cases that PPO goes on with; in the others it was seen to add little to what it imitates."""

PPO = [
    *("--algo", "ppo"),
    # The value of finished jobs, as it is earned.
    *("--set", "objective.reward={running_value: 1}"),
    # As it was when docs/experiments/0015-figures-of-earlier-documents.md was measured.
    *("--set", "objective.gamma=0.99"),
    *("--set", "ppo.learning_rate=0.0001"),
    *("--set", "ppo.gae_lambda=0.9"),
]


def settings(case: str) -> list[str]:
    """The scenario of a case."""
    words = ["--scenario", case if case.startswith("green-") else "green-10"]
    for override in ("decision.placement=horizon", *CASES[case]):
        words += ["--set", override]
    return words


def search(study: StudyOptions, case: str, seed: int) -> Path:
    """Search in the first case, or go on from there; returns the run."""
    out = study.folder / f"{case}-search-{seed}"
    words, steps = SEARCH, float(SEARCH_STEPS)
    if case != FIRST:
        words = going_on_from(study.folder / f"{FIRST}-search-{seed}")
        steps = GOING_ON_STEPS * SHORTER.get(case, 1.0)
    steps *= study.scale
    train(out, [*settings(case), *words, "--steps", str(round(steps))], seed=seed, threads=study.threads)
    return out


def learn(study: StudyOptions, case: str, seed: int) -> None:
    """Search; where it is to be, imitate and go on with PPO."""
    result = search(study, case, seed)
    if case not in WITH_PPO:
        return
    warm = ["--set", f"warm_start={{teacher: {json.dumps(str(result))}, epochs: 6, decisions: 200000}}"]
    steps = ["--steps", str(round(study.scale * SHORTER.get(case, 1.0) * PPO_STEPS))]
    out = study.folder / f"{case}-ppo-{seed}"
    train(out, [*settings(case), *PPO, *warm, *steps], seed=seed, threads=study.threads)


def rows_of(case: str, seeds: int, folder: Path) -> list[SummaryRow]:
    """The rows of total value of all policies of a case, on the same episodes."""
    kinds = ("search", "ppo") if case in WITH_PPO else ("search",)
    runs = [folder / f"{case}-{kind}-{seed}" for kind in kinds for seed in range(seeds)]
    results = evaluate(runs, settings(case), folder / f"{case}.json")
    return [row for row in summarise(Table.of(results)) if row.metric == "job_value"]


def table(case: str, rows: list[SummaryRow]) -> str:
    """Each learned policy's difference to the best heuristic, in per cent of its value."""
    best = best_heuristic(rows)
    lines = [f"{case:<20} best heuristic {best.policy}:{best.backfill} {best.mean:,.0f}"]
    for row in rows:
        if row.learned:
            name = Path(row.policy).name.removeprefix(f"{case}-")
            lines.append(f"{'':<20} {name:<10} {ahead(row, best)}")
    learned = fmean(row.mean for row in rows if row.learned)
    for rule in ("now", "horizon"):
        means = {row.policy: row.mean for row in rows if row.backfill == rule}
        gains = ", ".join(f"{name} {100 * (learned / means[name] - 1):+.1f} %" for name in PUBLISHED)
        lines.append(f"{'':<20} mean of these over {rule}: {gains}")
    return "\n".join(lines)


def main() -> None:
    """Learn, evaluate, tell."""
    study = study_options(__doc__, CASES, "runs/study-green")
    study.for_seeds(partial(search, study, FIRST))
    study.learn(partial(learn, study))
    for case in study.cases:
        print(table(case, rows_of(case, study.seeds, study.folder)))


if __name__ == "__main__":
    main()
