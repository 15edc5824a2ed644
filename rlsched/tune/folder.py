"""The folder of a sweep: its settings, one folder per trial, and what came of all of them.

    sweep.yaml versions.json        what is searched, to search it again
    trials/0a1b2c3d4e/point.json    the settings of a trial; `done` beside it where it got to its end
    trials/0a1b2c3d4e/seed-0/       the run folder of its training, as of `rlsched train`, or figures.json
    ray/                            what Ray Tune writes of itself
    stopping                        while trials are asked to stop
    results.parquet best.yaml       the outcome: every run of every trial, and the best settings to train
    front-1.yaml ...                with several objectives those that none beats in all
    report.html                     the outcome in pictures

Nothing but these files says how far a sweep is: whoever goes on with it looks at them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
from rlsched.tune.space import Point, name_of
from rlsched.tune.sweep import Sweep
from rlsched.versions import versions

SWEEP, POINT, FIGURES, DONE = "sweep.yaml", "point.json", "figures.json", "done"


@dataclass(frozen=True)
class Run:
    """One seed of a trial, as far as it is.

    Attributes:
        seed: of the training, or of the episodes.
        steps: decisions that were learned from.
        seconds: that they took.
        excess: by how much limits, or those of hoarding, are broken (`Score.excess`).
        figures: metric -> mean over the validation episodes of the best policy, or those that were played.
    """

    seed: int
    steps: int
    seconds: float
    excess: float
    figures: Mapping[str, float]


class TrialFolder:
    """One trial's folder.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, point: Point) -> None:
        """Write down what the trial is, if that is not there yet."""
        if not (self.path / POINT).exists():
            write_whole(self.path / POINT, as_json({"began": time.time(), "point": dict(point)}))

    def told(self) -> tuple[float, dict[str, Any]]:
        """When it began, and its point.

        Raises:
            BadInputError: that is damaged.
        """
        file = self.path / POINT
        try:
            values = parse_json(file.read_text("utf-8"))
            return float(values["began"]), dict(values["point"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInputError(
                str(file), f"is damaged ({error!r})", f"remove {self.path}: it is tried again"
            ) from None

    @property
    def done(self) -> bool:
        """Whether every seed got to its end."""
        return (self.path / DONE).exists()

    def finish(self) -> None:
        """Every seed got to its end."""
        write_whole(self.path / DONE, b"")

    def training(self, seed: int) -> RunFolder:
        """The run folder of a training."""
        return RunFolder(seed_folder(self.path, seed))

    def save_figures(
        self, seed: int, seconds: float, figures: Mapping[str, float], excess: float = 0.0
    ) -> None:
        """Keep what a policy came to that nobody trained."""
        values = {"seconds": seconds, "excess": excess, "figures": dict(figures)}
        write_whole(seed_folder(self.path, seed) / FIGURES, as_json(values))

    def ended(self, seed: int) -> bool:
        """Whether a training is at its end, however early it came."""
        return (seed_folder(self.path, seed) / DONE).exists()

    def end(self, seed: int) -> None:
        """A training is at its end."""
        write_whole(seed_folder(self.path, seed) / DONE, b"")

    def halted(self, halt: int) -> list[Run] | None:
        """What the seeds had come to at a halt; None where it was not reached."""
        file = self.path / f"halt-{halt}.json"
        if not file.is_file():
            return None
        return [Run(**values) for values in parse_json(file.read_text("utf-8"))["runs"]]

    def save_halt(self, halt: int, runs: Sequence[Run]) -> None:
        """Keep what trials are compared by at a halt: those who come later are compared by the same."""
        write_whole(self.path / f"halt-{halt}.json", as_json({"runs": [asdict(run) for run in runs]}))

    def run(self, seed: int) -> Run | None:
        """What one seed came to so far; None before there is anything."""
        played = seed_folder(self.path, seed) / FIGURES
        if played.is_file():
            values = parse_json(played.read_text("utf-8"))
            return Run(seed, 0, values["seconds"], values["excess"], values["figures"])
        training = self.training(seed)
        latest = training.latest()
        if latest is None:
            return None
        standing = latest[1]
        figures = read_about(training.path)["validation"]
        return Run(seed, standing.steps, standing.seconds, standing.best_excess or 0.0, figures)


class SweepFolder:
    """A sweep's folder.

    Args:
        path: of the folder; every node of a cluster must see it.
    """

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
            raise BadInputError(
                str(self.path), "holds a sweep already", "add --resume, or name another --out folder"
            )
        # Checkpoints without a sweep are another's, which nobody has checked.
        if next(self.path.glob("trials/*/seed-*/checkpoints/*"), None) is not None:
            raise BadInputError(str(self.path), "holds trials of no sweep", "name another --out folder")

    def create(self, sweep: Sweep) -> None:
        """Begin a sweep.

        Raises:
            BadInputError: there is one already, or the folder cannot be written.
        """
        self.check_free()
        try:
            write_whole(self.path / "versions.json", as_json(versions((*PACKAGES, "optuna"))))
            write_settings(self.path / SWEEP, as_yaml(sweep))
        except OSError as error:
            raise BadInputError(
                str(self.path), f"cannot be written ({error})", "name another --out"
            ) from None

    def read(self) -> Sweep:
        """The settings of the sweep.

        Raises:
            BadInputError: there is none, or they are damaged.
        """
        file = self.path / SWEEP
        if not file.exists():
            raise BadInputError(
                str(self.path), "holds no sweep", "name the folder of one, or begin with rlsched tune FILE"
            )
        return validate(Sweep, read_yaml(read_text(file), str(file)), str(file))

    def check_settings(self) -> None:
        """Refuse to go on with settings that were edited by hand: trials of both would be compared.

        Raises:
            BadInputError: they were.
        """
        if was_edited(self.path / SWEEP):
            raise edited(self.path / SWEEP, "begin another sweep")

    def ask_to_stop(self) -> None:
        """Ask trials to stop after their iterations, wherever they run."""
        write_whole(self.stopping, b"")

    def let_run(self) -> None:
        """Ask no longer."""
        self.stopping.unlink(missing_ok=True)

    def trial(self, point: Point) -> TrialFolder:
        """The folder of a point's trial."""
        return TrialFolder(self.path / "trials" / name_of(point))

    def trials(self) -> list[TrialFolder]:
        """Those that have begun, the oldest first."""
        found = [TrialFolder(file.parent) for file in (self.path / "trials").glob(f"*/{POINT}")]
        return sorted(found, key=lambda trial: (trial.told()[0], trial.path.name))

    def fronts(self) -> Iterator[Path]:
        """Files of settings on the front, as they are numbered."""
        return iter(sorted(self.path.glob("front-*.yaml")))
