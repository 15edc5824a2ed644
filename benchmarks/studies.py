"""What studies share: running commands, several at a time, and going on where they were stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


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
