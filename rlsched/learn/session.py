"""The Ray that an algorithm runs on: one of its own on this machine, or a cluster that is there."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import ray
from ray._private import services
from ray._private.node import Node

from rlsched.errors import BadInputError

if TYPE_CHECKING:
    from rlsched.learn.config import TrainConfig

STARTS = 3
"""Times that Ray is started where the machine is too busy for the time that it has."""


def session_for(config: TrainConfig, address: str | None) -> AbstractContextManager[None]:
    """What must run while the algorithm does: Ray, where it is RLlib's."""
    return ray_session(address) if config.engine == "rllib" else nullcontext()


@contextmanager
def ray_session(address: str | None, **settings: Any) -> Iterator[None]:
    """Ray on this machine or a cluster, quiet, and ended with the run if it was started for it.

    Args:
        address: of a cluster; None: this machine.
        settings: others of `ray.init`, where it is started here.
    """
    started = not ray.is_initialized()
    if started:
        if address is None:
            # Ray puts its workers last (15), behind a learner that may keep all cores busy: runners then play
            # at half the speed, and beside other work not at all, until they are taken for hung.
            os.environ.setdefault("RAY_worker_niceness", "0")
            # Ray remembers 100,000 tasks for its dashboard, which is not there: with APPO 60 MB in an hour.
            os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
        try:
            here = settings if address is None else {}
            start_ray(address or "local", logging_level=logging.ERROR, **here)
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


def start_ray(address: str = "local", **settings: Any) -> str:
    """Start Ray on this machine, or join a cluster.

    Ray gives its processes 15 and 30 s to come up, whatever the machine does beside, and no setting for it
    (https://github.com/ray-project/ray/issues/65983). What was not in time is ended, and started again.

    Args:
        address: of a cluster, or `local`.
        settings: others of `ray.init`.

    Returns:
        The address of the cluster.
    """
    late = 0
    while True:
        try:
            with lean_node():
                context = ray.init(address=address, include_dashboard=False, log_to_driver=False, **settings)
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
            end_processes(error)
            late += 1
            if late == STARTS:
                error.add_note(f"late {late} times: the machine is too busy, end or wait for something else")
                raise
        else:
            found: str = context.address_info["address"]
            return found


@contextmanager
def lean_node() -> Iterator[None]:
    """Leave out what Ray starts beside a node for a dashboard, an autoscaler and a driver that wants logs.

    There are none here. They are three Python processes, for which Ray waits: without them it starts in 2.1
    to 3.4 s instead of 4.2 to 6.0, and ends in 0.2 instead of 1.3 (two cores). `ray start` has settings for
    two of them, `ray.init` none. The node's agent is told that what a dashboard needs is not installed.
    """

    def nothing(node: Node, **settings: Any) -> None:
        """In place of a start."""

    def command(*given: Any, **settings: Any) -> list[str]:
        """That runs an agent."""
        return [*ordinary(*given, **settings), str(Path(__file__).with_name("lean_agent.py"))]

    ordinary = services._build_python_executable_command_memory_profileable
    with (
        patch.object(Node, "start_api_server", nothing),
        patch.object(Node, "start_monitor", nothing),
        patch.object(Node, "start_log_monitor", nothing),
        patch.object(services, "_build_python_executable_command_memory_profileable", command),
        patch("ray._private.utils.get_dashboard_dependency_error", return_value=ImportError("left out")),
    ):
        yield


def end_processes(error: Exception) -> None:
    """End what a node has started before it failed: Ray would at the end of this process."""
    for frame, _ in walk_tb(error.__traceback__):
        node = frame.f_locals.get("self")
        if isinstance(node, Node):
            node.kill_all_processes(check_alive=False, allow_graceful=False)
            return
