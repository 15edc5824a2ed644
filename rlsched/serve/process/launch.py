"""Launch of the service: Ray on this machine or a cluster, the listening socket, and the deployment."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rlsched.learn.interrupts import leave_terminal
from rlsched.serve.process import listener
from rlsched.serve.process.deployment import RunningService, deployed
from rlsched.serve.process.environment import LEAN_IMPORTS, has_haproxy, prepare_environment
from rlsched.serve.process.ports import port_taken
from rlsched.serve.process.proxy import LISTENER_PATH
from rlsched.serve.process.supervisor import FOLDER, Supervised
from rlsched.serve.settings import ServeConfig


@contextmanager
def serving(
    config: ServeConfig, host: str, port: int, address: str | None, supervised: Supervised | None
) -> Iterator[RunningService]:
    """Start the service; at the end it answers the remaining requests and ends.

    Ray is that of a cluster at `address`; None: it starts on this machine, and ends with the service.

    Raises:
        BadInputError: a policy cannot be served, the port is taken, or there is no such cluster.
    """
    folder = prepare_environment(config.limits)
    if supervised is not None and folder is not None:
        supervised.report(FOLDER, folder)
    from rlsched.learn.rllib.session import ray_session
    from rlsched.serve.process.node import LocalNode

    settings = {
        # For Ray's dashboard, which does not run; its agents would work for it all the time.
        "enable_metrics_collection": False,
        # All processes import these: the first ones have done so when they are needed.
        "preload_python_modules": [LEAN_IMPORTS, "ray.serve"],
    }
    interrupted = threading.Event()
    socket_of_parent = None if supervised is None else supervised.listening
    try:
        with listening(host, port, address, socket_of_parent), ray_session(address, _system_config=settings):
            _interrupt_on_signals(interrupted)
            service = RunningService(host, port, folder, LocalNode())
            with deployed(config, service, local=address is None, supervised=supervised):
                yield service
    except Exception:
        if interrupted.is_set():  # Ray raises anything when it is interrupted
            raise KeyboardInterrupt from None
        raise


def _interrupt_on_signals(interrupted: threading.Event) -> None:
    """Raise KeyboardInterrupt at SIGTERM and a closed terminal; Ray's own handler prints a trace."""

    def interrupt(number: int, _: object) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, interrupt)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, interrupt)


@contextmanager
def listening(
    host: str, port: int, address: str | None, socket_of_parent: socket.socket | None
) -> Iterator[None]:
    """Share the listening socket with HAProxy's managers; do nothing without HAProxy or on a cluster."""
    if address is not None or not has_haproxy():
        yield
        return
    with (
        socket_of_parent or open_listener(host, port) as shared,
        listener.shared(shared, os.environ[LISTENER_PATH]),
    ):
        yield


def open_listener(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        BadInputError: another service has taken the port.
    """
    try:
        return listener.opened(host, port)
    except OSError:
        raise port_taken(host, port) from None
