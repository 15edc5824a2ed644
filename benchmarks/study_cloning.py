"""Whether a clone does as those do whom it was shown, and earns what they earn.

Half a million decisions on green-10 of one order, and of four of them in turns (combo); bc reads two million
with our own settings. How often it takes the decision that was taken is counted in episodes of its teachers
that it has not read, and what it earns in 24 others, beside its teacher. Among four teachers nobody can tell
whose turn it is: what they agree upon can be learned.
Run: `python -m benchmarks.study_cloning`, five minutes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.studies import StudyOptions, agreement, collect, evaluate, study_options, train
from rlsched.evaluate.bootstrap import bootstrap_columns

TEACHERS = {"qos": "qos", "sjf": "sjf", "combo": "qos,sjf,fcfs,hvf"}
RECORDED, READ, UNSEEN = 500_000, 2_000_000, 50_000
METRIC = "job_value_ratio"


def record(study: StudyOptions, case: str, rows: int, seed: int) -> Path:
    """A dataset of these teachers."""
    words = ["--scenario", "green-10", "--policy", TEACHERS[case], "--seed", str(seed)]
    words += ["--steps", str(round(study.scale * rows))]
    return collect(study.folder / f"{case}-data-{seed}", words, threads=study.threads)


def learn(study: StudyOptions, case: str, seed: int) -> None:
    """A clone."""
    words = ["--algo", "bc", "--dataset", str(record(study, case, RECORDED, 0))]
    words += ["--steps", str(round(study.scale * READ))]
    train(study.folder / f"{case}-{seed}", words, seed=seed, threads=study.threads)


def earned(study: StudyOptions, case: str) -> dict[str, NDArray[np.float64]]:
    """(episode,) of each policy and order, in per cent of the submitted value."""
    runs = [study.folder / f"{case}-{seed}" for seed in range(study.seeds)]
    words = ["--scenario", "green-10", "--against", TEACHERS[case]]
    actual: dict[str, list[float]] = {}
    for result in evaluate(runs, words, study.folder / f"{case}.json"):
        actual.setdefault(result.policy, []).append(100 * result.metrics[METRIC])
    return {name: np.array(values) for name, values in actual.items()}


def main() -> None:
    """Record, clone, count, tell."""
    study = study_options(__doc__, TEACHERS, "runs/study-cloning")
    for case in study.cases:
        record(study, case, RECORDED, 0)
    study.learn(partial(learn, study))
    for case in study.cases:
        unseen = record(study, case, UNSEEN, 1)
        runs = [study.folder / f"{case}-{seed}" for seed in range(study.seeds)]
        agreed = " ".join(f"{100 * share:.2f}" for share in agreement(runs, unseen))
        values = earned(study, case)
        clones = np.mean([values.pop(str(run)) for run in runs], axis=0)
        best = max(values, key=lambda name: values[name].mean())
        over = bootstrap_columns([clones - values[best]])[0]
        print(
            f"{case}: {agreed} % of unseen decisions; {clones.mean():.2f} % of the value, best teacher "
            f"{best} {values[best].mean():.2f}, {over.mean:+.2f} [{over.low:+.2f}, {over.high:+.2f}]"
        )


if __name__ == "__main__":
    main()
