"""The Ray that an algorithm runs on: one of its own on this machine, or a cluster that is there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import ray

from rlsched.errors import BadInputError
from rlsched.learn.config import TrainConfig


def session_for(config: TrainConfig, address: str | None) -> AbstractContextManager[None]:
    """What must run while the algorithm does: Ray, where it is RLlib's."""
    return ray_session(address) if config.engine == "rllib" else nullcontext()


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Ray on this machine or a cluster, quiet, and ended with the run if it was started for it."""
    started = not ray.is_initialized()
    if started:
        if address is None:
            # Ray puts its workers last (15), behind a learner that may keep all cores busy: runners then play
            # at half the speed, and beside other work not at all, until they are taken for hung.
            os.environ.setdefault("RAY_worker_niceness", "0")
            # Ray remembers 100,000 tasks for its dashboard, which is not there: with APPO 60 MB in an hour.
            os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
        try:
            ray.init(
                address=address or "local",
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            if address is None:
                raise
            raise BadInputError(
                "--address", f"no Ray cluster answers at {address} ({error})", "start one, or leave it out"
            ) from None
    try:
        yield
    finally:
        if started:
            ray.shutdown()
