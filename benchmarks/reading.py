"""How many recorded decisions a second each method learns from, one thread each.

A quarter of a million decisions of green-10 are recorded, and every method reads as many, in turns, since a
machine is not the same from one minute to the next. Told are the medians of all iterations but the first,
which also waits for the dataset.
Run: `python -m benchmarks.reading`, with `--turns 4` for surer figures; half a minute for each run.
"""

from __future__ import annotations

import argparse
import csv
import shutil
from pathlib import Path
from statistics import median

from benchmarks.studies import collect, rlsched

ROWS = 250_000
METHODS = ("bc", "marwil", "cql", "rare")
FEW = ["--set", "validation.episodes=4"]


def speeds(run: Path) -> list[float]:
    """Decisions a second in every iteration but the first."""
    with (run / "metrics.csv").open(encoding="utf-8", newline="") as file:
        return [float(row["steps_per_second"]) for row in csv.DictReader(file)][2:]


def main() -> None:
    """Record, read, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--minibatch", type=int, help="decisions; left out: what each has by default")
    parser.add_argument("--out", type=Path, default=Path("runs/reading"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    recorded = ["--policy", "qos,sjf,fcfs,hvf", "--set", "objective.reward={started_value: 1}"]
    words = ["--scenario", "green-10", *recorded, "--steps", str(ROWS)]
    data = collect(chosen.out / "data", words, threads=1)
    result: dict[str, list[float]] = {method: [] for method in chosen.methods}
    for _ in range(chosen.turns):
        for method in chosen.methods:
            run = chosen.out / method
            shutil.rmtree(run, ignore_errors=True)
            requested = ["--algo", method, "--dataset", str(data), *FEW, "--steps", str(ROWS)]
            if chosen.minibatch is not None:
                requested += ["--set", f"{method}.minibatch={chosen.minibatch}"]
            if method == "rare":  # from the beginning as it goes on
                requested += ["--set", "rare.imitate=0"]
            rlsched("train", *requested, "--out", str(run), log=chosen.out / f"{method}.log", threads=1)
            result[method] += speeds(run)
    for method, item in result.items():
        print(f"{method}: {median(item):,.0f} decisions/s ({min(item):,.0f} to {max(item):,.0f})")


if __name__ == "__main__":
    main()
