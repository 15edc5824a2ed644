"""The examples of docs/guide/extend.md work as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlsched.cli.main import main
from rlsched.sim import priorities

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide" / "extend.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

PLAY = """
import random

import numpy as np

from rlsched.evaluate.costs import episode_cost
from tests.sim.drive import check_transition, over, random_legal, single
from tests.sim.test_twin_green import check, game, open_core
from tests.strategies import random_instance, scenario
from tests.twin.env import TwinEnv
from tests.twin.green import TwinGreen

for seed in range(5):
    rng = random.Random(seed)
    instance = random_instance(rng, 12)
    rules = scenario(skip_forced=False, num_resources=len(instance.units))
    core, twin = single(rules, instance), TwinEnv(rules, instance.units, instance.table)
    total = 0.0
    while not twin.over:
        action = random_legal(core.mask[0], rng)
        core.step(np.array([action]))
        twin.step(action)
        check_transition(core, 0, twin)
        total += twin.terms["queue_square"]
    assert total < 0
    cost = episode_cost(rules, instance.units, "queue_square", core.played(0, instance.table))
    assert abs(cost + total) < 1e-9 * cost
    rules, units, table, power = game(seed)
    core, twin = open_core(rules, units, table, power), TwinGreen(rules, units, table, power)
    while not twin.over:
        action = random_legal(core.mask[0], rng)
        core.step(np.array([action]))
        twin.step(action)
        check(core, twin, table)
        assert "queue_square" in twin.terms
"""
"""Plays random games in the core, uncompiled, and in the twin, and compares all terms."""


def example(start: str) -> str:
    """The example whose first line starts like this."""
    return next(text for text in EXAMPLES if text.startswith(start))


def test_the_heuristic(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    heuristic = eval(example("Priority("), vars(priorities))
    monkeypatch.setitem(priorities.PRIORITIES, heuristic.name, heuristic)
    trace = str(ROOT / "datasets" / "sample.swf.gz")
    command = ["simulate", "--trace", trace, "--policy", heuristic.name, "--jobs", "200", "--episodes", "1"]
    assert main([*command, "--backfill", "greedy,easy"]) == 0
    assert heuristic.name in capsys.readouterr().out
    assert main(["policies"]) == 0
    assert heuristic.doc in capsys.readouterr().out


def linked_package(folder: Path, inside: str) -> Path:
    """A copy of the package by links, with a folder of its own for `inside`, into which files may go."""
    parts = Path(inside).parts
    for depth in range(1, len(parts) + 1):
        original, copy = ROOT.joinpath(*parts[:depth]), folder.joinpath(*parts[:depth])
        copy.mkdir()
        for entry in original.iterdir():
            if entry.name not in {"__pycache__", *parts[depth : depth + 1]}:
                (copy / entry.name).symlink_to(entry)
    return folder.joinpath(*parts)


@pytest.mark.slow
def test_the_term(tmp_path: Path) -> None:
    """Added to the table and to the twin, it is the same in both, and its cost follows from the starts."""
    table = linked_package(tmp_path, "rlsched/scenario") / "terms.py"
    twin = linked_package(tmp_path, "tests/twin") / "terms.py"
    head, end, tail = table.read_text("utf-8").partition("\n)\n\nTERM_SPECS")
    assert end
    entry = example("TermSpec(").rstrip() + ","
    table.unlink()
    table.write_text(f"{head}\n{entry}{end}{tail}", "utf-8")
    terms = twin.read_text("utf-8") + example("@rate")
    twin.unlink()
    twin.write_text(terms, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PLAY],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.long  # starts Ray twice
def test_the_algorithm(tmp_path: Path) -> None:
    module = linked_package(tmp_path, "rlsched/learn/algorithms") / "smooth_bc.py"
    module.write_text(example('"""Behavioural cloning with label smoothing'), "utf-8")

    def rlsched(*words: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", "rlsched", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "smooth_bc.smoothing=0.1" in rlsched("algorithms")
    rlsched("collect", "--scenario", "green-10", "--policy", "qos", "--steps", "2000", "--out", "data")
    shorter = ["--set", "smooth_bc.rows=1024", "--set", "validation.episodes=2", "--out", "run"]
    rlsched("train", "--algo", "smooth_bc", "--dataset", "data", "--steps", "2048", *shorter)
    rlsched("train", "--resume", "--steps", "4096", "--out", "run")
    header, *rows = (tmp_path / "run" / "metrics.csv").read_text("utf-8").splitlines()
    losses = [row.split(",")[header.split(",").index("policy_loss")] for row in rows]
    assert float(losses[-1]) < float(next(filter(None, losses)))
