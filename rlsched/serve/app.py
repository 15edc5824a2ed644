"""The service on Ray Serve: replicas that decide, and one actor in which their accounts come together.

`build` is what `serve run`, `serve deploy` and a RayService name as import path: `rlsched.serve.app:build`,
with the fields of `ServeConfig` as arguments; `rlsched serve` starts `build_apart`. What decides is imported
where it does, by replicas: whoever starts them has no use for torch, which takes a second.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ray import serve
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import LoggingConfig

from rlsched.serve.api.tokens import Tokens
from rlsched.serve.ledger.ledger import (
    Accounts,
    Book,
    LedgerAwayError,
    News,
    Shown,
    packed,
    summed,
    unpacked,
)
from rlsched.serve.settings import ServeConfig
from rlsched.settings import validate

if TYPE_CHECKING:
    from rlsched.serve.api.http import Application
    from rlsched.serve.api.requests import Sent
    from rlsched.serve.api.schema import Answer, PolicyName
    from rlsched.serve.log.service_log import ServiceLog

LOG = logging.getLogger("ray.serve")

NAME = "rlsched"
"""Of the application."""

LEDGER = "ledger"
APART = f"{NAME}-{LEDGER}"
"""Names of the ledger's deployment, and of its application where it is one of its own."""

SWITCH_S = 0.001
"""For which a thread may keep the interpreter while another one wants it: who decides is not to hold up who
reads and writes, as Python's own 5 ms do at every turn."""

TELL_S = 0.5
"""Between a replica's telling the ledger."""

LOGGED_AT_MOST = 20_000
"""States that a replica keeps for a log that does not keep up."""

PATIENCE_S, LOOK_S = 5.0, 0.1
"""That a page waits for the ledger, and between looks whether it has been found."""


class BookKeeper:
    """The ledger as a deployment of its own, of one replica."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        told = validate(ServeConfig, config, "serve")
        self._book = Book()
        self._log: ServiceLog | None = None
        if told.log is not None:
            from rlsched.serve.log.service_log import ServiceLog

            self._log = ServiceLog(told, told.log)

    async def take(self, replica: str, samples: list[Any], told: bytes) -> None:
        """See `Book.take`, of news as they were `packed`; all of it goes into the log, where there is one."""
        news = unpacked(told)
        if self._log is not None:
            for lately in news.values():
                self._log.take([*lately.noted])
        self._book.take(replica, samples, news)

    async def __del__(self) -> None:
        """Asked by Ray Serve at the end."""
        if self._log is not None:
            log, self._log = self._log, None
            await asyncio.to_thread(log.close)

    async def metrics(self) -> bytes:
        """See `Book.metrics`."""
        return self._book.metrics(0 if self._log is None else self._log.lost)

    async def shown(self, cluster: str | None) -> Shown:
        """See `Book.shown`."""
        return self._book.shown(cluster)


class Teller:
    """The ledger as a replica knows it.

    Args:
        keeper: who keeps it; None: is not there yet, so what there is to tell is kept.
        replica: that tells.
        accounts: of this replica.
        logged: whether every state is wanted, not only the newest.
    """

    def __init__(
        self, keeper: DeploymentHandle | None, replica: str, accounts: Accounts, *, logged: bool
    ) -> None:
        self.keeper, self._replica, self._accounts = keeper, replica, accounts
        self._most = LOGGED_AT_MOST if logged else None
        self._news = News(self._most)
        self._telling: asyncio.Task[None] | None = None

    def note(self, policy: PolicyName, sent: Sent, answers: Sequence[Answer]) -> None:
        """See `Ledger.note`."""
        self._accounts.dropped(self._news.note(policy, sent, answers))
        if self._telling is None:
            self._telling = asyncio.get_running_loop().create_task(self._tell_later())

    async def _tell_later(self) -> None:
        while self._news.clusters:
            await asyncio.sleep(TELL_S)
            await self.tell()
        self._telling = None

    async def tell(self) -> None:
        """Tell what is new."""
        if self.keeper is None:
            return
        news, self._news = self._news, News(self._most)
        try:
            await asyncio.wait_for(
                self.keeper.take.remote(self._replica, self._accounts.samples(), packed(news.clusters)),
                PATIENCE_S,
            )
        except Exception as error:
            self._accounts.dropped(news.kept)
            LOG.warning("the ledger could not be told: %s", error)

    async def metrics(self) -> bytes:
        """See `Ledger.metrics`; without a ledger this replica's alone, which are better than none."""
        await self.tell()
        if self.keeper is not None:
            try:
                found: bytes = await asyncio.wait_for(self.keeper.metrics.remote(), PATIENCE_S)
            except Exception as error:  # of Ray's many
                LOG.warning("the ledger does not answer: %s", error)
            else:
                return found
        return summed([self._accounts.samples()])

    async def shown(self, cluster: str | None) -> Shown:
        """See `Ledger.shown`."""
        await self.tell()
        patience = asyncio.get_running_loop().time() + PATIENCE_S
        while self.keeper is None:  # a service is ready before its ledger is
            if asyncio.get_running_loop().time() > patience:
                raise LedgerAwayError("it is being started")
            await asyncio.sleep(LOOK_S)
        try:
            found: Shown = await asyncio.wait_for(self.keeper.shown.remote(cluster), PATIENCE_S)
        except Exception as error:
            raise LedgerAwayError(str(error)) from None
        return found


