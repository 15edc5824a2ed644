"""Settings of a run for `rlsched train`: of a new run, and of one that resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlsched.cli.options import check_trace, given_scenario, trace_setting
from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.learn.config.training import TrainConfig
    from rlsched.learn.folder import RunFolder
    from rlsched.scenario import Scenario

GROWING = {"steps", "minutes"}
"""Settings that may change when a run resumes."""


def settings_given(
    config: Path | None,
    scenario: str | None,
    trace: Path | None,
    overrides: Sequence[str],
    chosen: Mapping[str, str] | None = None,
) -> tuple[Scenario, TrainConfig]:
    """The settings of a new run.

    Args:
        config: a training file.
        scenario: a name or file.
        trace: of jobs.
        overrides: `--set` assignments.
        chosen: algorithm and dataset, where their options are given.

    Raises:
        BadInputError: more than one source of settings, or they are wrong.
    """
    from rlsched.learn.config.training import TrainConfig, make_config, read_config
    from rlsched.offline.manifest import read_manifest
    from rlsched.scenario import parse
    from rlsched.scenario.combined_file import split_overrides

    chosen = dict(chosen or {})
    sources = [name for name, value in (("--scenario", scenario), ("--trace", trace)) if value]
    if (config is not None and sources) or not (config or sources or "dataset" in chosen):
        raise BadInputError(
            "rlsched train",
            f"{' and '.join(['CONFIG', *sources])} are both given" if sources else "nothing to train on",
            "give CONFIG, or --scenario, --trace or both of them, or --dataset",
        )
    if config is not None:
        return read_config(config, overrides, chosen)
    for_training, for_scenario = split_overrides(TrainConfig, overrides)
    if "dataset" in chosen and scenario is None:
        recorded = read_manifest(Path(chosen["dataset"])).scenario.model_dump(mode="json")
        moved = [] if trace is None else [trace_setting(trace)]
        simulated = parse(recorded, chosen["dataset"], [*moved, *for_scenario])
    else:
        simulated = given_scenario(scenario, trace, for_scenario)
    if trace is None:
        check_trace(simulated)
    return simulated, make_config(chosen, "--set", for_training)


def settings_of_run(
    folder: RunFolder, overrides: Sequence[str], moved: Mapping[str, Path | None]
) -> tuple[Scenario, TrainConfig]:
    """The settings of a run that resumes.

    Args:
        folder: of the run.
        overrides: `--set` assignments.
        moved: `trace` and `dataset` -> where they are now; None: where they were.

    Raises:
        BadInputError: there is no run, or a setting other than its length is to change.
    """
    from rlsched.learn.config.training import make_config
    from rlsched.scenario import files, parse

    simulated, training = folder.read()
    changed = {override.partition("=")[0] for override in overrides} - GROWING
    if changed:
        raise BadInputError(
            "--resume", f"cannot change {', '.join(sorted(changed))}", "only steps and minutes may change"
        )
    had = files(simulated) | ({} if training.dataset is None else {"dataset": training.dataset})
    files_moved = {name: path for name, path in moved.items() if path is not None}
    for name in files_moved:
        if name not in had:
            raise BadInputError(f"--{name}", f"the run has no {name}", "leave it out")
        if not folder.knows_inputs():
            raise BadInputError(
                f"--{name}",
                "the run is of a version that did not record its inputs",
                f"remove it, and restore {had[name]}",
            )
    if "trace" in files_moved:
        where = str(folder.path / "train.yaml")
        simulated = parse(simulated.model_dump(mode="json"), where, [trace_setting(files_moved["trace"])])
    values = training.model_dump(mode="json")
    if "dataset" in files_moved:
        values["dataset"] = str(files_moved["dataset"])
    return simulated, make_config(values, "--resume", overrides)
