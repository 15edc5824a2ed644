"""What studies share: running commands, several at a time, and going on where they were stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import nan
from pathlib import Path

from rlsched.evaluate.statistics import EpisodeResult, SummaryRow

EPISODES = 24
"""Of an evaluation; drawn with the same seed for all, so that everybody has the same ones."""

SEARCH = ["--algo", "priority_search", "--set", "network.priority_units=8"]
"""The words that search for a priority function."""


def rlsched(*words: str, log: Path, threads: int) -> None:
    """Run a command.

    Raises:
        SystemExit: it failed.
    """
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


def train(out: Path, words: Iterable[str], *, seed: int, threads: int) -> None:
    """One training run; one that was stopped goes on, one that is done is left alone."""
    if (out / "done").exists():
        return
    chosen = ["--resume"] if (out / "train.yaml").exists() else [*words, "--seed", str(seed)]
    rlsched("train", *chosen, "--out", str(out), log=out.parent / f"{out.name}.log", threads=threads)
    (out / "done").touch()


def evaluate(runs: Sequence[Path], words: Iterable[str], target: Path) -> list[EpisodeResult]:
    """What these runs and the heuristics reach on the same episodes; evaluated again only for other runs."""
    played = _played(target)
    if {Path(result.policy).name for result in played if result.learned} != {run.name for run in runs}:
        chosen = [*map(str, runs), *words, "--episodes", str(EPISODES), "--json", str(target)]
        rlsched("evaluate", *chosen, log=target.parent / "evaluate.log", threads=1)
        played = _played(target)
    return played


def _played(target: Path) -> list[EpisodeResult]:
    """The episodes of an evaluation that was written; none where there is none."""
    if not target.exists():
        return []
    results = []
    for episode in json.loads(target.read_text("utf-8"))["episodes"]:
        metrics = episode.pop("metrics").items()
        measured = {name: nan if value is None else value for name, value in metrics}
        results.append(EpisodeResult(**episode, metrics=measured))
    return results


def best_heuristic(rows: Iterable[SummaryRow]) -> SummaryRow:
    """Of the rows of one metric of which more is better."""
    return max((row for row in rows if not row.learned), key=lambda row: row.mean)


def ahead(row: SummaryRow, best: SummaryRow) -> str:
    """How far a policy is ahead of the best heuristic, in per cent of its mean, with the 95 % interval."""
    ends = (row.best_heuristic_difference, row.difference_low, row.difference_high)
    mean, low, high = (100 * end / best.mean for end in ends)
    return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]"


def at_a_time(tasks: Iterable[Callable[[], None]], parallel: int) -> None:
    """Run tasks, so many at a time; the first that fails ends them all."""
    with ThreadPoolExecutor(parallel) as pool:
        started = [pool.submit(task) for task in tasks]
        try:
            for run in started:
                run.result()
        except BaseException:  # SystemExit of a run and Ctrl-C, too: what waits must not begin
            pool.shutdown(cancel_futures=True)
            raise
