"""Click probabilities from the newest published champion, over HTTP."""

import json
import time
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ConfigDict, FailFast, Field

from orchestrator.serving.body import BoundedBody, BusyError, bounded_route, error_response
from orchestrator.serving.metrics import Metrics, RequestMetrics
from orchestrator.serving.request import RequestError
from orchestrator.serving.scorer import Scored, Scorer


class ScoreRequest(BaseModel):
    """One user, and the ads to score for that user: objects with a value for every feature."""

    model_config = ConfigDict(extra="forbid")

    user: dict[str, Any]
    ads: Annotated[list[dict[str, Any]], FailFast()]


class BatchRequest(BaseModel):
    """Several requests, all answered by the same version of the model."""

    model_config = ConfigDict(extra="forbid")

    requests: Annotated[list[ScoreRequest], FailFast(), Field(min_length=1)]


class VectorRequest(BaseModel):
    """One user."""

    model_config = ConfigDict(extra="forbid")

    user: dict[str, Any]


def make_app(scorer: Scorer, max_age_s: float | None = None) -> FastAPI:
    """Make the service. /health reports a model that is older than `max_age_s` as stale."""
    app, metrics = FastAPI(title="Holdfast", description=__doc__), Metrics(scorer)
    app.add_middleware(BoundedBody, limits=scorer.limits)
    app.add_middleware(RequestMetrics, metrics=metrics)  # the outer one: counts refusals too
    app.router.route_class = bounded_route(scorer.limits)

    @app.post("/v1/score")
    def score(request: ScoreRequest) -> Response:
        """The click probability of the user with each ad, in the order of the ads."""
        scored = scorer.score(request.user, request.ads)
        metrics.ads.inc(len(scored.pctr))
        return _json(_version(scored) | {"pctr": scored.pctr.tolist()})

    @app.post("/v1/batch")
    def batch(request: BatchRequest) -> Response:
        """The same as /v1/score for each of several requests."""
        scored = scorer.score_batch([(one.user, one.ads) for one in request.requests])
        metrics.ads.inc(sum(len(one.pctr) for one in scored))
        return _json(_version(scored[0]) | {"pctr": [one.pctr.tolist() for one in scored]})

    @app.post("/v1/user-vector")
    def user_vector(request: VectorRequest) -> Response:
        """The user's vector and the bias, for engines that hold the ads' vectors, such as Vespa."""
        vector, bias, version = scorer.user_vector(request.user)
        info = {"version": version.number, "cycle": version.cycle}
        return _json(info | {"vector": vector.tolist(), "bias": bias})

    @app.get("/health")
    async def health() -> Response:
        """200 while the model is fresh, 503 once it is stale."""
        stale = max_age_s is not None and scorer.age_s > max_age_s
        body = {"status": "stale" if stale else "ok"} | status(scorer)
        return _json(body, 503 if stale else 200)

    @app.get("/version")
    async def version() -> Response:
        """Which model is served, how old it is, and which features it needs."""
        spec = scorer.current.config.spec
        sides = {"user": [f.name for f in spec.user], "ad": [f.name for f in spec.ad]}
        return _json(status(scorer) | {"features": sides, "vectors": len(scorer.current)})

    @app.get("/metrics")
    async def exposition() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.exception_handler(RequestError)
    async def refused(_: Request, error: RequestError) -> Response:
        return error_response(422, str(error).splitlines())

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return error_response(503, [str(error)])

    return app


def status(scorer: Scorer) -> dict[str, Any]:
    """The version that is served, its age, and the result of looking for newer ones."""
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


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
