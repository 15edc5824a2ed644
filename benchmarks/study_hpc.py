"""The learned policies of the README: three traces, several seeds each, against every heuristic.

Trains each policy (skipping those already trained), evaluates it by the RLScheduler protocol on sequences it
never saw, and prints medians and hoarding verdicts, beside the same policy before training; the Lublin
policies are also shown on the other traces. Two policies are trained at a time, each with half of the cores.
Run: `make study`, or with `--seeds 1 --minutes 3` for a look.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("RLSCHED_DATA", Path(__file__).parents[1] / "../shared/data")) / "swf"
UNSEEN = ["--set", "workload.training_jobs=[12000,null]"]
# On an overloaded machine it pays to keep processors for short jobs to come: begin by waiting.
RESERVING = ["--set", "network.waiting=2", "--set", "network.prior={requested: -1, log_demand_0: -0.33}"]
STEPS = "1800000"  # about what nine minutes on one core are enough for; the learning rate falls until then


@dataclass(frozen=True)
class Trace:
    """A trace, how its policy is trained, and what was published (results.md)."""

    file: str
    training: list[str]
    best_heuristic: float


TRACES = {
    "lublin_256": Trace("lublin_256.swf.gz", ["--scenario", "lublin-256", *RESERVING], 34.38),
    "HPC2N": Trace("HPC2N-2002-2.2-cln.swf.gz", UNSEEN, 51.03),
    "CTC-SP2": Trace("CTC-SP2-1996-3.1-cln.swf.gz", UNSEEN, 5.45),
}


def rlsched(*words: str, log: Path, threads: int) -> None:
    """Run a command; stop everything when it fails."""
    print("rlsched", *words, flush=True)
    with log.open("a", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", "rlsched", *words],
            check=False,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={"OMP_NUM_THREADS": str(threads)} | os.environ,
        )
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}, see {log}")


def train(name: str, seed: int, minutes: float, folder: Path, threads: int) -> None:
    """One policy; a run that was stopped goes on."""
    trace, out = TRACES[name], folder / f"{name}-{seed}"
    if (out / "done").exists():
        return
    if (out / "train.yaml").exists():
        words = ["--resume"]
    else:
        source = [] if "--scenario" in trace.training else ["--trace", str(DATA / trace.file)]
        words = [*source, *trace.training, "--steps", STEPS, "--seed", str(seed), "--minutes", str(minutes)]
    rlsched("train", *words, "--out", str(out), log=folder / f"{out.name}.log", threads=threads)
    (out / "done").touch()


def evaluate(policy: Path, name: str, folder: Path) -> dict[str, Any]:
    """The policy's figures on a trace's ten sequences."""
    target = folder / f"{policy.relative_to(folder).as_posix().replace('/', '-')}-on-{name}.json"
    if not target.exists():
        words = [str(policy), "--trace", str(DATA / TRACES[name].file), "--protocol", "rlscheduler"]
        rlsched("evaluate", *words, "--json", str(target), log=folder / "evaluate.log", threads=1)
    values = json.loads(target.read_text("utf-8"))
    row = next(r for r in values["summary"] if r["learned"] and r["metric"] == "bounded_slowdown")
    return {"bsld": row["mean"], "low": row["low"], "high": row["high"], "hoarding": values["hoarding"][0]}


def told(found: list[dict[str, Any]]) -> str:
    """Median, seeds with their intervals over sequences, and the worst of the hoarding ratios."""
    each = ", ".join(f"{f['bsld']:.2f} [{f['low']:.2f}, {f['high']:.2f}]" for f in found)
    median = statistics.median(f["bsld"] for f in found)
    span = max(f["hoarding"]["span_ratio"] for f in found)
    wait = max(f["hoarding"]["wait_ratio"] for f in found)
    return f"median {median:6.2f}  seeds {each}  span x{span:.2f}  wait x{wait:.2f}"


def main() -> None:
    """Train, evaluate, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--traces", nargs="+", choices=list(TRACES), default=list(TRACES))
    parser.add_argument("--parallel", type=int, default=2, help="policies trained at a time")
    parser.add_argument("--out", type=Path, default=Path("runs/study-hpc"))
    chosen = parser.parse_args()
    folder: Path = chosen.out
    folder.mkdir(parents=True, exist_ok=True)
    threads = max(1, (os.cpu_count() or 1) // chosen.parallel)
    with ThreadPoolExecutor(chosen.parallel) as pool:
        started = [
            pool.submit(train, name, seed, chosen.minutes, folder, threads)
            for seed in range(chosen.seeds)
            for name in chosen.traces
        ]
        for run in started:
            run.result()
    lines = []
    for name in chosen.traces:
        trace = TRACES[name]
        runs = [folder / f"{name}-{seed}" for seed in range(chosen.seeds)]
        trained = told([evaluate(run, name, folder) for run in runs])
        untrained = evaluate(runs[0] / "start", name, folder)["bsld"]
        lines.append(
            f"{name:<12} {trained}  before training {untrained:.2f}  "
            f"best heuristic {trace.best_heuristic:.2f}"
        )
    for name in ("HPC2N", "CTC-SP2") if "lublin_256" in chosen.traces else ():
        found = [evaluate(folder / f"lublin_256-{seed}", name, folder) for seed in range(chosen.seeds)]
        lines.append(f"lublin_256's policies on {name}: {told(found)}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
