"""Hostile values, and mutations of data, text and bytes."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from scripts.lab.fuzzing.sandbox import CANARY


class Raw(str):
    """Text that `render` writes as it is, whether or not it is JSON."""

    __slots__ = ()


Path = tuple[str | int, ...]
NUMBERS: tuple[float, ...] = (
    0, 1, -1, 2, 3, 63, 64, 255, 256, 4096, 10**6, 10**9, 10**12, 2**31 - 1, 2**31, 2**32, 2**53,
    2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**18, 10**19, 10**400, -(10**400),
    0.0, -0.0, 0.5, 1e-9, 1e-300, 5e-324, 1e13, 1e16, 1e30, 1e300, 1.7e308, -1e300, -1e-9,
)  # fmt: skip
TEXTS = (
    "", " ", "0", "1", "-1", "true", "null", "NaN", "inf", "a", "A", "é", "\u0000", "\n", "a\nb",
    "a\tb", "\x1b[31m", "\u202e", "\ufeff", "\ud800", "a\udfffb", "\U0010ffff", "\r", "%s%n{0}",
    "../../outside", "/dev/zero", "/etc/passwd", "~", "C:\\x", "a" * 100, "a" * 5_000, "é" * 70_000,
    "2024-01-01T00:00:00", "2024-01-01T00:00:00Z", "9999-12-31T23:59:59.999999+00:00",
    "0001-01-01T00:00:00+23:59", "1e999", "99999999999999999999", "0x10", "1_000", "<script>", "'",
    '"', "\\", ",", "`", "$(true)", "*", "[", "s3://bucket/x", "file:///etc/passwd", "http://",
    "memory://x", "://", "gs://b/%00", "a://b:c/d@e", "Europe/Berlin", "../etc", "%Y", "%",
)  # fmt: skip
RAW_JSON = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1E400", "9" * 4_301, "-" + "1" * 20_000,
    "0." + "0" * 400 + "1", '"\\ud800"', '"\\u0000"', '"\\udc00\\ud800"', '{"a":1,"a":2}', "tru",
    "01", "+1", ".5", "1.", "''", '"', "{", "]", "\x00", "1e-400", "[1,]", "-", "--1",
)  # fmt: skip
RAW_YAML = (
    "!!int x", "!!int ''", "!!float y", "!!float ''", "!!bool maybe", "!!null x", "!!binary '@'",
    "!!binary x", "!!timestamp x", "!!timestamp 2020-13-01", "!!set {a: 1}", "!!omap [a]",
    "!!pairs [a]", "!!str [a]", "!!seq x", "!!map x", "!!python/object/apply:os.getcwd []",
    "!unknown x", "!<tag:yaml.org,2002:int> z", '"\\U00110000"', '"\\ud800"', '"\\x"', '"\\e[31m"',
    '"\\U0010FFFF"', "*nowhere", "&a [*a]", "&a {b: *a}", "{<<: *x}", "{<<: 3}", "{<<: [1]}",
    ".inf", "-.inf", ".nan", "0x" + "f" * 5_000, "0b" + "1" * 20_000, "0" + "7" * 6_000, "1:30:00",
    "190:20:30.15", "1_000", "0x", "0b", "1__0", "|", ">", "? a", "@", "%", "'open", '"open', "- -",
    "2001-12-14t21:59:43.10-05:00", "=", "<<", "[a, b", "{a: b", "a: b: c", "\t", "{[a]: 1}",
    "{? {a: 1} : 2}", "{null: 1}", "{1: 1}", "{true: 1}", "!!int 1_", "!!float 1:60.", "9" * 4_301,
    "1" + "0" * 400, "1e" + "9" * 30, "-0", "0o8", "y", "~",
)  # fmt: skip


def nested(rng: random.Random) -> Raw:
    """Deep brackets."""
    depth = rng.choice((10, 100, 100, 500, 500, 1_000, 5_000, 100_000))
    before, after = rng.choice((("[", "]"), ('{"a":', "}"), ("[[", "]]"), ('[{"a":', "}]")))
    inner = "" if rng.random() < 0.2 else "1"
    return Raw(before * depth + inner + ("" if rng.random() < 0.1 else after * depth))


def scalar(rng: random.Random) -> Any:
    """A hostile value for JSON."""
    return _one_of(rng, (NUMBERS, TEXTS, RAW_JSON))


def yaml_scalar(rng: random.Random) -> Any:
    """A hostile value for YAML."""
    return _one_of(rng, (NUMBERS, TEXTS, RAW_YAML))


def _one_of(rng: random.Random, lists: Sequence[Sequence[Any]]) -> Any:
    chance = rng.random()
    if chance < 0.01:
        return nested(rng)
    if chance < 0.1:
        return rng.choice((None, True, False, [], {}, [None], [[]], {"": None}, [1, "a"]))
    values = rng.choice(lists)
    value = rng.choice(values)
    return Raw(value) if values in (RAW_JSON, RAW_YAML) else value


def secret_uri(rng: random.Random) -> str:
    """A URI that contains a password or a signature."""
    scheme = rng.choice(("s3", "gs", "http", "https", "ftp", "abfs", "S3", "s3a", "memory"))
    rest = rng.choice((
        f"user:{CANARY}@host/path",
        f":{CANARY}@host",
        f"u:p/{CANARY}@host/x.csv",
        f"u:{CANARY}%40x@h:9000/b",
        f"host/x.csv?sig={CANARY}",
        f"host/x?X-Amz-Signature={CANARY}&a=1",
        f"host/x?token={CANARY}",
        f"a b:{CANARY}@host",
        f"user:{CANARY}@",
    ))  # fmt: skip
    return f"{scheme}://{rest}"


SECRET_NAMES = (
    "key", "secret", "token", "password", "pass", "pwd", "auth", "Cookie", "X-Auth", "conn_str",
    "passphrase", "signature", "bearer", "sessionToken", "userPassword", "account_key", "sas_token",
    "Authorization", "client_secret", "credential", "PRIVATEKEY", "jwt", "otp",
)  # fmt: skip


def render(data: Any) -> str:
    """The data as JSON, with `Raw` texts as they are."""
    if isinstance(data, Raw):
        return str(data)
    if isinstance(data, dict):
        return "{" + ", ".join(f"{render(str(k))}: {render(v)}" for k, v in data.items()) + "}"
    if isinstance(data, list | tuple):
        return "[" + ", ".join(map(render, data)) + "]"
    return json.dumps(data)


def render_yaml(data: Any, indent: str = "") -> str:
    """The data as YAML, a key per line in mappings, with `Raw` texts as they are."""
    lines = []
    for key, value in data.items():
        name = key if key.replace("_", "").isalnum() and key.isascii() else json.dumps(key)
        if isinstance(value, dict) and value:
            lines.append(f"{indent}{name}:\n{render_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{name}: {render(value)}\n")
    return "".join(lines)


# -- mutations ----------------------------------------------------------------------------------


def mutated(rng: random.Random, data: Any, value: Callable[[random.Random], Any]) -> Any:
    """The data with one hostile change: another value or type, a missing, odd or unknown key."""
    paths = paths_of(data)
    at = rng.choice(paths)
    old = get(data, at)
    chance = rng.random()
    if chance < 0.5:
        return put(data, at, value(rng))
    if chance < 0.6 and at:
        return without(data, at)
    if chance < 0.7:
        return put(data, at, get(data, rng.choice(paths)))
    if chance < 0.78:
        return put(data, at, [old] * rng.choice((1, 2, 300)))
    if chance < 0.84:
        return put(data, at, {rng.choice(TEXTS): old})
    if chance < 0.9 and isinstance(old, int | float | str):
        return put(data, at, str(old) if not isinstance(old, str) else rng.choice(NUMBERS))
    if isinstance(old, dict):
        return put(data, at, old | {rng.choice((*TEXTS, *map(_typo, old))): value(rng)})
    if isinstance(old, list):
        return put(data, at, [*old, *old, value(rng)])
    return put(data, at, value(rng))


def _typo(key: str) -> str:
    return key[1:] + key[:1]


def paths_of(data: Any, path: Path = ()) -> list[Path]:
    """The paths of all nodes, the root first."""
    items: Any = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data[:20])
    return [path, *(p for key, value in items for p in paths_of(value, (*path, key)))]


def get(data: Any, path: Path) -> Any:
    """The node at a path."""
    for step in path:
        data = data[step]
    return data


def put(data: Any, path: Path, value: Any) -> Any:
    """A copy of the data with another node at a path."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(data, dict):
        return data | {step: put(data[step], rest, value)}
    return [put(d, rest, value) if i == step else d for i, d in enumerate(data)]


