"""Learning curves of run folders, as a report draws them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.learn.folder import RunFolder
from rlsched.report.learning_curve import Curve, LearningCurves


def learning_of(folders: Sequence[Path]) -> list[LearningCurves]:
    """The run folders among these that have trained, those validated on the same episodes in one picture.

    Raises:
        BadInputError: what a run has written about itself is damaged.
    """
    pictures: list[LearningCurves] = []
    for path in folders:
        folder = RunFolder(path)
        if not folder.validation.is_file():
            continue
        try:
            facts = json.loads(folder.validation.read_text("utf-8"))
            metric = facts["metric"]
            heuristics = {f"{name} greedy": values[metric] for name, values in facts["heuristics"].items()}
            curve = curve_of(folder, metric)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInputError(
                str(path), f"its validation.json or metrics.csv is damaged ({error!r})", "restore or move it"
            ) from None
        if not len(curve.steps) + len(curve.validation_steps):
            continue
        for k, picture in enumerate(pictures):
            if (picture.metric, picture.heuristics) == (metric, heuristics):
                pictures[k] = LearningCurves(metric, [*picture.curves, curve], heuristics)
                break
        else:
            pictures.append(LearningCurves(metric, [curve], heuristics))
    return pictures


def curve_of(folder: RunFolder, metric: str) -> Curve:
    """How a metric moved in one run."""
    rows = folder.rows()

    def column(name: str) -> tuple[list[float], list[float]]:
        points = [(float(row["steps"]), float(row[name])) for row in rows if row.get(name)]
        return [step for step, _ in points], [value for _, value in points]

    steps, values = column(metric)
    checked_at, checked = column(f"validation_{metric}")
    kept = np.array([float(row["kept"]) > 0 for row in rows if row.get(f"validation_{metric}")], np.bool_)
    return Curve(
        folder.path.name, np.array(steps), np.array(values), np.array(checked_at), np.array(checked), kept
    )
