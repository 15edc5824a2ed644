"""The service over HTTP: what is asked, what is answered, and what is refused, in one line each.

Decisions are asked past FastAPI's middlewares and routes, which take as long as a decision itself, and bodies
are decoded by msgspec: FastAPI's own way would take five times as long, and answers a NaN with 500. The rest
is FastAPI's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

import rlsched
from rlsched.errors import BadInputError
from rlsched.serve.api.admission import Bodies, GoneError, Hosts, RefusedError, check_json
from rlsched.serve.api.repeated_keys import check_repeats
from rlsched.serve.api.requests import LISTS, TURNED, Places, Sent, States, Table
from rlsched.serve.api.schema import (
    Answer,
    BatchRequest,
    BatchResponse,
    ClusterColumns,
    ClusterState,
    DecisionRequest,
    Problem,
)
from rlsched.serve.api.tokens import Tokens
from rlsched.serve.decide.batching_queue import TOGETHER, BusyError, Desk
from rlsched.serve.decide.engine import Served, by_name
from rlsched.serve.ledger.ledger import Accounts, Ledger, LedgerAwayError
from rlsched.serve.page.page import page
from rlsched.serve.process.ports import INSTANCE

JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = ("/healthz", "/readyz")
"""Asked by whoever watches over processes, which has no token."""

HEADERS = {
    HTTPStatus.UNAUTHORIZED: ((b"www-authenticate", b'Bearer, Basic realm="rlsched"'),),
    HTTPStatus.TOO_MANY_REQUESTS: ((b"retry-after", b"1"),),
    HTTPStatus.METHOD_NOT_ALLOWED: ((b"allow", b"POST"),),
    HTTPStatus.REQUEST_TIMEOUT: ((b"connection", b"close"),),
}
"""That go with some refusals."""

LONGEST_PROBLEM, LONGEST_LINE = 200, 2000
"""Characters of what is said of a body, and of all of an answer that refuses."""

UNKNOWN = re.compile("Object contains unknown field `(.*)`")
FIELD = re.compile("[a-z_]+")
PARTS: dict[str, type[msgspec.Struct]] = {"states": ClusterState, **LISTS}
COLUMNS: dict[str, type[msgspec.Struct]] = {
    "columns": ClusterColumns,
    **dict(zip(LISTS, TURNED, strict=True)),
}
"""What the fields of a body hold, and where it has columns."""

Body = TypeVar("Body", bound=msgspec.Struct)
encode = msgspec.json.Encoder().encode


class Application:
    """The ASGI application of a replica.

    Args:
        desk: that decides.
        accounts: of this replica.
        ledger: of all replicas.
        tokens: one of which a request must bear.
        instance: tells this service apart from others.

    Attributes:
        pages: all that is not asked often.
    """

    def __init__(
        self, desk: Desk, accounts: Accounts, ledger: Ledger, tokens: Tokens, instance: str = ""
    ) -> None:
        self._desk, self._accounts, self._ledger, self._tokens = desk, accounts, ledger, tokens
        config = desk.engine.config
        self._limits = config.limits
        self._bodies, self._hosts = Bodies(config.limits), Hosts(config.hosts)
        self._asked: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "/v1/decisions": self._decide,
            "/v1/decisions:batch": self._decide_many,
        }
        self._one = msgspec.json.Decoder(DecisionRequest)
        self._many = msgspec.json.Decoder(BatchRequest)
        check_repeats(b"{}")  # compiles it before anybody waits for an answer
        self.pages = make_pages(desk, ledger, instance)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        try:
            headers = dict(scope["headers"])
            if path not in OPEN:
                self._hosts.check(headers)
                self._check_token(headers)
            asked = self._asked.get(path)
            if asked is None or method != "POST":
                if asked is not None:
                    raise RefusedError(
                        HTTPStatus.METHOD_NOT_ALLOWED, f"{method[:20]}: is not answered; send a POST"
                    )
                await self.pages(scope, receive, send)
                return
            check_json(headers)
            content = await asked(await self._bodies.read(headers, receive))
        except RefusedError as error:
            self._accounts.refused(error.status)
            problem = Problem(shortened(error.problem, LONGEST_LINE))
            await respond(send, error.status, encode(problem), HEADERS.get(error.status, ()))
        except GoneError:
            pass  # nobody waits for an answer
        else:
            await respond(send, HTTPStatus.OK, content)

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if not self._tokens.allow(bearer(headers.get(b"authorization", b""))):
            problem = "authorization: no token that is known here; send 'Authorization: Bearer TOKEN'"
            raise RefusedError(HTTPStatus.UNAUTHORIZED, problem)

    def _find(self, name: str | None) -> Served:
        try:
            return self._desk.engine.find(name)
        except KeyError:
            names = ", ".join(self._desk.engine.served)
            raise RefusedError(
                HTTPStatus.NOT_FOUND, f"policy: unknown policy {name!r}; ask one of {names}"
            ) from None

    async def _decide(self, content: bytes) -> bytes:
        asked = decoded(content, self._one)
        served = self._find(asked.policy)
        (answer,) = await self._ask(served, States([asked], ("",)), explain=asked.explain)
        return encode(msgspec.structs.replace(answer, policy=served.called))

    async def _decide_many(self, content: bytes) -> bytes:
        asked = decoded(content, self._many)
        served = self._find(asked.policy)
        answers = await self._ask(served, self._sent(asked), explain=asked.explain)
        return encode(BatchResponse(served.called, answers))

    def _sent(self, asked: BatchRequest) -> Sent:
        """The clusters of a batch."""
        columns = asked.columns
        name, count = ("states", len(asked.states)) if columns is None else ("columns.now", len(columns.now))
        problem = ""
        if columns is not None and asked.states:
            problem = "columns: stand beside states; send one of them"
        elif not count:
            problem = "states: are missing; send some, or columns"
        elif count > self._limits.states:
            problem = f"{name}: {count} of them; send at most {self._limits.states}"
        if problem:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, problem)
        if columns is None:
            return States(asked.states, Places("states", count))
        try:
            table = Table(columns, Places("columns", count))
        except BadInputError as error:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        # Few clusters are decided about together with others that wait, state by state.
        return table if count > TOGETHER else States.joined([table])

    async def _ask(self, served: Served, sent: Sent, *, explain: bool) -> list[Answer]:
        with self._accounts.timed(served.name):
            try:
                answers = await self._desk.ask(served, sent, explain=explain)
            except BusyError as error:
                problem = f"too many requests at once: {error}; ask again later, or run more replicas"
                raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, problem) from None
            except BadInputError as error:
                raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        self._accounts.answered(served.name, answers)
        self._ledger.note(served.called, sent, answers)
        return answers


def make_pages(desk: Desk, ledger: Ledger, instance: str = "") -> FastAPI:
    """What is not asked often: pages, figures, health, the description of all."""
    app = FastAPI(title="rlsched", version=rlsched.__version__, docs_url=None, redoc_url=None)

    @app.exception_handler(HTTPException)
    async def not_there(request: Request, error: HTTPException) -> Response:
        words = HTTPStatus(error.status_code).phrase.lower()
        problem = Problem(f"{request.method} {request.url.path[:200]}: {words}; see /openapi.json")
        return Response(encode(problem), error.status_code, error.headers, JSON)

    @app.get("/v1/policy")
    async def policy() -> Response:
        told = {"schema": 1, "mode": desk.engine.config.mode, "policies": by_name(desk.engine.served)}
        return Response(encode(told), media_type=JSON)

    @app.get("/healthz")
    async def healthz() -> Response:
        if not desk.well:
            return Response("policies hang\n", HTTPStatus.SERVICE_UNAVAILABLE, media_type="text/plain")
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        return Response("ready\n", headers={INSTANCE: instance}, media_type="text/plain")

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(await ledger.metrics(), media_type=TEXT)

    @app.get("/")
    async def shown(cluster: str | None = None) -> Response:
        told = by_name(desk.engine.served)
        try:
            found = await ledger.shown(cluster)
        except LedgerAwayError as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE) from error
        drawn = await asyncio.to_thread(page, told, found)
        return Response(drawn, media_type="text/html; charset=utf-8")

    @cache
    def described() -> dict[str, Any]:
        return describe(app)

    app.openapi = described  # type: ignore[method-assign]
    return app


def bearer(field: bytes) -> bytes:
    """The token of an Authorization field; browsers, which know no bearers, send it as a password."""
    scheme, _, given = field.partition(b" ")
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(given.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return given.strip() if scheme.lower() == b"bearer" else b""


async def respond(
    send: Send, status: HTTPStatus, content: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Answer with JSON."""
    told = [(b"content-type", JSON.encode()), (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": int(status), "headers": told})
    await send({"type": "http.response.body", "body": content})


def decoded(content: bytes, decoder: msgspec.json.Decoder[Body]) -> Body:
    """What a body says.

    Raises:
        RefusedError: it is no JSON, or means nothing.
    """
    try:
        body = decoder.decode(content)
    except msgspec.ValidationError as error:
        # What a client calls its fields is in the problem: the place is what comes last.
        problem, _, place = str(error).rpartition(" - at `$")
        if not problem:
            problem, place = place, ""
        where = place.rstrip("`").lstrip(".") or "body"
        problem, remedy = shortened(problem, LONGEST_PROBLEM), "see /openapi.json"
        if unknown := UNKNOWN.fullmatch(problem):
            path = FIELD.findall(place)
            parts = COLUMNS if path[:1] == ["columns"] else PARTS
            remedy = suggested(unknown[1], parts.get(path[-1], decoder.type) if path else decoder.type)
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{where}: {problem}; {remedy}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"body: {str(error) or 'nested too deeply'}" if content else "body: is empty"
        problem += "; send JSON in UTF-8"
        raise RefusedError(HTTPStatus.BAD_REQUEST, problem) from None
    try:
        check_repeats(content)
    except ValueError as error:
        problem = f"body: {error}; give it once"
        raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, problem) from None
    return body


def shortened(problem: str, most: int) -> str:
    """A problem of at most so many characters: what a client calls a field may have megabytes."""
    half = most // 2
    return problem if len(problem) <= most else f"{problem[:half]}...{problem[-half:]}"


def suggested(name: str, kind: type[msgspec.Struct]) -> str:
    """What a field may have been meant to be, and all that there are."""
    known = kind.__struct_fields__
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use some of {', '.join(known)}"


def describe(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description; bodies are those of `schema`."""
    told = get_openapi(
        title="rlsched",
        version=rlsched.__version__,
        description="What a trained policy would do now about a cluster and its queue as they stand.",
        routes=app.routes,
    )
    models = (DecisionRequest, BatchRequest, Answer, BatchResponse, Problem)
    references, components = msgspec.json.schema_components(
        models, ref_template="#/components/schemas/{name}"
    )
    told.setdefault("components", {}).setdefault("schemas", {}).update(components)
    asked, asked_many, answer, answers, problem = references
    refusals = {
        str(int(status)): {"description": words, "content": {JSON: {"schema": problem}}}
        for status, words in (
            (HTTPStatus.BAD_REQUEST, "no JSON"),
            (HTTPStatus.UNAUTHORIZED, "no token"),
            (HTTPStatus.NOT_FOUND, "no such policy"),
            (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long"),
            (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "compressed"),
            (HTTPStatus.UNPROCESSABLE_ENTITY, "a field means nothing"),
            (HTTPStatus.TOO_MANY_REQUESTS, "too many requests at once"),
        )
    }
    for path, given, found, words in (
        ("/v1/decisions", asked, answer, "Decide about one cluster"),
        ("/v1/decisions:batch", asked_many, answers, "Decide about many clusters, each by itself"),
    ):
        told["paths"].setdefault(path, {})["post"] = {
            "summary": words,
            "operationId": words.split(",")[0].lower().replace(" ", "_"),
            "requestBody": {"required": True, "content": {JSON: {"schema": given}}},
            "responses": {"200": {"description": "decided", "content": {JSON: {"schema": found}}}} | refusals,
        }
    return told