def without(data: Any, path: Path) -> Any:
    """A copy of the data without the node at a path."""
    parent, step = get(data, path[:-1]), path[-1]
    if isinstance(parent, dict):
        return put(data, path[:-1], {k: v for k, v in parent.items() if k != step})
    return put(data, path[:-1], [v for i, v in enumerate(parent) if i != step])


TOKENS = (
    b"\xff", b"\x00", b"\xed\xa0\x80", b"\xef\xbb\xbf", b'"', b"'", b",", b"\n", b"\r", b"\r\n",
    b"\n\n", b"{", b"}", b"[", b"]", b":", b"\\", b"\\u0000", b"\\ud800", b"\t", b"-", b"1e999",
    b"9" * 4_400, b"nan", b"null", b"[" * 2_000, b'{"a":' * 2_000, b"\xe2\x80\xa8", b"\x85",
    b"\x1b", b"a" * 70_000, b",,,,", b'""', b"#", b"!!int ", b"&a ", b"*a ", b"---\n", b"...\n",
    b"%", b"\x1a",
)  # fmt: skip


def mutated_bytes(rng: random.Random, data: bytes, tokens: Sequence[bytes] = TOKENS) -> bytes:
    """The bytes with one change: flipped, cut, moved, repeated or inserted."""
    if not data:
        return rng.choice(tokens)
    at = rng.randrange(len(data))
    to = min(len(data), at + rng.choice((1, 2, 4, 8, 64, 1024)))
    chance = rng.random()
    if chance < 0.25:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if chance < 0.4:
        filling = rng.choice(
            (b"\x00", b"\xff", b"\x80", b"\x7f", b" ", bytes([rng.randrange(256)]))
        )
        return data[:at] + filling * (to - at) + data[to:]
    if chance < 0.5:
        return data[:at]
    if chance < 0.6:
        return data[:at] + data[to:]
    if chance < 0.7:
        return data[:at] + data[at:to] * rng.choice((2, 3, 50)) + data[to:]
    if chance < 0.8:
        other = rng.randrange(len(data))
        return data[:at] + data[other : other + to - at] + data[to:]
    return data[:at] + rng.choice(tokens) + data[at:]
