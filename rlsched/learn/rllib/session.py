"""The Ray that an algorithm runs on: one of its own on this machine, or a cluster that is there."""

from __future__ import annotations

import ctypes
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import ray
from ray._common.utils import get_default_ray_temp_dir
from ray._private import ray_constants, services
from ray._private.node import Node

from rlsched.errors import BadInputError
from rlsched.files import ensure_home
from rlsched.learn.interrupts import held_signals, keep_sigterm

if TYPE_CHECKING:
    from rlsched.learn.config.training import TrainConfig

ANSWER_S = 5.0
"""In which a machine has to take a connection: Ray itself would try for minutes."""

SHORT = Path("/tmp/ray")
LONGEST = 107 - len("/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")
"""Of the folder that Ray puts its sockets into: a path of a socket has 107 bytes at most."""

FATAL_SIGNALS = "_ZN3ray6RayLog27InstallFailureSignalHandlerEPKcb"
"""Ray's `RayLog::InstallFailureSignalHandler(const char *, bool)`."""

STARTS = 3
"""Times that Ray is started where the machine is too busy for the time that it has."""


def session_for(config: TrainConfig, address: str | None) -> AbstractContextManager[None]:
    """What must run while the algorithm does: Ray, where it is RLlib's."""
    return ray_session(address) if config.algorithm.uses_ray else nullcontext()


@contextmanager
def ray_session(address: str | None, **settings: Any) -> Iterator[None]:
    """Ray on this machine or a cluster, quiet, and ended with the run if it was started for it.

    Args:
        address: of a cluster; None: this machine.
        settings: others of `ray.init`, where it is started here.
    """
    started = not ray.is_initialized()
    try:
        if started:
            open_session(address, **settings)
        yield
    finally:
        if started:  # also where a signal came while it started
            ray.shutdown()


def open_session(address: str | None, **settings: Any) -> None:
    """Start Ray on this machine, or join a cluster, quietly; see `ray_session`.

    Raises:
        BadInputError: there is no such cluster, or no place for Ray's files.
    """
    try:
        ensure_home()
    except OSError:
        raise BadInputError("HOME", "is no folder that can be written to", "set it to one of yours") from None
    if address is None:
        # Ray puts its workers last (15), behind a learner that may keep all cores busy: runners then play
        # at half the speed, and beside other work not at all, until they are taken for hung.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Ray remembers 100,000 tasks for its dashboard, which is not there: with APPO 60 MB in an hour.
        os.environ.setdefault("RAY_task_events_report_interval_ms", "0")
    else:
        check_address(address)
    try:
        here = short_folder() | settings if address is None else {}
        start_ray(address or "local", logging_level=logging.ERROR, **here)
    except (ConnectionError, ValueError, RuntimeError) as error:
        if address is None:
            raise
        raise BadInputError(
            "--address", f"no Ray cluster answers at {address} ({error})", "start one, or leave it out"
        ) from None


def check_address(address: str) -> None:
    """Refuse an address at which nobody takes connections; `auto` and names are left to Ray.

    Raises:
        BadInputError: nobody does.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, OverflowError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInputError(
            "--address", f"no Ray cluster answers at {address} ({reason})", "start one, or leave it out"
        ) from None


def short_folder() -> dict[str, str]:
    """Settings of `ray.init` that put its files where paths of sockets are short enough.

    Raises:
        BadInputError: that is nowhere.
    """
    usual = get_default_ray_temp_dir()
    if len(os.fsencode(usual)) <= LONGEST:
        return {}
    if os.access(SHORT if SHORT.exists() else SHORT.parent, os.W_OK):
        return {"_temp_dir": str(SHORT)}
    problem = f"{usual!r} is too long for Ray: {len(os.fsencode(usual))} bytes, and {LONGEST} at most"
    raise BadInputError("TMPDIR", problem, "set TMPDIR or RAY_TMPDIR to a shorter folder")


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
    precede_sigterm()
    late = 0
    while True:
        try:
            # Joining a cluster can be interrupted at once; a local start is ended in order.
            with lean_node(), held_signals() if address == "local" else nullcontext():
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
    two of them, `ray.init` none. The node's agent learns that the packages of a dashboard are not installed.
    Ray's handler of SIGTERM in Python is left out, too: it ends a driver halfway. Its processes listen at
    127.0.0.1 only, as by default on macOS and Windows: a client of one of their ports can run code.
    """

    def nothing(*given: Any, **settings: Any) -> None:
        """In place of a start."""

    def command(*given: Any, **settings: Any) -> list[str]:
        """That runs an agent."""
        return [*ordinary(*given, **settings), str(Path(__file__).with_name("lean_agent.py"))]

    ordinary = services._build_python_executable_command_memory_profileable
    with (
        patch.object(ray_constants, "ENABLE_RAY_CLUSTER", False),
        patch.object(Node, "start_api_server", nothing),
        patch.object(Node, "start_monitor", nothing),
        patch.object(Node, "start_log_monitor", nothing),
        patch.object(services, "_build_python_executable_command_memory_profileable", command),
        patch("ray._private.utils.set_sigterm_handler", nothing),
        patch("ray._private.utils.get_dashboard_dependency_error", return_value=ImportError("left out")),
    ):
        yield


def precede_sigterm() -> None:
    """Let Ray install its handler of fatal signals now, and put ours of SIGTERM in its place.

    Ray counts SIGTERM among them, prints a stack of C++ and aborts. It installs the handler once in a
    process, in the middle of a start that takes seconds, where Python could not replace it.
    """
    install = getattr(ctypes.CDLL(ray._raylet.__file__), FATAL_SIGNALS, None)
    if install is not None and threading.current_thread() is threading.main_thread():
        install(None, False)
        keep_sigterm()


def end_processes(error: Exception) -> None:
    """End what a node has started before it failed: Ray would at the end of this process."""
    for frame, _ in walk_tb(error.__traceback__):
        node = frame.f_locals.get("self")
        if isinstance(node, Node):
            node.kill_all_processes(check_alive=False, allow_graceful=False)
            return
