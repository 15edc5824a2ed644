"""The learned policies of the README: three traces, several seeds each, against every heuristic.

Trains each policy (skipping those already trained), evaluates it by the RLScheduler protocol on sequences it
never saw, and prints medians and hoarding verdicts; the Lublin policy is also shown on the other traces.
About ten minutes per policy on 2 cores. Run: `make study`, or with `--seeds 1 --minutes 3` for a look.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("RLSCHED_DATA", Path(__file__).parents[1] / "../shared/data")) / "swf"
# On an overloaded machine it pays to keep processors for short jobs to come: begin by waiting.
RESERVING = ["--set", "network.waiting=2", "--set", "network.prior={requested: -1, log_demand_0: -0.33}"]
UNSEEN = ["--set", "workload.training_jobs=[12000,null]"]


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


def rlsched(*words: str) -> None:
    """Run a command and stop with it when it fails."""
    print("rlsched", *words, flush=True)
    done = subprocess.run([sys.executable, "-m", "rlsched", *words], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def train(name: str, seed: int, minutes: float, folder: Path) -> Path:
    """One policy; a run that was stopped goes on."""
    trace = TRACES[name]
    out = folder / f"{name}-{seed}"
    if (out / "done").exists():
        return out
    if (out / "train.yaml").exists():
        rlsched("train", "--resume", "--out", str(out))
    else:
        source = [] if "--scenario" in trace.training else ["--trace", str(DATA / trace.file)]
        rlsched(
            "train",
            *source,
            *trace.training,
            "--seed",
            str(seed),
            "--minutes",
            str(minutes),
            "--out",
            str(out),
        )
    (out / "done").touch()
    return out


def evaluate(policy: Path, name: str, folder: Path) -> dict[str, Any]:
    """The policy's figures on a trace's ten sequences."""
    target = folder / f"{policy.name}-on-{name}.json"
    if not target.exists():
        file = str(DATA / TRACES[name].file)
        rlsched("evaluate", str(policy), "--trace", file, "--protocol", "rlscheduler", "--json", str(target))
    values = json.loads(target.read_text("utf-8"))
    row = next(r for r in values["summary"] if r["learned"] and r["metric"] == "bounded_slowdown")
    return {"bsld": row["mean"], "low": row["low"], "high": row["high"], "hoarding": values["hoarding"][0]}


def main() -> None:
    """Train, evaluate, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("runs/study-hpc"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, trace in TRACES.items():
        found = [
            evaluate(train(name, seed, chosen.minutes, chosen.out), name, chosen.out)
            for seed in range(chosen.seeds)
        ]
        slowdowns = [f["bsld"] for f in found]
        lines.append(
            f"{name:<12} median {statistics.median(slowdowns):6.2f}  seeds "
            f"{', '.join(f'{s:.2f}' for s in slowdowns)}  best heuristic {trace.best_heuristic:.2f}  "
            f"span x{max(f['hoarding']['span_ratio'] for f in found):.2f}  "
            f"wait x{max(f['hoarding']['wait_ratio'] for f in found):.2f}"
        )
    for name in ("HPC2N", "CTC-SP2"):
        found = [
            evaluate(chosen.out / f"lublin_256-{seed}", name, chosen.out) for seed in range(chosen.seeds)
        ]
        slowdowns = [f["bsld"] for f in found]
        lines.append(f"lublin_256's policies on {name}: {', '.join(f'{s:.2f}' for s in slowdowns)}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
