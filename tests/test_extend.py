"""The examples of docs/guide/extend.md work as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlsched.cli.main import main
from rlsched.scenario import terms
from rlsched.sim import priorities, rates

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide" / "extend.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


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


def test_the_term(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry joins the table, and its lines are for functions that the entry names."""
    monkeypatch.setattr(terms, "TERM_SPECS", dict(terms.TERM_SPECS))
    number = len(terms.TERMS)
    entry = dict(vars(terms))
    exec(example("QUEUE_SQUARE = _term("), entry)
    assert entry["QUEUE_SQUARE"] == number
    spec = terms.TERM_SPECS["queue_square"]
    assert spec.kernels == ("rates.book_interval", "rates.book_tick")
    lines = re.findall(r"^    .*QUEUE_SQUARE.*# (\w+),", PAGE, flags=re.MULTILINE)
    assert [f"rates.{function}" for function in lines] == list(spec.kernels)
    assert all(hasattr(rates, function) for function in lines)


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
