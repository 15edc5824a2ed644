"""Whether an hour of training leaves memory as it is: `rlsched train` and all of its processes.

What is counted is the proportional set size of the command and all processes that it started, Ray's and its
object store included (Linux). Compared are medians of five minutes: the last ones, and those after the
warm-up, when caches, what is compiled and the buffer of DQN (200,000 decisions) are there.
Run: `python -m benchmarks.soak --algo ppo appo dqn --minutes 60`; with several they run side by side.
"""

from __future__ import annotations

import argparse
import csv
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

EVERY_S = 10.0
WINDOW_MINUTES = 5.0
LIMIT_PERCENT = 2.0


class Reading(NamedTuple):
    """Memory at a time."""

    minute: float
    mib: float
    processes: int


def family(root: int) -> list[int]:
    """A process, and all that it or they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
            except OSError:  # it has ended just now
                continue
            parents[int(entry.name)] = int(fields[1])
    found = [root]
    for one in found:  # it grows on the way
        found += [child for child, parent in parents.items() if parent == one]
    return found


def proportional_mib(process: int) -> float:
    """Its share of the memory that it and others use, in MiB; 0 where it has ended."""
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


def read(process: int, began: float) -> Reading:
    """Memory of a process and its family now."""
    all_of_them = family(process)
    mib = sum(proportional_mib(one) for one in all_of_them)
    return Reading((time.monotonic() - began) / 60, mib, len(all_of_them))


def growth(readings: list[Reading], warm: float) -> tuple[float, float, float]:
    """MiB after so many minutes of warm-up, MiB at the end, and what that is in per cent more."""
    end = readings[-1].minute
    before = [r.mib for r in readings if warm <= r.minute < warm + WINDOW_MINUTES]
    after = [r.mib for r in readings if r.minute >= end - WINDOW_MINUTES]
    first, last = float(np.median(before)), float(np.median(after))
    return first, last, 100 * (last / first - 1)


def draw(readings: dict[str, list[Reading]], warm: float, path: Path) -> None:
    """Memory over time, one line for each algorithm."""
    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for algo, found in readings.items():
        axes.plot([r.minute for r in found], [r.mib for r in found], label=algo)
    axes.axvspan(0, warm, color="0.93", lw=0)
    axes.set(
        xlabel="minutes of training", ylabel="memory of all processes (MiB)", ylim=(0, None), xlim=(0, None)
    )
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Train, look, and say what became of the memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="lublin-256")
    parser.add_argument("--algo", nargs="+", default=["ppo"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm", type=float, default=10.0, help="minutes of warm-up")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    asked = parser.parse_args()
    if asked.minutes < asked.warm + 2 * WINDOW_MINUTES:
        parser.error(f"--minutes {asked.minutes:g}: needs {asked.warm + 2 * WINDOW_MINUTES:g} to compare")
    if asked.out.exists():
        parser.error(f"--out {asked.out}: is there already")
    asked.out.mkdir(parents=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    readings: dict[str, list[Reading]] = {algo: [] for algo in asked.algo}
    began = time.monotonic()
    try:
        for algo in asked.algo:
            words = [sys.executable, "-m", "rlsched", "train", "--scenario", asked.scenario, "--algo", algo]
            words += ["--minutes", str(2 * asked.minutes), "--steps", str(10**12)]
            words += ["--out", str(asked.out / algo)]
            for setting in asked.set:
                words += ["--set", setting]
            with (asked.out / f"{algo}.log").open("wb") as log:
                running[algo] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while time.monotonic() - began < 60 * asked.minutes:
            time.sleep(EVERY_S)
            for algo, process in running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{algo} ended with {process.returncode}: see {asked.out / algo}.log")
                readings[algo].append(read(process.pid, began))
    finally:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            process.wait()
    for algo, found in readings.items():
        with (asked.out / f"{algo}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Reading._fields)
            writer.writerows(found)
        first, last, more = growth(found, asked.warm)
        rows = (asked.out / algo / "metrics.csv").read_text("utf-8").splitlines()
        decisions = dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))["steps"]
        verdict = "flat" if more < LIMIT_PERCENT else "GROWS"
        print(
            f"{algo:5} {first:,.0f} -> {last:,.0f} MiB, {more:+.2f} %, {verdict}; "
            f"{int(decisions):,} decisions, {found[-1].processes} processes"
        )
    draw(readings, asked.warm, asked.out / "soak.png")
    print(f"curves: {asked.out / 'soak.png'}")


if __name__ == "__main__":
    main()
