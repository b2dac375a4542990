"""The description of the service: OpenAPI for programs, a page for people."""

import html
from functools import cache
from typing import Any

import msgspec

from orchestrator.serving.body import BatchRequest, ScoreRequest, VectorRequest

POSTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "/v1/score": (ScoreRequest, "The click probability of a user with each ad, in the ads' order."),
    "/v1/batch": (BatchRequest, "The same as /v1/score for each of several requests."),
    "/v1/user-vector": (VectorRequest, "The user's vector and the bias, for engines that hold the "
                        "ads' vectors, such as Vespa."),
}  # fmt: skip
GETS = {
    "/health": "200 while the model is fresh, 503 once it is stale.",
    "/version": "Which model is served, how old it is, and what each feature expects.",
    "/metrics": "Metrics in the text format of Prometheus.",
    "/openapi.json": "This description for programs.",
    "/docs": "This page.",
}
MISTAKE = '{"errors": ["…"]}, a line for each mistake'


@cache
def openapi() -> dict[str, Any]:
    """The paths and the bodies, as OpenAPI 3.1."""
    kinds = [kind for kind, _ in POSTS.values()]
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {
        path: {"get": {"summary": text, "responses": {"200": {"description": "OK"}}}}
        for path, text in GETS.items()
    }
    responses = {"200": {"description": "OK"}, "422": {"description": MISTAKE}}
    for (path, (_, text)), schema in zip(POSTS.items(), schemas, strict=True):
        body = {"required": True, "content": {"application/json": {"schema": schema}}}
        paths[path] = {"post": {"summary": text, "requestBody": body, "responses": responses}}
    info = {"title": "Holdfast", "version": "1"}
    found = {"openapi": "3.1.0", "info": info, "paths": paths}
    return found | {"components": {"schemas": components}}


@cache
def docs_page() -> bytes:
    """What there is, as HTML."""
    lines = []
    for path, of in openapi()["paths"].items():
        [(method, what)] = of.items()
        lines.append(f"<h2>{method.upper()} {path}</h2><p>{html.escape(what['summary'])}</p>")
    schemas = msgspec.json.format(msgspec.json.encode(openapi()["components"]["schemas"]))
    text = "".join(lines) + f"<h2>Bodies</h2><pre>{html.escape(schemas.decode())}</pre>"
    return f"<!doctype html><title>Holdfast</title><h1>Holdfast</h1>{text}".encode()
