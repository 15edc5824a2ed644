"""The OpenAPI description of the service."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import rlsched
from rlsched.serve.api.batch_schema import BatchRequest, BatchResponse
from rlsched.serve.api.schema import Answer, DecisionRequest, Problem

JSON = "application/json"


def describe_api(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description of the service; bodies are those of `schema` and `batch_schema`."""
    description = get_openapi(
        title="rlsched",
        version=rlsched.__version__,
        description="What a trained policy would do now about a cluster and its queue as they stand.",
        routes=app.routes,
    )
    models = (DecisionRequest, BatchRequest, Answer, BatchResponse, Problem)
    references, components = msgspec.json.schema_components(
        models, ref_template="#/components/schemas/{name}"
    )
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
