"""The run folder: settings, versions, metrics, checkpoints and the best policy of one training run.

    train.yaml                               what the run is, scenario included, to run it again
    scenario.yaml versions.json              the scenario again, for --scenario; versions of the packages
    inputs.json                              checksums of the dataset, trace and power series that it uses
    validation.json                          metric of the validation, heuristics' figures, limits of costs
    metrics.csv tensorboard/                 one row per iteration
    checkpoints/000010/                      RLlib's state, the policy, and where the run stood
    start/                                   the policy before training
    read/                                    launchpad's policy when it began to play
    best/                                    the best policy so far

A checkpoint is written under a temporary name and renamed, so that one that is there is whole.
"""

from __future__ import annotations

import csv
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import named_seeds, seed_folders
from rlsched.files import write_whole
from rlsched.inputs import INPUTS, check_inputs, save_inputs
from rlsched.learn.config import TrainConfig, make_config, parse_config
from rlsched.learn.pid import LimitCheck
from rlsched.scenario import Scenario, parse
from rlsched.scenario.beside import yaml_with_scenario
from rlsched.settings import Frozen, as_json, as_yaml, read_text, read_yaml
from rlsched.versions import versions

SCENARIO, TRAIN = "scenario.yaml", "train.yaml"
KEPT_CHECKPOINTS = 2
OF_A_SEED = ("seed", "steps", "minutes", "dataset")
"""Settings in which runs of several seeds may differ: they may go on, or with a dataset that has moved."""
PACKAGES = ("rlsched", "ray", "torch", "gymnasium", "numpy", "numba")


class Standing(Frozen):
    """Where a run stands; in every checkpoint.

    Attributes:
        iteration: so many are done.
        steps: decisions of them.
        seconds: that they took.
        best_excess: of the best policy's score.
        best_value: likewise.
        best_metric: what it came to in validation.
        best_hoarding: its part of the excess; None: before this was told apart.
        best_checks: cost with a limit -> what validation says of it; empty likewise.
        checks: likewise, of the last validation's policy.
        since_best: validations since then.
        better: the last validation's policy is kept, and better than the best heuristic by interval.
    """

    iteration: int = 0
    steps: int = 0
    seconds: float = 0.0
    best_excess: float | None = None
    best_value: float | None = None
    best_metric: float | None = None
    best_hoarding: float | None = None
    best_checks: dict[str, LimitCheck] = Field({})
    checks: dict[str, LimitCheck] = Field({})
    since_best: int = 0
    better: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_older_versions(cls, values: Any) -> Any:
        """Without means of costs, which versions up to 929cdec wrote; a run that goes on has checks anew."""
        if isinstance(values, dict):
            values = {name: value for name, value in values.items() if name != "best_paid"}
        return values


