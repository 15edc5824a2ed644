"""PPO on three published traces: several seeds each, against every heuristic.

Trains each policy (skipping those already trained), evaluates it by the RLScheduler protocol on sequences it
never saw, and prints medians and hoarding verdicts, beside the same policy before training; the Lublin
policies are also shown on the other traces. Two policies are trained at a time, each with half of the cores.
Run: `make study`, or with `--seeds 1 --scale 0.3 --cases HPC2N` for a look; what was done is not done again.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.studies import StudyOptions, evaluated, study_options, train

DATA = Path(os.environ.get("RLSCHED_DATA", Path(__file__).parents[1] / "../shared/data")) / "swf"
# Jobs of a real trace ask for far more time than they use: reserving for one that does not fit helps there.
UNSEEN = ["--set", "workload.training_jobs=[12000,null]", "--set", "decision.action_rule=commit"]


@dataclass(frozen=True)
class Trace:
    """A trace, and how its policy is trained."""

    file: str
    training: list[str]
    minutes: float
    steps: int  # what these minutes on one core are enough for; PPO's rates and temperature fall until then


TRACES = {
    "lublin_256": Trace("lublin_256.swf.gz", ["--scenario", "lublin-256"], 6, 420_000),
    "HPC2N": Trace("HPC2N-2002-2.2-cln.swf.gz", UNSEEN, 6, 420_000),
    "CTC-SP2": Trace("CTC-SP2-1996-3.1-cln.swf.gz", UNSEEN, 6, 420_000),
}


def training(name: str, scale: float) -> list[str]:
    """The words that say how a trace's policy is trained."""
    trace = TRACES[name]
    source = [] if "--scenario" in trace.training else ["--trace", str(DATA / trace.file)]
    length = ["--minutes", str(scale * trace.minutes), "--steps", str(round(scale * trace.steps))]
    return [*source, *trace.training, *length]


def learn(study: StudyOptions, name: str, seed: int) -> None:
    """Train a trace's policy."""
    train(study.folder / f"{name}-{seed}", training(name, study.scale), seed=seed, threads=study.threads)


def evaluate(run: Path, name: str, *, start: bool = False) -> dict[str, Any]:
    """The figures of a run's policy, or of the one before training, on a trace's ten sequences."""
    policy = run / "start" if start else run
    target = run.with_name(f"{run.name}{'-start' if start else ''}-on-{name}.json")
    words = [str(policy), "--trace", str(DATA / TRACES[name].file), "--protocol", "rlscheduler"]
    values = json.loads(evaluated(target, words, [run]).read_text("utf-8"))
    row = next(r for r in values["summary"] if r["learned"] and r["metric"] == "bounded_slowdown")
    best = min(
        (r["mean"], f"{r['policy']}:{r['backfill']}")
        for r in values["summary"]
        if not r["learned"] and r["metric"] == "bounded_slowdown"
    )
    return {
        "bsld": row["mean"],
        "low": row["low"],
        "high": row["high"],
        "best": best,
        "hoarding": values["hoarding"][0],
    }


def table(result: list[dict[str, Any]]) -> str:
    """Median, seeds with their intervals over sequences, and the worst of the hoarding ratios."""
    item = ", ".join(f"{f['bsld']:.2f} [{f['low']:.2f}, {f['high']:.2f}]" for f in result)
    median = statistics.median(f["bsld"] for f in result)
    span = max(f["hoarding"]["span_ratio"] for f in result)
    wait = max(f["hoarding"]["wait_ratio"] for f in result)
    return f"median {median:6.2f}  seeds {item}  span x{span:.2f}  wait x{wait:.2f}"


def main() -> None:
    """Train, evaluate, tell."""
    study = study_options(__doc__, TRACES, "runs/study-hpc")
    study.learn(partial(learn, study))
    folder, seeds = study.folder, range(study.seeds)
    lines = []
    for name in study.cases:
        runs = [folder / f"{name}-{seed}" for seed in seeds]
        result = [evaluate(run, name) for run in runs]
        value, best = result[0]["best"]
        lines.append(f"{name:<12} {table(result)}  best heuristic {value:.2f} ({best})")
        untrained = [evaluate(run, name, start=True) for run in runs]
        lines.append(f"{'':<12} before training: {table(untrained)}")
    for name in ("HPC2N", "CTC-SP2") if "lublin_256" in study.cases else ():
        result = [evaluate(folder / f"lublin_256-{seed}", name) for seed in seeds]
        lines.append(f"lublin_256's policies on {name}: {table(result)}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
