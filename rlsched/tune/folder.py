"""The folder of a sweep: its settings, one folder per trial, and the results.

    sweep.yaml versions.json        settings of the sweep
    trials/0a1b2c3d4e/point.json    settings of a trial; an empty file `done` marks a completed one
    trials/0a1b2c3d4e/seed-0/       the run folder of its training, as of `rlsched train`, or figures.json
    ray/                            files of Ray Tune
    stopping                        exists while trials are asked to stop
    results.parquet best.yaml       results: every run of every trial, and the best settings to train
    front-1.yaml ...                with several objectives the Pareto front
    report.html                     the results in pictures

The progress of a sweep is in these files alone; a resumed sweep reads them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import seed_folder
from rlsched.files import write_whole
from rlsched.json_files import parse_json
from rlsched.learn.folder import PACKAGES, RunFolder
from rlsched.learn.policy_folder import read_about
from rlsched.settings import validate
from rlsched.settings_files import as_json, as_yaml, edited, read_text, read_yaml, was_edited, write_settings
from rlsched.tune.space import Point, point_id
from rlsched.tune.sweep import Sweep
from rlsched.versions import versions

SWEEP, POINT, FIGURES, DONE = "sweep.yaml", "point.json", "figures.json", "done"


@dataclass(frozen=True)
class Run:
    """The result of one seed of a trial so far."""

    seed: int  # of the training, or of the episodes
    steps: int  # decisions of the training
    seconds: float
    excess: float  # violation of limits, or of hoarding (`Score.excess`)
    figures: Mapping[str, float]  # metric -> mean over the best policy's validation, or the evaluation


class TrialFolder:
    """One trial's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, point: Point) -> None:
        """Write the settings of the trial, unless they exist."""
        if not (self.path / POINT).exists():
            write_whole(self.path / POINT, as_json({"began": time.time(), "point": dict(point)}))

    def read_point(self) -> tuple[float, dict[str, Any]]:
        """The time of its start in seconds since the epoch, and its point.

        Raises:
            BadInputError: the file is damaged.
        """
        file = self.path / POINT
        try:
            values = parse_json(file.read_text("utf-8"))
            return float(values["began"]), dict(values["point"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            remedy = f"remove {self.path}: the trial starts again"
            raise BadInputError(str(file), f"is damaged ({error!r})", remedy) from None

    @property
    def done(self) -> bool:
        """Whether all seeds are completed."""
        return (self.path / DONE).exists()

    def mark_done(self) -> None:
        """Mark all seeds as completed."""
        write_whole(self.path / DONE, b"")

    def run_folder(self, seed: int) -> RunFolder:
        """The run folder of the training with a seed."""
        return RunFolder(seed_folder(self.path, seed))

    def save_figures(
        self, seed: int, seconds: float, figures: Mapping[str, float], excess: float = 0.0
    ) -> None:
        """Write the result of an evaluation."""
        values = {"seconds": seconds, "excess": excess, "figures": dict(figures)}
        write_whole(seed_folder(self.path, seed) / FIGURES, as_json(values))

    def seed_done(self, seed: int) -> bool:
        """Whether the training with a seed is completed."""
        return (seed_folder(self.path, seed) / DONE).exists()

    def mark_seed_done(self, seed: int) -> None:
        """Mark the training with a seed as completed."""
        write_whole(seed_folder(self.path, seed) / DONE, b"")

    def read_rung(self, steps: int) -> list[Run] | None:
        """The results of all seeds at the rung after `steps` decisions; None: not reached."""
        file = self.path / f"halt-{steps}.json"
        if not file.is_file():
            return None
        return [Run(**values) for values in parse_json(file.read_text("utf-8"))["runs"]]

    def save_rung(self, steps: int, runs: Sequence[Run]) -> None:
        """Write the results at a rung, so that later trials are compared with the same."""
        write_whole(self.path / f"halt-{steps}.json", as_json({"runs": [asdict(run) for run in runs]}))

    def read_run(self, seed: int) -> Run | None:
        """The result of one seed so far; None: none yet."""
        evaluation = seed_folder(self.path, seed) / FIGURES
        if evaluation.is_file():
            values = parse_json(evaluation.read_text("utf-8"))
            return Run(seed, 0, values["seconds"], values["excess"], values["figures"])
        training = self.run_folder(seed)
        latest = training.latest()
        if latest is None:
            return None
        standing = latest[1]
        figures = read_about(training.path)["validation"]
        return Run(seed, standing.steps, standing.seconds, standing.best_excess or 0.0, figures)


class SweepFolder:
    """A sweep's folder, which every node of a cluster must see."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tune = path / "ray"
        self.results = path / "results.parquet"
        self.best = path / "best.yaml"
        self.report = path / "report.html"
        self.stopping = path / "stopping"

    @property
    def exists(self) -> bool:
        """Whether there is a sweep."""
        return (self.path / SWEEP).exists()

    def check_free(self) -> None:
        """Refuse a folder with a sweep in it.

        Raises:
            BadInputError: there is one already.
        """
        if self.exists:
            remedy = "add --resume, or name another --out folder"
            raise BadInputError(str(self.path), "holds a sweep already", remedy)
        # Checkpoints without a sweep may be another user's.
        if next(self.path.glob("trials/*/seed-*/checkpoints/*"), None) is not None:
            raise BadInputError(str(self.path), "holds trials of no sweep", "name another --out folder")

    def create(self, sweep: Sweep) -> None:
        """Write the settings of a new sweep.

        Raises:
            BadInputError: there is one already, or the folder cannot be written.
        """
        self.check_free()
        try:
            write_whole(self.path / "versions.json", as_json(versions((*PACKAGES, "optuna"))))
            write_settings(self.path / SWEEP, as_yaml(sweep))
        except OSError as error:
            problem = f"cannot be written ({error})"
            raise BadInputError(str(self.path), problem, "name another --out") from None

    def read(self) -> Sweep:
        """The settings of the sweep.

        Raises:
            BadInputError: there is none, or they are damaged.
        """
        file = self.path / SWEEP
        if not file.exists():
            remedy = "name the folder of one, or start with rlsched tune FILE"
            raise BadInputError(str(self.path), "holds no sweep", remedy)
        return validate(Sweep, read_yaml(read_text(file), str(file)), str(file))

    def check_settings(self) -> None:
        """Refuse settings that were edited by hand: trials of both would be compared.

        Raises:
            BadInputError: they were edited.
        """
        if was_edited(self.path / SWEEP):
            raise edited(self.path / SWEEP, "start another sweep")

    def request_stop(self) -> None:
        """Ask trials on all nodes to stop after their iterations."""
        write_whole(self.stopping, b"")

    def clear_stop_request(self) -> None:
        """Withdraw the request to stop."""
        self.stopping.unlink(missing_ok=True)

    def trial(self, point: Point) -> TrialFolder:
        """The folder of a point's trial."""
        return TrialFolder(self.path / "trials" / point_id(point))

    def trials(self) -> list[TrialFolder]:
        """The trials that have started, the oldest first."""
        trials = [TrialFolder(file.parent) for file in (self.path / "trials").glob(f"*/{POINT}")]
        return sorted(trials, key=lambda trial: (trial.read_point()[0], trial.path.name))

    def fronts(self) -> list[Path]:
        """Files with the settings of the Pareto front, in the order of their numbers."""
        return sorted(self.path.glob("front-*.yaml"))
