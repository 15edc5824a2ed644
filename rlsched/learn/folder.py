"""Run folder: settings, versions, metrics, checkpoints and the best policy of one training run.

train.yaml                               settings of the run, scenario included, to run it again
scenario.yaml versions.json              the scenario again, for --scenario; versions of the packages
process.json                             the process that trains, or did last
inputs.json                              checksums of the dataset, trace and power series that it uses
validation.json                          metric of the validation, heuristics' figures, limits of costs
metrics.csv tensorboard/                 one row per iteration
checkpoints/000010/                      the engine's state, the policy, and the progress of the run
start/                                   the policy before training
read/                                    launchpad's policy after offline pre-training
best/                                    the best policy so far
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from socket import gethostname
from typing import Any

from rlsched.errors import BadInputError
from rlsched.evaluate.seeds import named_seeds, seed_folders
from rlsched.files import Alone, write_whole
from rlsched.inputs import INPUTS, check_inputs, save_inputs
from rlsched.learn.checkpoints import MANIFEST, Checkpoints, Standing
from rlsched.learn.config.training import ResolvedConfig, make_config, parse_config
from rlsched.scenario import ResolvedScenario, Scenario, parse
from rlsched.scenario.combined_file import dump_combined
from rlsched.settings_files import as_json, as_yaml, edited, read_text, read_yaml, was_edited, write_settings
from rlsched.versions import versions

SCENARIO, TRAIN, PROCESS = "scenario.yaml", "train.yaml", "process.json"
OF_A_SEED = ("seed", "steps", "minutes", "dataset")
"""Settings that may differ between runs of several seeds, which may be extended or get a moved dataset."""
PACKAGES = ("rlsched", "ray", "torch", "gymnasium", "numpy", "numba")


class RunFolder:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start = path / "start"
        self.read_first = path / "read"
        self.best = path / "best"
        self.metrics = path / "metrics.csv"
        self.validation = path / "validation.json"
        self.checkpoints = Checkpoints(path / "checkpoints")

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

    def create(self, scenario: ResolvedScenario, config: ResolvedConfig, inputs: Mapping[str, str]) -> None:
        """Begin a run; `inputs` maps names of input files to their checksums.

        Raises:
            BadInputError: there is a run already, or the folder cannot be written.
        """
        self.check_free()
        try:
            self.checkpoints.path.mkdir(parents=True, exist_ok=True)
            save_inputs(self.path, inputs)
            self._write_settings(scenario, config)
            write_whole(self.path / "versions.json", as_json(versions(PACKAGES)))
        except OSError as error:
            raise self._not_writable(error) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder, and lock it against other trainings, at most until the process ends.

        Raises:
            BadInputError: another process trains it, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            process = self.path / PROCESS
            process.touch()
            lock = Alone(process)
        except BlockingIOError:
            raise BadInputError(
                str(self.path), f"is being trained by {self._trainer()}", "wait for it, or end it"
            ) from None
        except OSError as error:
            raise self._not_writable(error) from None
        try:
            # Written into the same file: a new file in its place would not be locked.
            process.write_bytes(as_json({"pid": os.getpid(), "host": gethostname()}))
            yield
        finally:
            lock.let_go()

    def _trainer(self) -> str:
        try:
            values = json.loads((self.path / PROCESS).read_bytes())
            return f"process {values['pid']} on host {values['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def _not_writable(self, error: OSError) -> BadInputError:
        return BadInputError(str(self.path), f"cannot be written ({error})", "name another --out")

    def check_inputs(self, inputs: Mapping[str, str]) -> None:
        """Check that a resumed run has the inputs it began with; older versions stored no checksums.

        Raises:
            BadInputError: an input has changed since.
        """
        if self.knows_inputs():
            check_inputs(self.path, inputs, "begin another run")

    def knows_inputs(self) -> bool:
        """Whether the checksums of the run's inputs are stored."""
        return (self.path / INPUTS).exists()

    def read(self) -> tuple[Scenario, ResolvedConfig]:
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
            simulated, config = parse_config(values, str(train))
            return simulated, config.resolve(simulated)
        scenario = self.path / SCENARIO  # older versions wrote it into its own file alone
        simulated = parse(read_yaml(read_text(scenario), str(scenario)), str(scenario))
        return simulated, make_config(values, str(train)).resolve(simulated)

    def latest(self) -> tuple[Path, Standing] | None:
        """The newest checkpoint and its progress, or None."""
        return self.checkpoints.latest()

    def rows(self) -> list[dict[str, str]]:
        """Rows of metrics.csv as text, without truncated ones."""
        rows = list(csv.DictReader(self._lines(), quoting=csv.QUOTE_NONE))
        whole = [row for row in rows if None not in row and None not in row.values()]
        return [row for row in whole if _is_count(row.get("iteration", ""))]

    def _lines(self) -> list[str]:
        """Complete lines of metrics.csv."""
        if not self.metrics.is_file():
            return []
        with self.metrics.open(newline="", encoding="utf-8", errors="replace") as file:
            return [line for line in file if line.endswith("\n")]

    def first(self, column: str) -> float | None:
        """First number in a column of metrics.csv; None where there is none."""
        cells = (row.get(column, "") for row in self.rows())
        return next((float(text) for text in cells if _is_number(text)), None)

    def keep_metrics_up_to(self, iteration: int) -> None:
        """Drop rows after an iteration: a run that resumes from there writes them again.

        Damaged cells become empty, and rows with more damage are dropped. A copy of a damaged file is kept.
        """
        if not self.metrics.is_file():
            return
        lines, rows = self._lines(), self.rows()
        whole = [{name: cell if _is_number(cell) else "" for name, cell in row.items()} for row in rows]
        columns = self._columns()
        if whole != rows or len(rows) < len(lines) - 1:
            shutil.copyfile(self.metrics, self.metrics.with_suffix(".csv.damaged"))
        if "iteration" not in columns:
            self.metrics.unlink()
            return
        self._write_metrics(columns, [row for row in whole if int(row["iteration"]) <= iteration])

    def save_validation(self, values: Mapping[str, Any]) -> None:
        """Write the figures that policies of this run are compared with."""
        write_whole(self.validation, as_json(values))

    def check_settings(self) -> None:
        """Refuse to resume with settings that were edited by hand; older versions wrote no checksum.

        Raises:
            BadInputError: they were.
        """
        for path in (self.path / TRAIN, self.path / SCENARIO):
            changed = was_edited(path)
            if changed is None and path.name == TRAIN:  # versions that sign checkpoints add checksums
                changed = any(self.checkpoints.path.glob(f"*/{MANIFEST}"))
            if changed:
                raise edited(path, "begin another run; --steps and --minutes may change with --resume")

    def go_on(self, scenario: ResolvedScenario, config: ResolvedConfig, inputs: Mapping[str, str]) -> None:
        """Write the settings of a resumed run, which may be longer now, or have moved files."""
        save_inputs(self.path, inputs)
        self._write_settings(scenario, config)

    def _write_settings(self, scenario: ResolvedScenario, config: ResolvedConfig) -> None:
        write_settings(self.path / SCENARIO, as_yaml(scenario))
        write_settings(self.path / TRAIN, dump_combined(scenario, config))

    def append_metrics(self, row: Mapping[str, float | int | None]) -> None:
        """Add one iteration's row, and columns that the file of an older version does not have."""
        columns = self._columns()
        if not set(row) <= set(columns):
            columns += [name for name in row if name not in columns]
            self._write_metrics(columns, self.rows())
        with self.metrics.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns, restval="")
            writer.writerow({key: "" if value is None else value for key, value in row.items()})

    def _columns(self) -> list[str]:
        """Columns of the present metrics.csv."""
        if not self.metrics.is_file():
            return []
        with self.metrics.open(newline="", encoding="utf-8", errors="replace") as file:
            return next(csv.reader(file, quoting=csv.QUOTE_NONE), [])

    def _write_metrics(self, columns: Sequence[str], rows: Iterable[Mapping[str, str]]) -> None:
        """Rewrite metrics.csv as a whole."""
        content = StringIO(newline="")
        writer = csv.DictWriter(content, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_whole(self.metrics, content.getvalue().encode())


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_no_run(out: Path) -> None:
    """Refuse a folder with one ordinary run in it.

    Raises:
        BadInputError: it holds one.
    """
    if RunFolder(out).holds_run:
        raise BadInputError(str(out), "holds a run without --seeds", "name another --out folder")


def first_run(out: Path) -> RunFolder:
    """Run of the lowest seed in a folder of several seeds, after a check that all have its settings.

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
    """Settings that runs of several seeds must share."""
    values = run.read()[1].model_dump(mode="json")
    return {name: value for name, value in values.items() if name not in OF_A_SEED}
