"""Ray session of an algorithm: a new one on this machine, or an existing cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from rlsched.errors import BadInputError
from rlsched.files import ensure_home
from rlsched.learn.interrupts import held_signals
from rlsched.learn.rllib.ray_compat import (
    default_temp_dir,
    end_processes,
    largest_cluster,
    lean_node,
    precede_sigterm,
)

if TYPE_CHECKING:
    from rlsched.learn.config.training import ResolvedConfig

ANSWER_S = 5.0
"""Seconds for a cluster to accept a connection: Ray itself would try for minutes."""

SHORT = Path("/tmp/ray")
LONGEST = 107 - len("/session_2026-01-01_00-00-00_000000_0000000/sockets/plasma_store")
"""Longest path of Ray's folder, in bytes: a socket's path has at most 107."""

STARTS = 3
"""Largest number of attempts to start Ray on a busy machine."""


def session_for(config: ResolvedConfig, address: str | None) -> AbstractContextManager[None]:
    """Ray session for algorithms of RLlib; an empty context for others."""
    return ray_session(address) if config.algorithm.uses_ray else nullcontext()


@contextmanager
def ray_session(address: str | None, **settings: Any) -> Iterator[None]:
    """Start or join Ray quietly, and shut it down afterwards if it was started here.

    Args:
        address: of a cluster; None: this machine.
        settings: other arguments of `ray.init`, for a start on this machine.
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
        # Ray gives workers niceness 15, below a learner that may keep all cores busy. Runners then play at
        # half the speed, and beside other work so slowly that they are taken for hung.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Ray stores 100,000 tasks for its dashboard, which is not there: with APPO 60 MB in an hour.
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
    """Refuse an address that accepts no connection; `auto` and names are left to Ray.

    Raises:
        BadInputError: no process accepts connections there.
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
    """Arguments of `ray.init` that put its files where paths of sockets are short enough.

    Raises:
        BadInputError: there is no such folder.
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

    Ray gives its processes 15 and 30 s to start, however busy the machine is, and has no setting for it
    (https://github.com/ray-project/ray/issues/65983). A start that was too slow is ended and repeated.

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


def bundles(config: ResolvedConfig) -> list[dict[str, float]]:
    """CPUs and GPUs of each process that a training starts, its own excluded."""
    runners = config.sampling.runners if config.plays else 0
    gpus = config.gpus_per_learner
    learner: dict[str, float] = {"GPU": gpus} if gpus else {"CPU": 1.0}
    return [{"CPU": 1.0}] * runners + [learner] * config.learners


def check_resources(wanted: list[dict[str, float]], where: str, user: str) -> None:
    """Check that the running Ray, grown to its largest size, has these resources: it would wait for them.

    Args:
        wanted: resources of every process.
        where: setting in which a user asked for them, for the message.
        user: of the resources, for the message.

    Raises:
        BadInputError: it will never have them.
    """
    total: dict[str, float] = defaultdict(float)
    for bundle in wanted:
        for name, amount in bundle.items():
            total[name] += amount
    has, grows = ray.cluster_resources(), largest_cluster()
    for name, amount in total.items():
        available = max(has.get(name, 0), grows.get(name, 0))
        if amount > available:
            raise BadInputError(
                where,
                f"{user} wants {amount:g} {name}s, and Ray has {available:g} here",
                "ask for fewer (sampling.runners, learners, gpus_per_learner), or give --address of a larger "
                "cluster",
            )
