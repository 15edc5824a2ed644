"""The pages of the service, served by FastAPI: the web page, metrics, health, policies and OpenAPI."""

from __future__ import annotations

import asyncio
from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

import rlsched
from rlsched.serve.api.schema import Answer, BatchRequest, BatchResponse, DecisionRequest, Problem
from rlsched.serve.decide.batching_queue import BatchingQueue
from rlsched.serve.decide.policy_store import PolicyStore, describe_policies
from rlsched.serve.ledger.client import LedgerAwayError, LedgerClient
from rlsched.serve.page.html import page
from rlsched.serve.process.ports import INSTANCE

JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


def make_pages(store: PolicyStore, queue: BatchingQueue, ledger: LedgerClient, instance: str = "") -> FastAPI:
    """Make the FastAPI application of the pages; arguments as of `Application`."""
    app = FastAPI(title="rlsched", version=rlsched.__version__, docs_url=None, redoc_url=None)

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        words = HTTPStatus(error.status_code).phrase.lower()
        problem = Problem(f"{request.method} {request.url.path[:200]}: {words}; see /openapi.json")
        return Response(msgspec.json.encode(problem), error.status_code, error.headers, JSON)

    @app.get("/v1/policy")
    async def policy() -> Response:
        policies = describe_policies(store.policies)
        content = {"schema": 1, "mode": store.config.mode, "policies": policies}
        return Response(msgspec.json.encode(content), media_type=JSON)

    @app.get("/healthz")
    async def healthz() -> Response:
        if not queue.healthy:
            return Response("policies hang\n", HTTPStatus.SERVICE_UNAVAILABLE, media_type="text/plain")
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        return Response("ready\n", headers={INSTANCE: instance}, media_type="text/plain")

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(await ledger.metrics(), media_type=TEXT)

    @app.get("/")
    async def index(cluster: str | None = None) -> Response:
        policies = describe_policies(store.policies)
        try:
            data = await ledger.page_data(cluster)
        except LedgerAwayError as error:
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE) from error
        html = await asyncio.to_thread(page, policies, data)
        return Response(html, media_type="text/html; charset=utf-8")

    @cache
    def openapi() -> dict[str, Any]:
        return describe_api(app)

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def describe_api(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of the service; bodies are those of `schema`."""
    description = get_openapi(
        title="rlsched",
        version=rlsched.__version__,
        description="What a trained policy would do now about a cluster and its queue as they stand.",
        routes=app.routes,
    )
    models = (DecisionRequest, BatchRequest, Answer, BatchResponse, Problem)
    template = "#/components/schemas/{name}"
    references, components = msgspec.json.schema_components(models, ref_template=template)
    description.setdefault("components", {}).setdefault("schemas", {}).update(components)
    request, batch_request, answer, batch_answer, problem = references
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
    for path, body, response, words in (
        ("/v1/decisions", request, answer, "Decide about one cluster"),
        ("/v1/decisions:batch", batch_request, batch_answer, "Decide about many clusters, each by itself"),
    ):
        description["paths"].setdefault(path, {})["post"] = {
            "summary": words,
            "operationId": words.split(",")[0].lower().replace(" ", "_"),
            "requestBody": {"required": True, "content": {JSON: {"schema": body}}},
            "responses": {"200": {"description": "decided", "content": {JSON: {"schema": response}}}}
            | refusals,
        }
    return description
