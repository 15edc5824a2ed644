"""Trainings of the same settings with several seeds, one after the other, each in a run folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rlsched.evaluate.seeds import seed_folder
from rlsched.learn.config.training import ResolvedConfig
from rlsched.learn.folder import RunFolder, check_no_run
from rlsched.learn.run import Display, train
from rlsched.learn.summary import Summary, ended_before
from rlsched.scenario import Scenario


def train_seeds(
    scenario: Scenario,
    config: ResolvedConfig,
    out: Path,
    count: int,
    display: Display,
    *,
    say: Callable[[str], None],
    resume: bool = False,
    address: str | None = None,
    trust: bool = False,
) -> dict[int, Summary]:
    """Train with one seed after the other, until all runs have ended or one is interrupted.

    Args:
        scenario: to simulate.
        config: how to train, settled, with the first seed; the next ones follow.
        out: folder of the series, in which each run has its own (`seed_folder`).
        count: number of seeds.
        display: shows progress.
        say: prints a message after the first line of the next training.
        resume: resume the runs that were interrupted; ended runs are not trained again.
        address: of a Ray cluster; left out: this machine.
        trust: accept checkpoints that this user has not signed; see `plan`.

    Returns:
        Seed -> summary of its run, in order; of an interrupted series, up to the interrupted run.

    Raises:
        BadInputError: the settings or the folder cannot be used; before anything long starts.
    """
    check_no_run(out)
    if not resume:
        RunFolder(out).check_free()
    summaries: dict[int, Summary] = {}
    for number in range(count):
        seed = config.seed + number
        seed_config, folder = config.model_copy(update={"seed": seed}), RunFolder(seed_folder(out, seed))
        if (ended := ended_before(seed_config, folder)) is not None:
            summaries[seed] = ended
            continue
        say(f"seed {seed}, {number + 1} of {count}, in {folder.path}")
        summaries[seed] = train(
            scenario, seed_config, folder, display, resume=folder.holds_run, address=address, trust=trust
        )
        if summaries[seed].reason == "interrupted":
            break
    return summaries