class RunFolder:
    """One run's folder.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = path / "start"
        self.read_first = path / "read"
        self.best = path / "best"
        self.metrics = path / "metrics.csv"
        self.validation = path / "validation.json"
        self.checkpoints = path / "checkpoints"

    @property
    def holds_run(self) -> bool:
        """Whether there is a run."""
        return (self.path / TRAIN).exists()

    def check_free(self) -> None:
        """Refuse a folder with a run in it, or with runs of several seeds.

        Raises:
            BadInputError: there is one already.
        """
        if self.holds_run:
            raise BadInputError(
                str(self.path), "holds a run already", "add --resume, or name another --out folder"
            )
        if seeds := seed_folders(self.path):
            raise BadInputError(
                str(self.path),
                f"holds {named_seeds(seeds)} already",
                "add --seeds N --resume, or name another --out folder",
            )

    def create(self, scenario: Scenario, config: TrainConfig, inputs: Mapping[str, str]) -> None:
        """Begin a run.

        Args:
            scenario: that is simulated.
            config: how to train.
            inputs: what it learns from -> its checksum.

        Raises:
            BadInputError: there is a run already, or the folder cannot be written.
        """
        self.check_free()
        try:
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            save_inputs(self.path, inputs)
            self._write_settings(scenario, config)
            write_whole(self.path / "versions.json", as_json(versions(PACKAGES)))
        except OSError as error:
            raise BadInputError(
                str(self.path), f"cannot be written ({error})", "name another --out"
            ) from None

    def check_inputs(self, inputs: Mapping[str, str]) -> None:
        """See whether the run goes on with what it was begun with; older versions did not write it down.

        Raises:
            BadInputError: something has changed since.
        """
        if self.knows_inputs():
            check_inputs(self.path, inputs, "begin another run")

    def knows_inputs(self) -> bool:
        """Whether it was written down what the run was begun with."""
        return (self.path / INPUTS).exists()

    def has_start(self) -> bool:
        """Whether the policy before training has been kept, whole."""
        return self.start.is_dir()

    def read(self) -> tuple[Scenario, TrainConfig]:
        """The settings of the run in this folder.

        Raises:
            BadInputError: there is none.
        """
        train = self.path / TRAIN
        if not train.exists():
            remedy = "add --seeds N" if seed_folders(self.path) else "leave out --resume to begin one"
            raise BadInputError(str(self.path), "holds no run", remedy)
        values = read_yaml(read_text(train), str(train))
        if "warm_start" in values and values["warm_start"] is None:
            raise BadInputError(str(self.path), "is a run of an older version", "begin another run")
        if "scenario" in values:
            return parse_config(values, str(train))
        scenario = self.path / SCENARIO  # older versions wrote it into its own file alone
        return (
            parse(read_yaml(read_text(scenario), str(scenario)), str(scenario)),
            make_config(values, str(train)),
        )

    def save(self, standing: Standing, write: Callable[[Path], None]) -> Path:
        """Write a checkpoint and let go of old ones.

        Args:
            standing: where the run stands.
            write: puts everything else into the folder it is given.

        Raises:
            OSError: the disk is full or gone; earlier checkpoints are untouched.
        """
        final = self.checkpoints / f"{standing.iteration:06d}"
        new = self.checkpoints / f".{final.name}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        write(new)
        (new / "standing.json").write_text(standing.model_dump_json(indent=2) + "\n", "utf-8")
        shutil.rmtree(final, ignore_errors=True)
        os.replace(new, final)
        for old in self._whole()[:-KEPT_CHECKPOINTS]:
            shutil.rmtree(old, ignore_errors=True)
        return final

    def latest(self) -> tuple[Path, Standing] | None:
        """The newest whole checkpoint, or None."""
        for path in reversed(self._whole()):
            # Somebody who looks while a run goes on may meet one that is being replaced.
            with suppress(FileNotFoundError):
                return path, Standing.model_validate_json((path / "standing.json").read_text("utf-8"))
        return None

    def _whole(self) -> list[Path]:
        if not self.checkpoints.is_dir():
            return []
        return sorted(
            path
            for path in self.checkpoints.iterdir()
            if (path / "standing.json").is_file() and path.name.isdigit()
        )

    def rows(self) -> list[dict[str, str]]:
        """The rows of metrics.csv as they are written; part of a row, left by a killed run, is left out."""
        if not self.metrics.is_file():
            return []
        with self.metrics.open(newline="", encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
        rows = list(csv.DictReader(lines))
        whole = [row for row in rows if None not in row and None not in row.values()]
        return [row for row in whole if row["iteration"].isdigit()]

    def first(self, column: str) -> float | None:
        """The first figure of a column of metrics.csv; None where there is none."""
        found = (row.get(column) for row in self.rows())
        return next((float(text) for text in found if text), None)

    def keep_metrics_up_to(self, iteration: int) -> None:
        """Drop rows after an iteration: a run that goes on from there writes them again."""
        if columns := self._columns():
            rows = [row for row in self.rows() if int(row["iteration"]) <= iteration]
            self._write_metrics(columns, rows)

    def save_validation(self, values: Mapping[str, Any]) -> None:
        """Keep what the policies of this run are held against."""
        write_whole(self.validation, as_json(values))

    def go_on(self, scenario: Scenario, config: TrainConfig, inputs: Mapping[str, str]) -> None:
        """Keep the settings of a run that goes on, longer than it was to, or with files that have moved."""
        save_inputs(self.path, inputs)
        self._write_settings(scenario, config)

    def _write_settings(self, scenario: Scenario, config: TrainConfig) -> None:
        write_whole(self.path / SCENARIO, as_yaml(scenario))
        write_whole(self.path / TRAIN, yaml_with_scenario(scenario, config))

    def append_metrics(self, row: Mapping[str, float | int | None]) -> None:
        """Add one iteration's row; one of another version may bring columns that those before have not."""
        columns = self._columns()
        if not set(row) <= set(columns):
            columns += [name for name in row if name not in columns]
            self._write_metrics(columns, self.rows())
        with self.metrics.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writerow({key: "" if value is None else value for key, value in row.items()})

    def _columns(self) -> list[str]:
        """Of metrics.csv as it is."""
        if not self.metrics.is_file():
            return []
        with self.metrics.open(newline="", encoding="utf-8") as file:
            return next(csv.reader(file), [])

    def _write_metrics(self, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
        """Write metrics.csv anew, whole."""
        kept = StringIO(newline="")
        writer = csv.DictWriter(kept, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.metrics, kept.getvalue().encode())


def check_no_run(out: Path) -> None:
    """Refuse a folder with one ordinary run in it.

    Raises:
        BadInputError: it holds one.
    """
    if RunFolder(out).holds_run:
        raise BadInputError(str(out), "holds a run without --seeds", "name another --out folder")


def first_run(out: Path) -> RunFolder:
    """Of runs of several seeds in one folder that of the lowest; all others have its settings.

    Raises:
        BadInputError: the folder holds no seeds, or one of them was trained with other settings.
    """
    check_no_run(out)
    runs = {seed: RunFolder(path) for seed, path in seed_folders(out).items()}
    runs = {seed: run for seed, run in runs.items() if run.holds_run}
    if not runs:
        raise BadInputError(str(out), "holds no seeds of a training", "leave out --resume to begin with them")
    lowest = min(runs)
    expected = _settings(runs[lowest])
    for run in runs.values():
        if _settings(run) != expected:
            raise BadInputError(
                str(run.path), f"was trained with other settings than seed {lowest}", "move it elsewhere"
            )
    return runs[lowest]


def _settings(run: RunFolder) -> dict[str, object]:
    """What runs of several seeds have in common."""
    values = run.read()[1].model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in OF_A_SEED}