class DecisionService:
    """A replica.

    Args:
        config: the fields of `ServeConfig`.
        keeper: of the ledger; None: it is an application of its own, and comes later.
        instance: tells this service apart from others.
    """

    def __init__(
        self, config: Mapping[str, Any], keeper: DeploymentHandle | None = None, instance: str = ""
    ) -> None:
        from rlsched.serve.process import lean_imports

        lean_imports.postpone()
        from rlsched.serve.api.http import Application
        from rlsched.serve.decide.batching_queue import Desk
        from rlsched.serve.decide.engine import Engine, keep_current

        sys.setswitchinterval(SWITCH_S)
        gc.set_threshold(*lean_imports.COLLECTED_AFTER)
        self._config = validate(ServeConfig, config, "serve")
        self._desk = Desk(Engine(self._config))
        accounts = Accounts()
        replica = serve.get_replica_context().replica_id.unique_id
        self._teller = Teller(keeper, replica, accounts, logged=self._config.log is not None)
        self._tokens = Tokens(self._config.token_file)
        self._app = Application(self._desk, accounts, self._teller, self._tokens, instance)
        self._closing = threading.Event()
        gc.freeze()  # what is here will stay
        current = partial(keep_current, self._tokens, self._desk.engine, self._closing)
        for name, loop in (("watch", current), ("find_ledger", self._find_ledger)):
            threading.Thread(target=loop, name=f"rlsched_{name}", daemon=True).start()

    def __serve_build_asgi_app__(self) -> Application:
        """What Ray Serve asks a deployment for."""
        return self._app

    def _find_ledger(self) -> None:
        """Look for the ledger until it answers; it may be started later, or not at all."""
        said = ""
        while self._teller.keeper is None:
            try:
                keeper = serve.get_deployment_handle(LEDGER, APART)
                keeper.metrics.remote().result(timeout_s=PATIENCE_S)
            except (KeyError, TimeoutError):
                pass  # it is not known yet, or being started
            except Exception as error:  # of Ray's many; whoever repairs it finds this replica still looking
                if str(error) != said:
                    LOG.warning("there is no ledger: %s", error)
                said = str(error)
            else:
                self._teller.keeper = keeper
                return
            if self._closing.wait(TELL_S):
                return

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that says no.

        Raises:
            RuntimeError: policies hang.
        """
        if not self._desk.well:
            raise RuntimeError("policies hang")

    async def __del__(self) -> None:
        """Asked by Ray Serve once no request is left."""
        self._closing.set()
        await self._teller.tell()
        self._desk.close()


def build(args: Mapping[str, Any]) -> serve.Application:
    """The application, for Ray Serve.

    Args:
        args: the fields of `ServeConfig`.

    Raises:
        BadInputError: one does not fit.
    """
    config = validate(ServeConfig, args, "args")
    service, keeper, fields = _deployments(config)
    found: serve.Application = service.bind(fields, keeper.bind(fields))
    return found


def build_apart(config: ServeConfig, instance: str) -> tuple[serve.Application, serve.Application]:
    """The service, with what tells it apart, and its ledger as an application of its own (`APART`).

    The ledger is started once the service answers: it would take a core from the first replica for a second.
    """
    service, keeper, fields = _deployments(config)
    return service.bind(fields, None, instance), keeper.bind(fields)


def _deployments(config: ServeConfig) -> tuple[serve.Deployment, serve.Deployment, dict[str, Any]]:
    """The service, the ledger, and what they are told."""
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
    keeper = serve.deployment(
        BookKeeper, name=LEDGER, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 0}, **common
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
        # More than are taken, at work and still being sent, so that the replica refuses, and says why.
        max_ongoing_requests=2 * limits.concurrency + 16,
        ray_actor_options={"num_cpus": scaling.cpus},
        **replicas,
        **common,
    )
    return service, keeper, fields
