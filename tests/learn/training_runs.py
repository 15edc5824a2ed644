"""Training runs as processes, and what their folders hold."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from ray.rllib.core.rl_module.rl_module import RLModule

from rlsched.learn.checkpoints import Standing
from rlsched.learn.folder import RunFolder

from .conftest import SMALL, TINY

PATIENCE_S = 600


def command(out: Path, *more: object, steps: int = 512) -> list[str]:
    """Arguments of a small training run."""
    settings = [part for setting in (*SMALL, *TINY) for part in ("--set", setting)]
    arguments = ["train", "--scenario", "lublin-256", "--steps", steps, "--out", out, *settings, *more]
    return [str(part) for part in arguments]


@dataclass
class Stopped:
    """A training run that a signal ended, and what it left."""

    folder: Path
    code: int
    out: str
    err: str
    processes: set[int]  # that were below it


def stop(
    process: subprocess.Popen[str], folder: Path, ready: Callable[[], bool], end: Callable[[], None]
) -> Stopped:
    """End a run once it is so far; fails where it ends before."""
    patience = time.monotonic() + PATIENCE_S
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < patience, "it takes too long"
        time.sleep(0.1)
    below = children(process.pid)
    end()
    out, err = process.communicate(timeout=PATIENCE_S)
    return Stopped(folder, process.returncode, out, err, below)


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rlsched", *command(folder, steps=1_000_000)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def children(pid: int) -> set[int]:
    """Every process below this one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    actual, todo = set(), [pid]
    while todo:
        below = parents.get(todo.pop(), [])
        actual.update(below)
        todo += below
    return actual


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def limit_of(folder: Path, cost: str) -> float:
    """The limit in validation, as an amount."""
    return float(json.loads((folder / "validation.json").read_text())["limits"][cost])


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def check_unbroken(folder: Path) -> list[dict[str, str]]:
    """Iterations are 0 (before training), 1, 2, 3, ..., and steps and seconds only grow."""
    rows_written = rows(folder)
    assert [int(row["iteration"]) for row in rows_written] == list(range(len(rows_written)))
    for column in ("steps", "seconds"):
        values = [float(row[column]) for row in rows_written]
        assert values == sorted(set(values)), column
    for before, after in pairwise(rows_written):
        assert int(after["steps"]) - int(before["steps"]) >= 256
    for name in ("validation_bounded_slowdown", "validation_relative", "kept"):
        assert rows_written[0][name] != "", name
    return rows_written[1:]


def standing(folder: Path) -> Standing:
    latest = RunFolder(folder).latest()
    assert latest is not None
    return latest[1]


def learned(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The weights in RLlib's own part of a checkpoint."""
    module = RLModule.from_checkpoint(
        checkpoint / "rllib" / "learner_group" / "learner" / "rl_module" / "default_policy"
    )
    return module.unwrapped().policy.state_dict()
