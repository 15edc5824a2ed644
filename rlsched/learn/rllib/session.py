"""The Ray that an algorithm runs on: one of its own on this machine, or a cluster that is there."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from rlsched.errors import BadInputError
from rlsched.files import ensure_home
from rlsched.learn.interrupts import held_signals
from rlsched.learn.rllib.ray_compat import default_temp_dir, end_processes, lean_node, precede_sigterm

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig

ANSWER_S = 5.0
"""In which a machine has to take a connection: Ray itself would try for minutes."""

SHORT = Path("/tmp/ray")
LONGEST = 107 - len("/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")
"""Of the folder that Ray puts its sockets into: a path of a socket has 107 bytes at most."""

STARTS = 3
"""Times that Ray is started where the machine is too busy for the time that it has."""


def session_for(config: ResolvedConfig, address: str | None) -> AbstractContextManager[None]:
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
        local = short_folder() | settings if address is None else {}
        start_ray(address or "local", logging_level=logging.ERROR, **local)
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
    usual = default_temp_dir()
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
            cluster_address: str = context.address_info["address"]
            return cluster_address
