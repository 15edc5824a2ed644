"""Learning curves of run folders, for reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlsched.errors import BadInputError
from rlsched.evaluate.statistics import PolicyLabel
from rlsched.json_files import parse_json
from rlsched.learn.folder import RunFolder
from rlsched.report.learning_curve import Curve, LearningCurves

DEEPEST = 3  # levels of folders between a run and a policy in it, as in checkpoints/000010/policy


def learning_of(policies: Sequence[Path]) -> list[LearningCurves]:
    """Learning curves of the runs of these policies; runs with the same validation share a picture.

    Policies outside of runs, and runs without points, are left out.

    Raises:
        BadInputError: files of a run are damaged.
    """
    pictures: list[LearningCurves] = []
    for folder in _runs(policies):
        try:
            facts = parse_json(folder.validation.read_text("utf-8"))
            metric = facts["metric"]
            heuristics = {_label(name): values[metric] for name, values in facts["heuristics"].items()}
            curve = curve_of(folder, metric)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInputError(
                str(folder.path),
                f"its validation.json or metrics.csv is damaged ({error!r})",
                "restore or move it",
            ) from None
        if not len(curve.all_steps):
            continue
        for k, picture in enumerate(pictures):
            if (picture.metric, picture.heuristics) == (metric, heuristics):
                pictures[k] = LearningCurves(metric, [*picture.curves, curve], heuristics)
                break
        else:
            pictures.append(LearningCurves(metric, [curve], heuristics))
    return pictures


def _runs(policies: Sequence[Path]) -> list[RunFolder]:
    """The runs of these policies, without repeats, in their order."""
    folders: dict[Path, RunFolder] = {}
    for policy in policies:
        for path in (policy, *(policy.parents or policy.absolute().parents)[:DEEPEST]):
            folder = RunFolder(path)
            if folder.validation.is_file():
                folders.setdefault(path.resolve(), folder)
                break
    return list(folders.values())


def _label(name: str) -> str:
    """The label of a heuristic of validation.json in the report."""
    heuristic, _, rule = name.partition(":")
    return str(PolicyLabel(heuristic, rule or "greedy"))


def curve_of(folder: RunFolder, metric: str) -> Curve:
    """The learning curve of a run."""
    rows = folder.rows()

    def column(name: str) -> tuple[list[float], list[float]]:
        points = [(float(row["steps"]), float(row[name])) for row in rows if row.get(name)]
        return [step for step, _ in points], [value for _, value in points]

    steps, values = column(metric)
    checked_at, checked = column(f"validation_{metric}")
    selected = np.array([float(row["kept"]) > 0 for row in rows if row.get(f"validation_{metric}")], np.bool_)
    return Curve(
        str(folder.path), np.array(steps), np.array(values), np.array(checked_at), np.array(checked), selected
    )
