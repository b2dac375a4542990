"""The Prometheus metrics of a serving process."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.serving.scorer import Scorer

PATHS = {"/v1/score", "/v1/batch", "/v1/user-vector", "/health", "/version", "/metrics"}
BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Metrics:
    """Counters of requests, and gauges that read the scorer's state when they are scraped."""

    def __init__(self, scorer: Scorer) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "holdfast_requests", "Requests by path and status.", ("path", "status"),
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "holdfast_request_seconds", "Time to answer, by path.", ("path",),
            buckets=BUCKETS_S, registry=registry,
        )  # fmt: skip
        self.ads = Counter("holdfast_scored_ads", "Ads scored.", registry=registry)
        for name, text, value in (
            ("model_version", "Version that is served.", lambda: scorer.current.version.number),
            ("model_cycle", "Cycle in which it was trained.", lambda: scorer.current.version.cycle),
            ("model_age_seconds", "Seconds since it was published.", lambda: scorer.age_s),
            ("model_vectors", "Number of its vectors.", lambda: len(scorer.current)),
            ("model_swaps", "Versions loaded since the start.", lambda: scorer.watch.swaps),
            ("follow_faults", "Corrupt versions, and failed checks for a newer version.",
             lambda: scorer.watch.faults),
        ):  # fmt: skip
            Gauge(f"holdfast_{name}", text, registry=registry).set_function(value)

    def text(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class RequestMetrics:
    """Counts and times every request. Plain ASGI: FastAPI's own middleware doubles its time."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and record the status of the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - started)
