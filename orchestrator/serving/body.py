"""Bodies of requests: read, parsed and answered within limits, and beside the event loop.

The event loop also answers /health, which must not wait. Hence a body is read in full before the
app sees it, a small request is worked on in the event loop, one at a time between other events
(a thread would take longer), and a large one in a thread. The interpreter cannot leave a JSON
parser before it is done, so the number of values in a body is limited before it is parsed.
"""

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, get_type_hints

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.serving.limits import Limits
from orchestrator.serving.request import RequestError
from orchestrator.validation.errors import printable, short

BODY_FORMATS = (
    'must be a JSON object, sent with "content-type: application/json": {"user": …, "ads": […]} '
    'for /v1/score, {"requests": [{"user": …, "ads": […]}, …]} for /v1/batch, {"user": …} for '
    "/v1/user-vector"
)
SMALL_BYTES, SMALL_VALUES = 65_536, 2_000
"""A request of this size takes a few milliseconds; 20 if the model knows none of its values."""

MAX_LARGE = 64
"""How many large requests may wait for the thread."""

M = TypeVar("M", bound=BaseModel)


class BusyError(Exception):
    """Too many large requests at once."""


def error_response(
    status: int, lines: list[str], headers: dict[str, str] | None = None
) -> Response:
    """The answer to a request that is refused: a line for each mistake."""
    shown = [printable(line) for line in lines]
    return Response(json.dumps({"errors": shown}), status, headers, "application/json")


class BoundedBody:
    """Middleware that reads the whole body first, and refuses one that is too large with a 413."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app, self._limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most, body, more = self._limits.body_bytes, bytearray(), True
        length = dict(scope["headers"]).get(b"content-length", b"0")  # of digits: the parser's rule
        too_large = int(length[:19]) > most
        while more and not too_large:
            message = await receive()
            if message["type"] == "http.disconnect":  # by the client, or after --read-timeout-s
                await error_response(408, ["request: is not complete"])(scope, receive, send)
                return
            part, more = message.get("body", b""), message.get("more_body", False)
            too_large = len(body) + len(part) > most
            if not too_large:
                body += part
        if too_large:
            await self._refuse(scope, receive, send, more)
            return
        given = False

        async def whole() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, whole, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, more: bool) -> None:
        """Answer, then discard the rest: a client that is still sending would miss the answer."""
        line = f"body: must be at most {self._limits.max_body_mb:g} MB (--max-body-mb)"

        async def hold_open(message: Message) -> None:
            await send({**message, "more_body": True})

        refusal = error_response(413, [line], {"connection": "close"})
        await refusal(scope, receive, hold_open)
        while more:
            more = (await receive()).get("more_body", False)
        await send({"type": "http.response.body"})


class Turns:
    """Runs the work of requests: small ones in turn, large ones in one thread."""

    def __init__(self) -> None:
        self._turn, self._large = asyncio.Lock(), 0
        self._thread = ThreadPoolExecutor(1, "large-requests")

    async def run(self, work: Callable[[], Response], large: bool) -> Response:
        """The result of `work`; BusyError if there is too much of it."""
        if not large:
            async with self._turn:
                await asyncio.sleep(0)  # other events come first
                return work()
        if self._large >= MAX_LARGE:
            raise BusyError(f"busy: {MAX_LARGE} large requests are already waiting")
        self._large += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._large -= 1


def bounded_route(limits: Limits) -> type[APIRoute]:
    """Routes whose endpoints are plain functions of a validated body."""
    turns, decoder = Turns(), BodyDecoder(limits)

    class BoundedRoute(APIRoute):
        """Decodes the body itself: FastAPI would do so in the event loop."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Decode the body, and call the endpoint with it."""
            if self.body_field is None:
                return super().get_route_handler()
            endpoint, model = self.endpoint, next(iter(get_type_hints(self.endpoint).values()))

            async def answer(request: Request) -> Response:
                body = await request.body()
                values = decoder.count(body, request.headers.get("content-type", ""))

                def work() -> Response:
                    try:
                        return endpoint(decoder.decode(body, model))  # type: ignore[no-any-return]
                    except RecursionError:
                        raise RequestError(["body: is nested too deeply"]) from None

                return await turns.run(work, len(body) > SMALL_BYTES or values > SMALL_VALUES)

            return answer

    return BoundedRoute


class BodyDecoder:
    """Decodes the JSON of bodies: UTF-8, finite numbers, no key twice."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._most_keys = limits, limits.object_keys
        self._json = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=_number, parse_float=_number
        )

    def count(self, body: bytes, content_type: str) -> int:
        """About how many values a body has: as many as commas and brackets."""
        kind = content_type.partition(";")[0].strip().lower()
        if not body or not re.fullmatch(r"application/(json|.+\+json)", kind):
            raise RequestError([f"body: {BODY_FORMATS}"])
        values, most = len(body) - len(body.translate(None, b",[{")), self._limits.json_values
        if values > most:
            raise RequestError(
                [f"body: must have at most {most} values for {self._limits.max_ads} ads, "
                 f"but has {values} (--max-ads)"]
            )  # fmt: skip
        return values

    def decode(self, body: bytes, model: type[M]) -> M:
        """The body as a model; RequestError if it is not one."""
        try:
            return model.model_validate(self._json.decode(body.decode()))
        except ValidationError as error:
            mistakes = error.errors(include_url=False, include_input=False)
            raise RequestError([_error_line(one) for one in mistakes]) from None
        except json.JSONDecodeError as error:
            line = f"body: not JSON: {error.msg} at character {error.pos}"
        except UnicodeDecodeError as error:
            line = f"body: must be UTF-8, but is not at byte {error.start}"
        except ValueError as error:  # an integer of thousands of digits
            line = f"body: {str(error).partition(':')[0]}"
        raise RequestError([line])

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > self._most_keys:
            raise RequestError(
                [f"body: an object must have at most {self._most_keys} keys, "
                 f"but has {len(pairs)} (--max-values)"]
            )  # fmt: skip
        found = dict(pairs)
        if len(found) < len(pairs):
            [(key, times)] = Counter(key for key, _ in pairs).most_common(1)
            raise RequestError([f"body: the key {short(key)} occurs {times} times in one object"])
        return found


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise RequestError([f"body: a number must be finite, but is {text}"])
    return number


def _error_line(error: ErrorDetails) -> str:
    """A validation error as one line: where it is in the body, and what is wrong."""
    where = ".".join(str(step) for step in error["loc"])
    if not where:
        return f"body: {BODY_FORMATS}"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key; the body {BODY_FORMATS}"
    return f"{where}: {error['msg']}"
