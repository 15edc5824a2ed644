"""What studies share: running commands, several at a time, and going on where they were stopped."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from math import inf, nan
from pathlib import Path

from rlsched.evaluate.statistics import EpisodeResult, SummaryRow
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.policy import load_policy
from rlsched.offline.manifest import read_manifest
from rlsched.offline.reader import Reader
from rlsched.settings_files import as_yaml

EPISODES = 24
"""Of an evaluation; drawn with the same seed for all, so that everybody has the same ones."""

SEARCH = ["--algo", "priority_search", "--set", "network.priority_units=8"]
"""The words that search for a priority function."""

SEARCH_STEPS, GOING_ON_STEPS = 80_000_000, 30_000_000
"""Decisions of a search on green-10, and of one that goes on from there in another scenario."""


def going_on_from(result: Path) -> list[str]:
    """The words that search on from a priority function that was found before.

    What is found on green-10 as it is does well on others at once, better than most that is searched for
    there from the beginning: seen with pools of 15 and less power, where a search stays at one that never
    plans.
    """
    return [*SEARCH, "--set", f"search.start={json.dumps(str(result))}", "--set", "search.sigma=0.15"]


@dataclass(frozen=True)
class StudyOptions:
    """What a study is asked for.

    Attributes:
        seeds: runs of every case.
        scale: of what a run may take.
        cases: names of those to do.
        parallel: runs at a time.
        folder: where everything goes; a scale other than 1 has its own.
    """

    seeds: int
    scale: float
    cases: list[str]
    parallel: int
    folder: Path

    @property
    def threads(self) -> int:
        """Of each run."""
        return max(1, (os.cpu_count() or 1) // self.parallel)

    def for_seeds(self, task: Callable[[int], object]) -> None:
        """Do it with all seeds, so many at a time."""
        at_a_time([partial(task, seed) for seed in range(self.seeds)], self.parallel)

    def learn(self, task: Callable[[str, int], None]) -> None:
        """Do (case, seed) for all cases and seeds, so many at a time."""
        tasks = [partial(task, case, seed) for seed in range(self.seeds) for case in self.cases]
        at_a_time(tasks, self.parallel)


def study_options(about: str | None, cases: Iterable[str], out: str) -> StudyOptions:
    """Read the command line of a study.

    Args:
        about: what it is.
        cases: names of all that it can do.
        out: folder, where none is given.
    """
    known = list(cases)
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seeds", type=partial(_positive, int), default=3)
    parser.add_argument("--scale", type=partial(_positive, float), default=1.0, help="of what a run may take")
    parser.add_argument("--cases", nargs="+", choices=known, default=known)
    parser.add_argument("--parallel", type=partial(_positive, int), default=2, help="runs at a time")
    parser.add_argument("--out", type=Path, default=Path(out))
    chosen = parser.parse_args()
    folder: Path = chosen.out if chosen.scale == 1 else chosen.out / f"scale-{chosen.scale:g}"
    folder.mkdir(parents=True, exist_ok=True)
    cases = list(dict.fromkeys(chosen.cases))
    return StudyOptions(chosen.seeds, chosen.scale, cases, chosen.parallel, folder)


def _positive(kind: Callable[[str], float], text: str) -> float:
    value = kind(text)
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
    return value


def rlsched(*words: str, log: Path, threads: int) -> None:
    """Run a command.

    Raises:
        SystemExit: it failed.
    """
    print(f"rlsched {' '.join(words)}\n", end="", flush=True)  # whole lines, whoever else prints
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
    """One training run; one that was stopped goes on, one that is done is left alone.

    Raises:
        SystemExit: it failed, or there is a run in the folder that was asked for in other words, or when
            settings that no words name were others.
    """
    recipe = [*words, "--seed", str(seed)]
    started = (out / "train.yaml").exists()
    out.parent.mkdir(parents=True, exist_ok=True)
    defaults = sha256(as_yaml(TrainConfig())).hexdigest()
    _check_recipe(out, [*recipe, f"defaults {defaults}"], started=started)
    if (out / "done").exists():
        return
    chosen = ["--resume"] if started else recipe
    rlsched("train", *chosen, "--out", str(out), log=out.parent / f"{out.name}.log", threads=threads)
    (out / "done").touch()


def collect(out: Path, words: Sequence[str], *, threads: int) -> Path:
    """One dataset; one that was stopped goes on, one that is there is left alone.

    Raises:
        SystemExit: it failed, or the dataset in the folder was asked for in other words.
    """
    started = (out / "recipe.yaml").exists()
    _check_recipe(out, list(words), started=started)
    if not (out / "dataset.json").exists():
        chosen = ["--resume"] if started else words
        rlsched("collect", *chosen, "--out", str(out), log=out.parent / f"{out.name}.log", threads=threads)
    return out


def _check_recipe(out: Path, words: Sequence[str], *, started: bool) -> None:
    """Keep what asks for a result beside it; what was made by other words is not taken for it."""
    requested = out.with_name(f"{out.name}.asked")
    retained = json.loads(requested.read_text("utf-8")) if requested.exists() else None
    if started and retained != list(words):
        raise SystemExit(
            f"{out} was asked for in other words, or under other defaults: remove it, or name another --out"
        )
    requested.write_text(json.dumps(list(words)) + "\n", "utf-8")


def _made(policy: Path) -> float:
    """When the run was done whose folder, or a folder in it, a policy is named by."""
    run = policy if (policy / "done").exists() else policy.parent
    return (run / "done").stat().st_mtime


def evaluated(target: Path, words: Sequence[str], policies: Iterable[Path]) -> Path:
    """The figures of `rlsched evaluate` with these words; played again where a run is newer, or they differ.

    Args:
        target: JSON that they stand in.
        words: all but `--json`.
        policies: folders of runs, or in them, that are evaluated.
    """
    requested = target.with_name(f"{target.name}.asked")
    same = requested.exists() and json.loads(requested.read_text("utf-8")) == list(words)
    newest = max(map(_made, policies))
    if not (same and target.exists() and target.stat().st_mtime >= newest):
        rlsched("evaluate", *words, "--json", str(target), log=target.parent / "evaluate.log", threads=1)
        requested.write_text(json.dumps(list(words)) + "\n", "utf-8")
    return target


def evaluate(
    policies: Sequence[Path], words: Iterable[str], target: Path, *, episodes: int = EPISODES
) -> list[EpisodeResult]:
    """What these policies and the heuristics reach on the same episodes."""
    requested = [*map(str, policies), *words, "--episodes", str(episodes)]
    return _played(evaluated(target, requested, policies))


def _played(target: Path) -> list[EpisodeResult]:
    """The episodes of an evaluation that was written."""
    results = []
    for episode in json.loads(target.read_text("utf-8"))["episodes"]:
        metrics = episode.pop("metrics").items()
        measured = {name: nan if value is None else value for name, value in metrics}
        results.append(EpisodeResult(**episode, metrics=measured))
    return results


def agreement(policies: Iterable[Path], displayed: Path, most: int | None = None) -> list[float]:
    """Share of the decisions of a dataset, or of so many drawn from it, that each policy takes, too."""
    manifest = read_manifest(displayed)
    reader = Reader(displayed, manifest, ["obs", "action_mask", "actions"], seed=0)
    rows = reader.take(min(most or manifest.rows, manifest.rows))
    reader.close()
    takes = (load_policy(policy).act(rows["obs"], rows["action_mask"]) for policy in policies)
    return [float((elapsed == rows["actions"]).mean()) for elapsed in takes]


def best_heuristic(rows: Iterable[SummaryRow]) -> SummaryRow:
    """Of the rows of one metric of which more is better."""
    return max((row for row in rows if not row.learned), key=lambda row: row.mean)


def ahead(row: SummaryRow, best: SummaryRow) -> str:
    """How far a policy is ahead of the best heuristic, in per cent of its mean, with the 95 % interval."""
    ends = (row.best_heuristic_difference, row.difference_low, row.difference_high)
    mean, low, high = (100 * end / best.mean for end in ends)
    return f"{mean:+.2f} % [{low:+.2f}, {high:+.2f}]"


def at_a_time(tasks: Iterable[Callable[[], object]], parallel: int) -> None:
    """Run tasks, so many at a time; once one has failed no other begins."""
    with ThreadPoolExecutor(parallel) as pool:
        started = [pool.submit(task) for task in tasks]
        try:
            for run in as_completed(started):
                run.result()
        except BaseException:  # SystemExit of a run and Ctrl-C, too: what waits must not begin
            pool.shutdown(wait=False, cancel_futures=True)
            raise
