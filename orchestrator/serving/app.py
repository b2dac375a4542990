"""The HTTP service. Everything that is decided is decided by the scorer; this is its shell."""

import json
import time
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field

from orchestrator.serving.metrics import Measured, Metrics
from orchestrator.serving.request import RequestError
from orchestrator.serving.scorer import Scored, Scorer

SHAPES = (
    'must be a JSON object, sent with "content-type: application/json": {"user": …, "ads": […]} '
    'for /v1/score, {"requests": [{"user": …, "ads": […]}, …]} for /v1/batch, {"user": …} for '
    "/v1/user-vector"
)


class ScoreRequest(BaseModel):
    """One user, and the ads to score for them: objects with a value for every feature."""

    model_config = ConfigDict(extra="forbid")

    user: dict[str, Any]
    ads: list[dict[str, Any]]


class BatchRequest(BaseModel):
    """Several of them, all to be answered by the same version."""

    model_config = ConfigDict(extra="forbid")

    requests: list[ScoreRequest] = Field(min_length=1)


class VectorRequest(BaseModel):
    """One user."""

    model_config = ConfigDict(extra="forbid")

    user: dict[str, Any]


def make_app(scorer: Scorer, max_age_s: float | None = None) -> FastAPI:
    """The service; beyond `max_age_s` the model counts as stale and /health says so."""
    app, metrics = FastAPI(title="Holdfast", description=__doc__), Metrics(scorer)
    app.add_middleware(Measured, metrics=metrics)

    # Scoring takes a fraction of a millisecond: less than the way to a thread and back.
    @app.post("/v1/score")
    async def score(asked: ScoreRequest) -> Response:
        """The click probability of the user with each ad, in the order of the ads."""
        scored = scorer.score(asked.user, asked.ads)
        metrics.ads.inc(len(scored.pctr))
        return _json(_version(scored) | {"pctr": scored.pctr.tolist()})

    @app.post("/v1/batch")
    async def batch(asked: BatchRequest) -> Response:
        """The same for each of several requests."""
        scored = scorer.score_batch([(one.user, one.ads) for one in asked.requests])
        metrics.ads.inc(sum(len(one.pctr) for one in scored))
        return _json(_version(scored[0]) | {"pctr": [one.pctr.tolist() for one in scored]})

    @app.post("/v1/user-vector")
    async def user_vector(asked: VectorRequest) -> Response:
        """The user's vector and the bias, for engines that hold the ads' vectors (Vespa)."""
        vector, bias, version = scorer.user_vector(asked.user)
        about = {"version": version.number, "cycle": version.cycle}
        return _json(about | {"vector": vector.tolist(), "bias": bias})

    @app.get("/health")
    async def health() -> Response:
        """200 while the model is fresh enough, else 503."""
        stale = max_age_s is not None and scorer.age_s > max_age_s
        told = {"status": "stale" if stale else "ok"} | about(scorer)
        return _json(told, 503 if stale else 200)

    @app.get("/version")
    async def version() -> Response:
        """Which model is served, how old it is, and what it wants to know."""
        spec = scorer.current.config.spec
        sides = {"user": [f.name for f in spec.user], "ad": [f.name for f in spec.ad]}
        return _json(about(scorer) | {"features": sides, "vectors": len(scorer.current)})

    @app.get("/metrics")
    async def exposition() -> Response:
        """For Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RequestError)
    async def refused(_: Request, error: RequestError) -> Response:
        return _json({"errors": str(error).splitlines()}, 422)

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        return _json({"errors": [_told(one) for one in error.errors()]}, 422)

    return app


def about(scorer: Scorer) -> dict[str, Any]:
    """The version that is served, and how following it goes."""
    version, watch = scorer.current.version, scorer.watch
    return {
        "version": version.number,
        "cycle": version.cycle,
        "line": version.line,
        "published": version.published,
        "age_s": round(scorer.age_s, 3),
        "swaps": watch.swaps,
        "faults": watch.faults,
        "last_fault": watch.last_fault,
        "checked_s_ago": round(time.monotonic() - watch.checked, 3),
    }


def _version(scored: Scored) -> dict[str, Any]:
    return {"version": scored.version.number, "cycle": scored.version.cycle}


def _told(error: Any) -> str:
    """A mistake of form in one line: where in the body, and what."""
    if error["type"] == "json_invalid":
        return f"body: is no JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    where = ".".join(str(step) for step in error["loc"] if step != "body")
    if not where:
        return f"body: {SHAPES}"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key; the body {SHAPES}"
    return f"{where}: {error['msg']}"


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
