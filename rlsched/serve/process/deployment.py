"""Deployment of the service on a running Ray: its start, its answers, and its end."""

from __future__ import annotations

import logging
import os
import secrets
import sys
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
from rlsched.serve.process import interim
from rlsched.serve.process.ports import instance_at, port_taken
from rlsched.serve.process.proxy import end_haproxies
from rlsched.serve.process.supervisor import ANSWERS, Supervised
from rlsched.serve.settings import ServeConfig

if TYPE_CHECKING:
    from rlsched.serve.process.node import LocalNode

TERMINAL = (1, 2)  # descriptors of stdout and stderr
ENDING_S = 15.0  # longest time that an interrupted start takes to end

POLL_S, STATUS_S = 0.05, 0.5
"""Seconds between looks whether the service answers, and between looks at its status."""


@dataclass(frozen=True)
class RunningService:
    """A running service."""

    host: str
    port: int
    folder: Path | None  # of HAProxy's files; None: there is no HAProxy
    node: LocalNode

    @property
    def url(self) -> str:
        """URL of the service, for clients on this machine where it listens on all addresses."""
        local = self.host in {"0.0.0.0", "127.0.0.1", "::"}
        return f"http://{'localhost' if local else self.host}:{self.port}"

    def abandon(self) -> None:
        """End the rest of a service whose node of Ray has died."""
        if self.folder is not None:
            end_haproxies(self.folder)
        self.node.end()


@contextmanager
def deployed(
    config: ServeConfig, service: RunningService, *, local: bool, supervised: Supervised | None
) -> Iterator[None]:
    """Start Serve and the service on a running Ray; end them at the end.

    Serve is imported only now that Ray runs: processes that Ray starts import it at the same time. A `local`
    Ray runs for this service alone; on a cluster, other applications stay.

    Raises:
        BadInputError: a policy cannot be served, or the port is taken.
    """
    from ray.serve.exceptions import RayServeException

    for name in ("ray", "ray.serve"):  # Serve sets the level itself when it is imported
        logging.getLogger(name).setLevel(logging.ERROR)
    start: Future[object] = Future()
    cleanup, watch = _cleanup(local=local)
    if supervised is not None and local:
        watch.enter_context(supervised.watching(service))
    try:
        _deploy(config, service, start, supervised, local=local)
    except BaseException as error:
        with _silent():
            if local:
                _interrupt(start)
            else:
                cleanup.close()
        watch.close()
        if isinstance(error, (RayServeException, RuntimeError)):
            raise _explained(config, error) from None
        raise
    try:
        yield
    finally:
        with _silent():
            cleanup.close()


def _cleanup(*, local: bool) -> tuple[ExitStack, ExitStack]:
    """Two exit stacks: one ends the service, and the other, within it, the watch over Ray."""
    import ray
    from ray import serve

    from rlsched.serve.app import LEDGER_APPLICATION, NAME

    cleanup, watch = ExitStack(), ExitStack()
    if local:
        cleanup.callback(ray.shutdown)
        cleanup.callback(watch.close)  # the steps before it would wait for a dead Ray
        cleanup.callback(serve.shutdown)
    cleanup.callback(serve.delete, LEDGER_APPLICATION)  # replicas send records until their end
    cleanup.callback(serve.delete, NAME)
    return cleanup, watch


def _deploy(
    config: ServeConfig,
    service: RunningService,
    start: Future[object],
    supervised: Supervised | None,
    *,
    local: bool,
) -> None:
    """Start Serve, the replicas and the ledger; see `deployed`."""
    from ray import serve
    from ray.serve.config import HTTPOptions, ProxyLocation

    from rlsched.serve.app import LEDGER_APPLICATION, NAME, build_apart

    instance = secrets.token_hex(8)
    replicas, ledger = build_apart(config.at(service.host), instance)
    replica_target = serve.RunTarget(replicas, NAME, "/")
    ledger_target = serve.RunTarget(ledger, LEDGER_APPLICATION, None)
    start_serve = partial(serve.start, http_options=HTTPOptions(host=service.host, port=service.port))
    if not local:
        start_serve(proxy_location=ProxyLocation.EveryNode)
        serve.run_many([replica_target, ledger_target], wait_for_applications_running=True)
        return
    _start_in_thread(partial(start_serve, proxy_location=ProxyLocation.HeadOnly), start)
    # Serve itself would look once a second whether they run.
    serve.run_many([replica_target], wait_for_applications_running=False)
    wait_for(service.host, service.port, start, instance)
    service.node.find_agents()
    if supervised is not None:
        supervised.report(ANSWERS)
    # With a log, the ledger must record the first decision.
    serve.run_many([ledger_target], wait_for_applications_running=config.log is not None)


def _interrupt(start: Future[object]) -> None:
    """End an incomplete start, before Ray ends.

    HAProxy would outlive Ray, and hold its port; a thread that calls a dead Ray ends this process.
    """
    from ray import serve

    serve.shutdown()
    if start.running():
        with suppress(FutureTimeoutError):
            start.exception(ENDING_S)


def _start_in_thread(start_serve: Callable[[], object], start: Future[object]) -> None:
    """Start Serve in a thread, which sets the result of `start`, and wait only for its controller.

    Serve also waits for its proxies, which hear of replicas whenever those come.

    Raises:
        RuntimeError: it has failed at once.
    """
    from rlsched.learn.rllib.ray_compat import serve_controller

    def begin() -> None:
        try:
            start.set_result(start_serve())
        except Exception as error:  # the main thread raises it
            start.set_exception(error)

    start.set_running_or_notify_cancel()
    # A daemon: an end during the start does not wait for it.
    threading.Thread(target=begin, name="rlsched-start", daemon=True).start()
    while not start.done():
        try:
            serve_controller()
        except ValueError:
            time.sleep(POLL_S)
        else:
            return
    start.result()


@contextmanager
def _silent() -> Iterator[None]:
    """Write nothing to the terminal: Ray would report there that its controller ended, as intended.

    It does so in a thread that has copied sys.stderr, so the descriptors are redirected.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    copies = [os.dup(number) for number in TERMINAL]
    for number in TERMINAL:
        os.dup2(nowhere, number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip(TERMINAL, copies, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def wait_for(host: str, port: int, start: Future[object], instance: str) -> None:
    """Wait until the service answers.

    Raises:
        BadInputError: another service has taken the port in the meantime.
        RuntimeError: replicas do not start.
        TimeoutError: proxies do not start.
    """
    from ray import serve

    from rlsched.serve.app import NAME

    checked = time.monotonic()
    while (answering := instance_at(host, port)) != instance:
        if answering not in {None, interim.INSTANCE}:
            raise port_taken(host, port)
        if time.monotonic() - checked > STATUS_S:
            checked = time.monotonic()
            if start.done():
                start.result()
            application = serve.status().applications[NAME]
            if application.status in {"DEPLOY_FAILED", "UNHEALTHY"}:
                raise RuntimeError(application.message)
        time.sleep(POLL_S)


def _explained(config: ServeConfig, error: Exception) -> Exception:
    """The cause of a failed start, in one line if it is a policy."""
    from rlsched.serve.decide.policy_store import load_for_service

    for name, folder in config.policies.items():
        try:
            load_for_service(name, folder, config)
        except BadInputError as cause:
            return cause
    return error
