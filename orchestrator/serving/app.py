"""Click probabilities from the newest published champion: what each path answers."""

import math
import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from orchestrator.serving.body import BatchRequest, BodyDecoder, R, ScoreRequest, VectorRequest
from orchestrator.serving.docs import docs_page, openapi
from orchestrator.serving.metrics import Metrics
from orchestrator.serving.request import RequestError
from orchestrator.serving.scorer import Scored, Scorer
from orchestrator.serving.snapshot import Table
from orchestrator.serving.turns import Answer, BusyError, Work
from orchestrator.sources.files.mapping.raw import RawFeature
from orchestrator.validation.errors import printable

MOST_UNSEEN = 20
"""How many values of a feature an answer lists."""

LARGE_BYTES = 65_536
"""A larger body makes a large request."""

Decoding = Generator[None, None, R]
"""Decodes a body in slices."""

encode = msgspec.json.Encoder().encode


class App:
    """The service without its sockets."""

    def __init__(
        self, scorer: Scorer, max_age_s: float | None = None, metrics: Metrics | None = None
    ) -> None:
        """`/health` reports a model that is older than `max_age_s` as stale, unless it is held."""
        self.scorer, self._max_age_s = scorer, max_age_s
        self.metrics = metrics or Metrics(scorer)
        self._score = BodyDecoder(ScoreRequest, scorer.limits)
        self._batch = BodyDecoder(BatchRequest, scorer.limits)
        self._vector = BodyDecoder(VectorRequest, scorer.limits)
        self.reads: dict[str, Callable[[], Answer]] = {
            "/health": self._health,
            "/version": self._version,
            "/metrics": lambda: Answer(200, self.metrics.text(), "text/plain; version=0.0.4"),
            "/openapi.json": lambda: Answer(200, encode(openapi())),
            "/docs": lambda: Answer(200, docs_page(), "text/html; charset=utf-8"),
        }
        self.works: dict[str, Callable[[bytes, str], Work]] = {
            "/v1/score": self._work_score,
            "/v1/batch": self._work_batch,
            "/v1/user-vector": self._work_vector,
        }

    def answer(self, method: str, path: str) -> Answer:
        """The answer to a request that needs no work."""
        if path not in self.reads and path not in self.works:
            return refusal(404, ["path: there is nothing here; /docs says what there is"])
        if method not in ("GET", "HEAD") or path in self.works:
            return refusal(405, [f"method: must be {'GET' if path in self.reads else 'POST'}"])
        return self.reads[path]()

    def _decoded(self, decoder: BodyDecoder[R], body: bytes, content_type: str) -> Decoding[R]:
        decoder.check(body, content_type)
        request = decoder.decode(body)
        if len(body) > LARGE_BYTES:
            yield
        decoder.check_keys(body, request)
        if len(body) > LARGE_BYTES:
            yield
        return request

    def _work_score(self, body: bytes, content_type: str) -> Work:
        request = yield from self._decoded(self._score, body, content_type)
        [scored] = yield from self.scorer.scoring([(request.user, request.ads)])
        self.metrics.count(scored)
        answer = {"pctr": scored.pctr.tolist(), "unseen": unseen_values(scored)}
        return Answer(200, encode(_version(scored) | answer))

    def _work_batch(self, body: bytes, content_type: str) -> Work:
        request = yield from self._decoded(self._batch, body, content_type)
        scored = yield from self.scorer.scoring([(one.user, one.ads) for one in request.requests])
        pctr, unseen = [], []
        for one in scored:
            self.metrics.count(one)
            pctr.append(one.pctr.tolist())
            unseen.append(unseen_values(one))
            yield
        return Answer(200, encode(_version(scored[0]) | {"pctr": pctr, "unseen": unseen}))

    def _work_vector(self, body: bytes, content_type: str) -> Work:
        request = yield from self._decoded(self._vector, body, content_type)
        vector, bias, version = self.scorer.user_vector(request.user)
        info = {"version": version.number, "cycle": version.cycle}
        return Answer(200, encode(info | {"vector": vector.tolist(), "bias": bias}))

    def _health(self) -> Answer:
        """200 while the model is fresh, 503 once it is stale.

        A held one is old because someone decided so, and must not take all serving down.
        """
        limit = math.inf if self._max_age_s is None else self._max_age_s
        stale = self.scorer.age_s > limit and not self.scorer.current.version.held
        body = {"status": "stale" if stale else "ok"} | status(self.scorer)
        return Answer(503 if stale else 200, encode(body))

    def _version(self) -> Answer:
        """Which model is served, how old it is, what each feature expects, and an example."""
        scorer = self.scorer
        spec = scorer.current.config.spec
        sides = {"user": [f.name for f in spec.user], "ad": [f.name for f in spec.ad]}
        raw = scorer.serving.users.raw | scorer.serving.ads.raw
        expects = {name: feature.expects for name, feature in raw.items()}
        more = {"features": sides, "expects": expects, "vectors": len(scorer.current)}
        current = scorer.current
        example = {"user": example_of(current.user, raw), "ads": [example_of(current.ad, raw)]}
        return Answer(200, encode(status(scorer) | more | {"example": example}))


def example_of(table: Table, raw: Mapping[str, RawFeature]) -> dict[str, Any]:
    """For each feature of users or ads a raw value that the model knows, for a first request."""
    return {
        feature.name: raw[feature.name].example(list(islice(filter(None, rows), 2)))
        for feature, rows in zip(table.features, table.rows, strict=True)
    }


def refusal(code: int, lines: Sequence[str]) -> Answer:
    """The answer to a request that is refused: a line for each mistake."""
    return Answer(code, encode({"errors": [printable(line) for line in lines]}))


def refused(error: Exception) -> Answer:
    """The answer to a request whose work ended with this error."""
    if isinstance(error, RequestError):
        return refusal(422, str(error).splitlines())
    if isinstance(error, BusyError):
        return refusal(503, [str(error)])
    traceback.print_exception(error, file=sys.stderr)
    return refusal(500, ["service: failed; its log has the reason"])


def unseen_values(scored: Scored) -> dict[str, list[str | None]]:
    """The values that the model does not know, by feature; null is the missing value."""
    found: dict[str, list[str | None]] = {}
    for feature, value in scored.unseen:
        values = found.setdefault(feature, [])
        if len(values) < MOST_UNSEEN:
            values.append(value or None)
    return found


def status(scorer: Scorer) -> dict[str, Any]:
    """The version that is served, its age, and the result of looking for newer ones."""
    version, watch = scorer.current.version, scorer.watch
    return {
        "version": version.number,
        "cycle": version.cycle,
        "line": version.line,
        "published": version.published,
        "age_s": round(scorer.age_s, 3),
        "held": version.held,
        "swaps": watch.swaps,
        "faults": watch.faults,
        "last_fault": watch.last_fault,
        "checked_s_ago": round(time.monotonic() - watch.checked, 3),
    }


def _version(scored: Scored) -> dict[str, Any]:
    return {"version": scored.version.number, "cycle": scored.version.cycle}
