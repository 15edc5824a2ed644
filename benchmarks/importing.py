"""How long `rlsched trace import sacct` takes, and the memory at its peak.

A file as a site's: arrays, tasks that wait, jobs that were put back or still run, steps, no limits; lines in
the order of their jobs. Read by a process of its own, as many times as asked, since a machine is not the
same from one minute to the next.
Run: `python -m benchmarks.importing`, a million lines three times; `--lines 100000` tells how memory grows.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

COLUMNS = (
    "JobID|JobIDRaw|User|Account|Partition|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|ReqCPUS|"
    "AllocCPUS|Extra"
)
BEGIN = 1_735_700_000
BETWEEN_S = 25
"""Seconds from one submission to the next, in the mean."""


def printed(seed: int) -> Iterator[str]:
    """Lines of jobs, without end."""
    rng = random.Random(seed)
    number, submit = 100, BEGIN
    while True:
        number, submit = number + 1, submit + rng.randrange(2 * BETWEEN_S)
        start, elapsed = submit + rng.randrange(4_000), rng.randrange(1, 20_000)
        cpus = 2 ** rng.randrange(7)
        limit = "UNLIMITED" if rng.random() < 0.02 else elapsed // 30
        head, times = f"u{rng.randrange(200)}|acc|batch", f"{submit}|{submit}"
        tail = f"{limit}|{cpus}|{cpus}|x"
        kind = rng.random()
        job = f"{number}_{rng.randrange(100)}" if kind < 0.1 else str(number)
        if kind < 0.02:
            yield f"{number}_[8-99]|{number}|{head}|PENDING|{times}|Unknown|Unknown|0|{tail}"
            continue
        if kind < 0.04:
            yield f"{job}|{number}|{head}|RUNNING|{times}|{start}|Unknown|{elapsed}|{tail}"
            continue
        if kind > 0.97:
            yield f"{job}|{number}|{head}|REQUEUED|{times}|{start}|{start + 60}|60|{tail}"
            start += 600
        ended = f"COMPLETED|{times}|{start}|{start + elapsed}|{elapsed}"
        yield f"{job}|{number}|{head}|{ended}|{tail}"
        if kind > 0.6:
            yield f"{job}.batch|{number}.batch|||batch|{ended}||{cpus}|{cpus}|"


def main() -> None:
    """Write the file, read it, tell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("runs/importing"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    source = chosen.out / f"sacct-{chosen.lines}.txt"
    with source.open("w", encoding="ascii") as file:
        file.write(COLUMNS + "\n")
        file.writelines(f"{line}\n" for line in islice(printed(0), chosen.lines))
    words = ["-m", "rlsched", "trace", "import", "sacct", source, "--out", source.with_suffix(".swf")]
    for _ in range(chosen.turns):
        begin = time.perf_counter()
        ran = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(ran.pid, 0)
        if status:
            raise SystemExit(f"the import failed with status {status}")
        took = time.perf_counter() - begin
        print(f"{chosen.lines:,} lines: {took:.1f} s, {used.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
