"""The service on Ray Serve: replicas that decide, and one ledger of their metrics and records.

`build` is the import path for `serve run`, `serve deploy` and a RayService: `rlsched.serve.app:build`, with
the fields of `ServeConfig` as arguments; `rlsched serve` starts `build_apart`. Only replicas import torch,
which takes a second.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import LoggingConfig

from rlsched.serve.api.tokens import Tokens
from rlsched.serve.ledger.client import SEND_S, TIMEOUT_S, RayLedgerClient
from rlsched.serve.ledger.ledger import Ledger, PageData, ReplicaMetrics
from rlsched.serve.ledger.records import unpack_records
from rlsched.serve.settings import ServeConfig
from rlsched.settings import validate

if TYPE_CHECKING:
    from rlsched.serve.api.http import Application
    from rlsched.serve.log.service_log import ServiceLog

LOG = logging.getLogger("ray.serve")

NAME = "rlsched"  # name of the application

LEDGER = "ledger"
LEDGER_APPLICATION = f"{NAME}-{LEDGER}"
"""Names of the ledger's deployment, and of its application if it has its own."""

SWITCH_S = 0.001
"""Seconds for which a thread may hold the interpreter while another one wants it.

With Python's usual 5 ms, decisions would hold up the reading and writing of requests."""


class LedgerDeployment:
    """The ledger as a deployment of one replica."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        settings = validate(ServeConfig, config, "serve")
        self._log: ServiceLog | None = None
        if settings.log is not None:
            from rlsched.serve.log.service_log import ServiceLog

            self._log = ServiceLog(settings, settings.log)
        self._ledger = Ledger(self._log)

    async def take(self, replica: str, samples: list[Any], content: bytes) -> None:
        """Add packed records of a replica; see `Ledger.add`."""
        self._ledger.add(replica, samples, unpack_records(content))

    async def __del__(self) -> None:
        """Close the log; Ray Serve calls this at the end."""
        if self._log is not None:
            log, self._log = self._log, None
            await asyncio.to_thread(log.close)

    async def metrics(self) -> bytes:
        """See `Ledger.metrics`."""
        return self._ledger.metrics()

    async def page_data(self, cluster: str | None) -> PageData:
        """See `Ledger.page_data`."""
        return self._ledger.page_data(cluster)


class DecisionService:
    """A replica.

    Args:
        config: the fields of `ServeConfig`.
        ledger: handle of the ledger; None: the ledger is an application of its own, and starts later.
        instance: distinguishes this service from others.
    """

    def __init__(
        self, config: Mapping[str, Any], ledger: DeploymentHandle | None = None, instance: str = ""
    ) -> None:
        from rlsched.serve.process import lean_imports

        lean_imports.postpone()
        from rlsched.serve.api.http import Application
        from rlsched.serve.decide.batching_queue import BatchingQueue
        from rlsched.serve.decide.policy_store import PolicyStore, keep_current

        sys.setswitchinterval(SWITCH_S)
        gc.set_threshold(*lean_imports.COLLECTED_AFTER)
        self._config = validate(ServeConfig, config, "serve")
        store = PolicyStore(self._config)
        self._queue = BatchingQueue(self._config.limits)
        metrics = ReplicaMetrics()
        replica = serve.get_replica_context().replica_id.unique_id
        self._ledger = RayLedgerClient(ledger, replica, metrics, logged=self._config.log is not None)
        self._tokens = Tokens(self._config.token_file)
        self._app = Application(store, self._queue, metrics, self._ledger, self._tokens, instance)
        self._closing = threading.Event()
        gc.freeze()  # objects of the start will stay
        current = partial(keep_current, self._tokens, store, self._closing)
        for name, loop in (("watch", current), ("find_ledger", self._find_ledger)):
            threading.Thread(target=loop, name=f"rlsched_{name}", daemon=True).start()

    def __serve_build_asgi_app__(self) -> Application:
        """The ASGI application of this deployment, for Ray Serve."""
        return self._app

    def _find_ledger(self) -> None:
        """Look for the ledger until it answers; it may start later, or not at all."""
        last_error = ""
        while self._ledger.handle is None:
            try:
                handle = serve.get_deployment_handle(LEDGER, LEDGER_APPLICATION)
                handle.metrics.remote().result(timeout_s=TIMEOUT_S)
            except (KeyError, TimeoutError):
                pass  # it is unknown yet, or starts
            except Exception as error:  # Ray raises many kinds; this replica keeps looking
                if str(error) != last_error:
                    LOG.warning("there is no ledger: %s", error)
                last_error = str(error)
            else:
                self._ledger.handle = handle
                return
            if self._closing.wait(SEND_S):
                return

    def check_health(self) -> None:
        """Check the health of this replica; Ray Serve replaces an unhealthy one.

        Raises:
            RuntimeError: policies hang.
        """
        if not self._queue.healthy:
            raise RuntimeError("policies hang")

    async def __del__(self) -> None:
        """Close this replica; Ray Serve calls this after the last request."""
        self._closing.set()
        await self._ledger.send()
        self._queue.close()


def build(args: Mapping[str, Any]) -> serve.Application:
    """Build the application, for Ray Serve, from the fields of `ServeConfig`.

    Raises:
        BadInputError: a field is invalid.
    """
    config = validate(ServeConfig, args, "args")
    service, ledger, fields = _deployments(config)
    application: serve.Application = service.bind(fields, ledger.bind(fields))
    return application


def build_apart(config: ServeConfig, instance: str) -> tuple[serve.Application, serve.Application]:
    """Build the service, and its ledger as an application of its own (`LEDGER_APPLICATION`).

    The ledger starts once the service answers: it would take a core from the first replica for a second.
    """
    service, ledger, fields = _deployments(config)
    return service.bind(fields, None, instance), ledger.bind(fields)


def _deployments(config: ServeConfig) -> tuple[serve.Deployment, serve.Deployment, dict[str, Any]]:
    """The service, the ledger, and their arguments."""
    fields = config.rooted().model_dump(mode="json")
    scaling, limits = config.scaling, config.limits
    quiet = LoggingConfig(enable_access_log=False, log_level="WARNING")
    common = {
        "logging_config": quiet,
        "health_check_period_s": 5.0,
        "health_check_timeout_s": 10.0,
        "graceful_shutdown_timeout_s": 10.0,
        "graceful_shutdown_wait_loop_s": 0.5,
    }
    ledger = serve.deployment(
        LedgerDeployment, name=LEDGER, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}, **common
    )
    replicas: dict[str, Any] = {"num_replicas": scaling.replicas}
    if scaling.most is not None:
        replicas = {
            "autoscaling_config": {
                "min_replicas": scaling.replicas,
                "max_replicas": scaling.most,
                "target_ongoing_requests": scaling.ongoing,
            }
        }
    service = serve.deployment(
        serve.ingress()(DecisionService),
        name="decisions",
        # More than a replica takes, decided and still being sent, so that the replica refuses with a reason.
        max_ongoing_requests=2 * limits.concurrency + 16,
        ray_actor_options={"num_cpus": scaling.cpus},
        **replicas,
        **common,
    )
    return service, ledger, fields
