"""Whether an hour of training leaves memory as it is: `rlsched train` and all of its processes.

What is counted is the proportional set size of the command and all processes that it started, Ray's and its
object store included (Linux). Compared are medians of five minutes: the last ones, and those after the
warm-up, when caches, what is compiled and the buffer of DQN (200,000 decisions) are there. Kept beside it is
how much of it is the processes' own (anonymous: what a leak would be), and how much lies in files and in
memory that they share (Ray's object store, which is written round and round).
Run: `python -m benchmarks.soak --algo ppo appo dqn --minutes 60`; with several they run side by side. Those
that read: `python -m benchmarks.soak --algo bc --dataset DIR --minutes 20`.
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


KINDS = ("Pss", "Pss_Anon", "Pss_File", "Pss_Shmem")


class Reading(NamedTuple):
    """Memory at a time, in MiB."""

    minute: float
    mib: float
    anonymous: float
    files: float
    shared: float
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
    result = [root]
    for item in result:  # it grows on the way
        result += [child for child, parent in parents.items() if parent == item]
    return result


def proportional_mib(process: int) -> list[float]:
    """Its share of the memory that it and others use, in MiB, of each of `KINDS`; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8").splitlines()[1:]
    except OSError:
        return [0.0] * len(KINDS)
    kib = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
    return [kib.get(kind, 0) / 1024 for kind in KINDS]


def read(process: int, began: float) -> Reading:
    """Memory of a process and its family now."""
    all_of_them = family(process)
    minute = (time.monotonic() - began) / 60
    memory = np.array([proportional_mib(item) for item in all_of_them])
    total, anonymous, files, shared = memory.sum(axis=0).tolist()
    return Reading(minute, total, anonymous, files, shared, len(all_of_them))


def growth(readings: list[Reading], warm: float, kind: str = "mib") -> tuple[float, float]:
    """MiB after so many minutes of warm-up, and at the end."""
    end = readings[-1].minute
    before = [getattr(r, kind) for r in readings if warm <= r.minute < warm + WINDOW_MINUTES]
    after = [getattr(r, kind) for r in readings if r.minute >= end - WINDOW_MINUTES]
    return float(np.median(before)), float(np.median(after))


def draw(readings: dict[str, list[Reading]], warm: float, path: Path) -> None:
    """Memory over time, one line for each algorithm."""
    figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    for algo, result in readings.items():
        axes.plot([r.minute for r in result], [r.mib for r in result], label=algo)
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
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--scenario", default="lublin-256")
    source.add_argument("--dataset", type=Path, help="to learn from, instead of playing")
    parser.add_argument("--algo", nargs="+", default=["ppo"])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--warm", type=float, default=10.0, help="minutes of warm-up")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    options = parser.parse_args()
    if options.minutes < options.warm + 2 * WINDOW_MINUTES:
        parser.error(f"--minutes {options.minutes:g}: needs {options.warm + 2 * WINDOW_MINUTES:g} to compare")
    if options.out.exists():
        parser.error(f"--out {options.out}: is there already")
    options.out.mkdir(parents=True)
    running: dict[str, subprocess.Popen[bytes]] = {}
    readings: dict[str, list[Reading]] = {algo: [] for algo in options.algo}
    began = time.monotonic()
    try:
        for algo in options.algo:
            words = [sys.executable, "-m", "rlsched", "train", "--algo", algo]
            words += ["--dataset", options.dataset] if options.dataset else ["--scenario", options.scenario]
            words += ["--minutes", str(2 * options.minutes), "--steps", str(10**12)]
            words += ["--out", str(options.out / algo)]
            for setting in options.set:
                words += ["--set", setting]
            with (options.out / f"{algo}.log").open("wb") as log:
                running[algo] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while time.monotonic() - began < 60 * options.minutes:
            time.sleep(EVERY_S)
            for algo, process in running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{algo} ended with {process.returncode}: see {options.out / algo}.log")
                readings[algo].append(read(process.pid, began))
    finally:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            process.wait()
    for algo, result in readings.items():
        with (options.out / f"{algo}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Reading._fields)
            writer.writerows(result)
        first, last = growth(result, options.warm)
        more = 100 * (last / first - 1)
        parts = {kind: growth(result, options.warm, kind) for kind in ("anonymous", "files", "shared")}
        rows = (options.out / algo / "metrics.csv").read_text("utf-8").splitlines()
        decisions = dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))["steps"]
        verdict = "flat" if more < LIMIT_PERCENT else "GROWS"
        print(
            f"{algo:5} {first:,.0f} -> {last:,.0f} MiB, {more:+.2f} %, {verdict}; "
            f"{int(decisions):,} decisions, {result[-1].processes} processes; "
            + ", ".join(f"{kind} {was:,.0f} -> {now:,.0f}" for kind, (was, now) in parts.items())
        )
    draw(readings, options.warm, options.out / "soak.png")
    print(f"curves: {options.out / 'soak.png'}")


if __name__ == "__main__":
    main()
