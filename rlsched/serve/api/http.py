"""The ASGI application of a replica: decisions by POST, pages by GET, refusals in one line each.

Decisions bypass FastAPI's middlewares and routes, which take as long as a decision itself. msgspec decodes
bodies: FastAPI's own way takes five times as long, and answers a NaN with 500. FastAPI serves the pages.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from http import HTTPStatus

import msgspec
from starlette.types import Receive, Scope, Send

from rlsched.errors import BadInputError
from rlsched.serve.api.admission import Bodies, GoneError, Hosts, RefusedError, check_json
from rlsched.serve.api.pages import JSON, make_pages
from rlsched.serve.api.repeated_keys import check_repeats
from rlsched.serve.api.requests import COLUMN_LISTS, LISTS, batch_of_one, check_batch
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
from rlsched.serve.decide.batching_queue import BatchingQueue, BusyError
from rlsched.serve.decide.policy_store import PolicyStore
from rlsched.serve.ledger.client import LedgerClient
from rlsched.serve.ledger.ledger import ReplicaMetrics

OPEN = ("/healthz", "/readyz")  # paths for process supervisors, which have no token

HEADERS = {
    HTTPStatus.UNAUTHORIZED: ((b"www-authenticate", b'Bearer, Basic realm="rlsched"'),),
    HTTPStatus.TOO_MANY_REQUESTS: ((b"retry-after", b"1"),),
    HTTPStatus.METHOD_NOT_ALLOWED: ((b"allow", b"POST"),),
    HTTPStatus.REQUEST_TIMEOUT: ((b"connection", b"close"),),
}
"""Headers of some refusals."""

MAX_REFUSAL = 2000  # characters of a refusal
MAX_PROBLEM = 200  # characters of a problem with a body

UNKNOWN = re.compile("Object contains unknown field `(.*)`")
FIELD = re.compile("[a-z_]+")
PARTS: dict[str, type[msgspec.Struct]] = {"states": ClusterState, **LISTS}
COLUMNS: dict[str, type[msgspec.Struct]] = {"columns": ClusterColumns, **COLUMN_LISTS}
"""Field of a body -> type of its contents, in states and in columns."""

RequestDecoder = msgspec.json.Decoder[DecisionRequest | BatchRequest]

encode = msgspec.json.Encoder().encode


class Application:
    """The ASGI application of a replica.

    Args:
        store, queue, metrics: of this replica.
        ledger: client of the ledger of all replicas.
        tokens: valid ones of requests.
        instance: distinguishes this service from others.
    """

    def __init__(
        self,
        store: PolicyStore,
        queue: BatchingQueue,
        metrics: ReplicaMetrics,
        ledger: LedgerClient,
        tokens: Tokens,
        instance: str = "",
    ) -> None:
        self._store, self._queue, self._metrics = store, queue, metrics
        self._ledger, self._tokens = ledger, tokens
        self._limits = store.config.limits
        self._bodies, self._hosts = Bodies(self._limits), Hosts(store.config.hosts)
        self._decoders: dict[str, RequestDecoder] = {
            "/v1/decisions": msgspec.json.Decoder(DecisionRequest),
            "/v1/decisions:batch": msgspec.json.Decoder(BatchRequest),
        }
        check_repeats(b"{}")  # compiles it before the first request
        self.pages = make_pages(store, queue, ledger, instance)  # everything but decisions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; see ASGI."""
        if scope["type"] != "http":
            await self.pages(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        try:
            headers = dict(scope["headers"])
            if path not in OPEN:
                self._hosts.check(headers)
                self._check_token(headers)
            decoder = self._decoders.get(path)
            if decoder is None:
                await self.pages(scope, receive, send)
                return
            if method != "POST":
                problem = f"{method[:20]}: is not answered; send a POST"
                raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, problem)
            check_json(headers)
            request = decode(await self._bodies.read(headers, receive), decoder)
            content = encode(await self._handle(request))
        except RefusedError as error:
            self._metrics.count_refusal(error.status)
            content = encode(Problem(shorten(error.problem, MAX_REFUSAL)))
            await respond(send, error.status, content, HEADERS.get(error.status, ()))
        except GoneError:
            pass  # the client has gone
        else:
            await respond(send, HTTPStatus.OK, content)

    def _check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if not self._tokens.allow(bearer(headers.get(b"authorization", b""))):
            problem = "authorization: no token that is known here; send 'Authorization: Bearer TOKEN'"
            raise RefusedError(HTTPStatus.UNAUTHORIZED, problem)

    async def _handle(self, request: DecisionRequest | BatchRequest) -> Answer | BatchResponse:
        """The response to a request, once the queue has its answers; one cluster is a batch of one."""
        try:
            loaded = self._store.find(request.policy)
        except KeyError:
            names = ", ".join(self._store.policies)
            problem = f"policy: unknown policy {request.policy!r}; ask one of {names}"
            raise RefusedError(HTTPStatus.NOT_FOUND, problem) from None
        batch = request if isinstance(request, BatchRequest) else batch_of_one(request)
        try:
            check_batch(batch, self._limits.states)
            with self._metrics.timed(loaded.identity.name):
                answers = await self._queue.submit(loaded, batch)
        except BusyError as error:
            problem = f"too many requests at once: {error}; ask again later, or run more replicas"
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, problem) from None
        except BadInputError as error:
            raise RefusedError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from None
        self._metrics.count_answers(loaded.identity.name, answers)
        self._ledger.record(loaded.identity, batch, answers)
        if batch is request:
            return BatchResponse(loaded.identity, answers)
        return msgspec.structs.replace(answers[0], policy=loaded.identity)


def bearer(field: bytes) -> bytes:
    """The token of an Authorization field; browsers send it as a password, since they know no bearers."""
    scheme, _, credentials = field.partition(b" ")
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return credentials.strip() if scheme.lower() == b"bearer" else b""


async def respond(
    send: Send, status: HTTPStatus, content: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Respond with JSON."""
    lines = [(b"content-type", JSON.encode()), (b"content-length", str(len(content)).encode()), *headers]
    await send({"type": "http.response.start", "status": int(status), "headers": lines})
    await send({"type": "http.response.body", "body": content})


def decode(content: bytes, decoder: RequestDecoder) -> DecisionRequest | BatchRequest:
    """Decode a body.

    Raises:
        RefusedError: it is no JSON, or a field is invalid.
    """
    try:
        body = decoder.decode(content)
    except msgspec.ValidationError as error:
        # The problem may hold names of the client's fields: the path comes last.
        problem, _, path = str(error).rpartition(" - at `$")
        if not problem:
            problem, path = path, ""
        where = path.rstrip("`").lstrip(".") or "body"
        problem, remedy = shorten(problem, MAX_PROBLEM), "see /openapi.json"
        if unknown := UNKNOWN.fullmatch(problem):
            names = FIELD.findall(path)
            parts = COLUMNS if names[:1] == ["columns"] else PARTS
            remedy = _suggest(unknown[1], parts.get(names[-1], decoder.type) if names else decoder.type)
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


def shorten(problem: str, limit: int) -> str:
    """Cut a problem to a number of characters: the name of a client's field may have megabytes."""
    half = limit // 2
    return problem if len(problem) <= limit else f"{problem[:half]}...{problem[-half:]}"


def _suggest(name: str, kind: type[msgspec.Struct]) -> str:
    """The remedy for an unknown field: a similar name, and all known names."""
    known = kind.__struct_fields__
    close = get_close_matches(name.lower(), known, n=1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    return f"{meant}use some of {', '.join(known)}"
