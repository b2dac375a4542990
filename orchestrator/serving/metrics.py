"""The Prometheus metrics of a serving process.

With several processes (`--processes`), counters are sums over all of them: prometheus_client keeps
them in files that the processes share. Gauges are those of the process that answers.
"""

import os
from collections.abc import Iterator
from functools import lru_cache

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from orchestrator.serving.processes import SHARED_COUNTERS
from orchestrator.serving.scorer import Scored, Scorer

PATHS = {"/v1/score", "/v1/batch", "/v1/user-vector", "/health", "/version", "/metrics"}
BUCKETS_S = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class ModelGauges(Collector):
    """The gauges of this process. `Gauge` would share them, and each would be there twice."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def collect(self) -> Iterator[Metric]:
        """The scorer's state now."""
        current, watch = self._scorer.current, self._scorer.watch
        for name, text, value in (
            ("model_version", "Version that is served.", current.version.number),
            ("model_cycle", "Cycle in which it was trained.", current.version.cycle),
            ("model_age_seconds", "Seconds since it was published.", self._scorer.age_s),
            ("model_vectors", "Number of its vectors.", len(current)),
            ("model_swaps", "Versions loaded since the start.", watch.swaps),
            ("follow_faults", "Corrupt versions, and failed checks for a newer version.",
             watch.faults),
        ):  # fmt: skip
            yield GaugeMetricFamily(f"holdfast_{name}", text, value=value)


class Metrics:
    """Counters of requests, and gauges that read the scorer's state when they are scraped."""

    def __init__(self, scorer: Scorer) -> None:
        registry, gauges = CollectorRegistry(), CollectorRegistry()
        self._registries = [registry, gauges]
        if SHARED_COUNTERS in os.environ:
            self._registries[0] = CollectorRegistry()
            MultiProcessCollector(self._registries[0])  # type: ignore[no-untyped-call]
        self.requests = Counter(
            "holdfast_requests", "Requests by path and status.", ("path", "status"),
            registry=registry,
        )  # fmt: skip
        self.seconds = Histogram(
            "holdfast_request_seconds", "Time to answer, by path.", ("path",),
            buckets=BUCKETS_S, registry=registry,
        )  # fmt: skip
        self.ads = Counter("holdfast_scored_ads", "Ads scored.", registry=registry)
        self.unseen = Counter(
            "holdfast_unseen_values", "Values that the model does not know, by feature.",
            ("feature",), registry=registry,
        )  # fmt: skip
        gauges.register(ModelGauges(scorer))
        self._of = lru_cache(lambda path, code: (
            self.requests.labels(path, code), self.seconds.labels(path)
        ))  # fmt: skip

    def count(self, scored: Scored) -> None:
        """Count what was scored."""
        self.ads.inc(len(scored.pctr))
        unseen: dict[str, int] = {}
        for (feature, _), times in scored.unseen.items():
            unseen[feature] = unseen.get(feature, 0) + times
        for feature, times in unseen.items():
            self.unseen.labels(feature).inc(times)

    def text(self) -> bytes:
        """The metrics in the text format of Prometheus."""
        return b"".join(map(generate_latest, self._registries))

    def answered(self, path: str, status: int, seconds: float) -> None:
        """Count an answer, and how long it took."""
        requests, times = self._of(path if path in PATHS else "other", status)
        requests.inc()
        times.observe(seconds)
