"""Reading a sweep, and the checks of all its points before anything starts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlsched.errors import BadInputError
from rlsched.evaluate.policy_names import is_checkpoint
from rlsched.learn.config.training import TrainConfig
from rlsched.learn.plan import check_teachers, in_place, resolve_run
from rlsched.scenario import rooted
from rlsched.settings import validate
from rlsched.settings_files import read_text, read_yaml
from rlsched.tune.evaluation import open_comparison
from rlsched.tune.space import Point, assignments
from rlsched.tune.sweep import Sweep


def read_sweep(path: Path, overrides: Iterable[str] = ()) -> Sweep:
    """Read a sweep, check it, and make it independent of other files.

    Args:
        path: of the file.
        overrides: `--set` assignments to its base.

    Raises:
        BadInputError: the file, a key or a value is wrong.
    """
    where = str(path)
    values = read_yaml(read_text(path), where)
    sweep = validate(Sweep, values, where)
    if more := list(overrides):
        sweep = validate(Sweep, {**values, "set": [*sweep.set, *more]}, where)
    check_sweep(sweep, where)
    return self_contained(sweep, where)


FILE_SETTINGS = ("dataset", "workload.file", "power.file", "warm_start.teacher", "search.start")
"""Settings that name files."""


def self_contained(sweep: Sweep, where: str) -> Sweep:
    """The sweep with the content of its scenario's file, and with absolute paths of all other files.

    Its trials may then run in any folder, and the scenario's file may change.
    """
    scenario, config = sweep.settings(where)
    training = {} if sweep.policy is not None else in_place(config).model_dump(mode="json", exclude={"seed"})
    space = {
        key: domain.model_copy(update={"values": tuple(map(_rooted, domain.values))})
        if key in FILE_SETTINGS and domain.values is not None
        else domain
        for key, domain in sweep.space.items()
    }
    return sweep.model_copy(
        update={
            "base": {**training, "scenario": rooted(scenario).model_dump(mode="json")},
            "set": (),
            "space": space,
            "policy": _rooted(sweep.policy) if is_checkpoint(sweep.policy or "") else sweep.policy,
        }
    )


def _rooted(path: Any) -> Any:
    return str(Path(path).resolve()) if isinstance(path, str) and Path(path).exists() else path


def check_sweep(sweep: Sweep, where: str) -> None:
    """Check all points before anything starts; errors name `where`, the sweep's file or folder.

    Raises:
        BadInputError: a setting cannot have one of its values.
    """
    sweep.settings(where)
    if sweep.policy is not None:
        for key in sweep.space:
            if key.partition(".")[0] in TrainConfig.model_fields:
                problem = "is not supported with a policy"
                raise BadInputError(f"{where}: space.{key}", problem, "remove policy")
    for key, domain in sweep.space.items():
        for value in domain.extremes():
            try:
                sweep.settings(where, {key: value})
            except BadInputError as error:
                if key in error.where:  # else the value may fit other settings of a point, checked below
                    raise BadInputError(f"{where}: space.{key}", error.problem, error.remedy) from None
    for point in checked_points(sweep):
        check_point(sweep, where, point)


def checked_points(sweep: Sweep) -> list[dict[str, Any]]:
    """The points to check: all; of optuna each value together with the first of all other settings."""
    if sweep.search.kind != "optuna":
        return sweep.points()
    first = {key: domain.extremes()[0] for key, domain in sweep.space.items()}
    return [first | {key: value} for key, domain in sweep.space.items() for value in domain.extremes()]


def check_point(sweep: Sweep, where: str, point: Point) -> None:
    """Check that a trial can run.

    Raises:
        BadInputError: it cannot, with the values of the point.
    """
    try:
        scenario, config = sweep.settings(where, point)
        if sweep.policy is None:
            feed, config = resolve_run(scenario, config)
            check_teachers(config, feed)
        else:
            open_comparison(scenario, sweep.policy, sweep.episodes, 0)
    except BadInputError as error:
        settings = ", ".join(assignments(point))
        raise BadInputError(f"{where}: {settings}: {error.where}", error.problem, error.remedy) from None
