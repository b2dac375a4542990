"""Decode the bodies of requests: JSON in UTF-8, finite numbers, no key twice.

msgspec decodes and checks a body in one go. What it refuses is parsed again by Python's parser,
whose messages say where a mistake is, and which accepts half of a surrogate pair: that is a mistake
in one value, not in the body. The event loop waits meanwhile, so both are bounded: by the number of
values in a body, and of objects that are looked at.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from orchestrator.serving.limits import Limits
from orchestrator.serving.request import MAX_DIGITS, RequestError
from orchestrator.validation.errors import short

BODY_FORMATS = (
    'must be a JSON object, sent with "content-type: application/json": {"user": …, "ads": […]} '
    'for /v1/score, {"requests": [{"user": …, "ads": […]}, …]} for /v1/batch, {"user": …} for '
    "/v1/user-vector"
)
DIGITS = bytes(ord("0") if i in b"0123456789" else ord(" ") for i in range(256))

MOST_LOOKED_AT = 20_000
"""Objects and fractions in a body that Python looks at: at most 10 ms."""

MESSAGES = (
    (r"Object contains unknown field `(?P<key>.*)`",
     "{parent}{key}: unknown key; the body {formats}"),
    (r"Object missing required field `(?P<key>.*)`", "{parent}{key}: Field required"),
    (r"Expected `object`.*", "{where}: Input should be a valid dictionary"),
    (r"Expected `array` of length >= 1", "{where}: List should have at least 1 item"),
    (r"Expected `array`.*", "{where}: Input should be a valid list"),
)  # fmt: skip
"""What msgspec says, and what we say."""


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One user, and the ads to score for that user: objects with a value for every feature."""

    user: dict[str, Any]
    ads: list[dict[str, Any]]


class BatchRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """Several requests, all answered by the same version of the model."""

    requests: Annotated[list[ScoreRequest], msgspec.Meta(min_length=1)]


class VectorRequest(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One user."""

    user: dict[str, Any]


R = TypeVar("R", bound=msgspec.Struct)


class BodyDecoder(Generic[R]):
    """Decodes bodies of one kind; RequestError if a body is not of this kind."""

    def __init__(self, kind: type[R], limits: Limits) -> None:
        self._kind, self._limits = kind, limits
        self._json = msgspec.json.Decoder(kind)

    def check(self, body: bytes, content_type: str) -> None:
        """Check what can be checked before the body is decoded."""
        if not body or not _is_json(content_type):
            raise RequestError([f"body: {BODY_FORMATS}"])
        most = self._limits.json_values
        if len(body) <= most:
            return
        values = len(body) - len(body.translate(None, b",[{"))
        if values > most:
            raise RequestError(
                [f"body: must have at most {most} values for {self._limits.max_ads} ads, "
                 f"but has {values} (--max-ads)"]
            )  # fmt: skip
        _check_digits(body)

    def decode(self, body: bytes) -> R:
        """The request in a body."""
        try:
            return self._json.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return self._by_python(body, f"body: not JSON: {error}")

    def check_keys(self, body: bytes, found: R) -> None:
        """Check that no object of a body, of which this is the request, has a key twice."""
        strings = _strings_in(found)
        if strings is not None and (2 * strings != body.count(b'"') or b'\\"' in body):
            self._by_python(body, "body: a key occurs twice in one object")

    def _by_python(self, body: bytes, line: str) -> R:
        """The same, slower, with better messages; `line` is the one for a body of great length."""
        _check_digits(body)
        parser = _Parser(self._limits.object_keys, line)
        try:
            return msgspec.convert(parser.parse(body.decode()), self._kind)
        except UnicodeEncodeError as error:  # where no feature is named
            half = f"\\u{ord(error.object[error.start]):04x}"
            line = f"body: must not have {half} alone, which is half a character"
        except msgspec.ValidationError as error:
            line = _error_line(str(error))
        except json.JSONDecodeError as error:
            line = f"body: not JSON: {error.msg} at character {error.pos}"
        except UnicodeDecodeError as error:
            line = f"body: must be UTF-8, but is not at byte {error.start}"
        except RecursionError:
            line = "body: is nested too deeply"
        raise RequestError([line])


class _Parser:
    """Python's parser, which looks at a bounded number of objects and fractions."""

    def __init__(self, most_keys: int, line: str) -> None:
        self._most_keys, self._line, self._left = most_keys, line, MOST_LOOKED_AT
        self.parse = json.JSONDecoder(
            object_pairs_hook=self._object, parse_constant=self._number, parse_float=self._number
        ).decode

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise RequestError([self._line])

    def _number(self, text: str) -> float:
        self._count()
        number = float(text)
        if not math.isfinite(number):
            raise RequestError([f"body: a number must be finite, but is {text}"])
        return number

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._count()
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


@lru_cache(64)
def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return re.fullmatch(r"application/(json|.+\+json)", kind) is not None


def _check_digits(body: bytes) -> None:
    if b"0" * (MAX_DIGITS + 1) in body.translate(DIGITS):
        digits = max(map(len, body.translate(DIGITS).split()))
        raise RequestError(
            [f"body: an integer must have at most {MAX_DIGITS} digits, but has {digits}"]
        )


def _strings_in(request: msgspec.Struct) -> int | None:
    """How many strings a request has, keys included: a body with more has a key twice.

    None if a feature has lists of lists or the like: such a request is refused in any case.
    """
    if isinstance(request, BatchRequest):
        parts = [_strings_in(one) for one in request.requests]
        return None if None in parts else 1 + sum(filter(None, parts))
    assert isinstance(request, ScoreRequest | VectorRequest)
    keys, of_user = len(request.__struct_fields__), _strings_of([request.user])
    of_ads = _strings_of(request.ads) if isinstance(request, ScoreRequest) else 0
    return None if of_user is None or of_ads is None else keys + of_user + of_ads


def _strings_of(objects: Sequence[dict[str, Any]]) -> int | None:
    """The same for users or ads."""
    values = list(chain.from_iterable(map(dict.values, objects)))
    kinds, strings = set(map(type, values)), sum(map(len, objects))
    if kinds == {str}:
        return strings + len(values)
    inner = list(chain.from_iterable(each for each in values if type(each) in (list, dict)))
    inner += chain.from_iterable(each.values() for each in values if type(each) is dict)
    if {list, dict} & set(map(type, inner)):
        return None
    return strings + sum(type(each) is str for each in chain(values, inner))


def _error_line(text: str) -> str:
    """A validation error as one line: where it is in the body, and what is wrong."""
    what, _, path = text.removesuffix("`").rpartition(" - at `$")
    if not what:
        what, path = text, ""
    where = re.sub(r"\[(\d+)\]", r".\1", path).lstrip(".")
    for pattern, line in MESSAGES:
        if found := re.fullmatch(pattern, what, re.DOTALL):
            if not where and "{where}" in line:
                return f"body: {BODY_FORMATS}"
            parent = f"{where}." if where else ""
            named = found.groupdict() | {"formats": BODY_FORMATS}
            return line.format(where=where, parent=parent, **named)
    return f"{where or 'body'}: {what}"
