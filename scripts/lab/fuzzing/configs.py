"""Configs of runs: YAML text, and `--set` assignments."""

import random
from collections.abc import Iterator
from typing import Any

from orchestrator.config.file import load_config
from orchestrator.config.schema import RunConfig
from orchestrator.config.space import space_of
from orchestrator.journal.run_folder import prepare
from orchestrator.search.sampler import SearchState, ask, cycle_rng, draw_quantiles
from orchestrator.storage.local_store import LocalStore
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import (
    SECRET_NAMES,
    TEXTS,
    mutated,
    mutated_bytes,
    paths_of,
    render,
    render_yaml,
    secret_uri,
    yaml_scalar,
)
from scripts.lab.fuzzing.sandbox import CANARY, Sandbox
from scripts.lab.fuzzing.shrink import smaller

FEATURES = {"user": ["age", "gender"], "ad": ["ad", {"name": "genres", "multi": True}]}
BASES: tuple[dict[str, Any], ...] = (
    {
        "seed": 1,
        "cycles": 20,
        "source": {"kind": "simulator", "preset": "stormy", "events_per_cycle": 300, "ctr": 0.02},
        "model": {"overlap": 2, "alone": 2, "init_std": 0.05, "accumulators": {"decay": 0.9}},
        "search": {"instances": 16, "sampler": {"kind": "adaptive", "spread": {"eta0": 10}}},
        "arms": [
            {"name": "production", "rule": "l2"},
            {"name": "b", "rule": "none", "start_from": {"arm": "production", "cycle": 4}},
        ],
    },
    {
        "source": {
            "kind": "files",
            "path": "data/events.parquet",
            "cut": {"minutes": 15, "start": "2024-01-01T00:00:00Z"},
            "click": "rating >= 4",
            "columns": {"age": {"bins": [18, 25]}, "gender": {"slice": [0, 2]}},
            "timestamp": {"unit": "s", "timezone": "UTC"},
            "max_broken_share": 0.01,
        },
        "features": FEATURES,
        "search": {"instances": 4, "ranges": {"eta0": {"low": 0.1, "high": 3}, "alpha": 3}},
        "arms": [{"name": "a", "rule": {"name": "entropic", "rho": {"k": 0.3}, "dual_step": 3}}],
    },
    {
        "source": {
            "kind": "follow",
            "path": "s3://bucket/events",
            "poll_s": 5,
            "csv": {"delimiter": ";", "columns": ["a", "b"]},
            "missing": ["NA"],
            "storage_options": {"endpoint_url": "http://127.0.0.1:9", "anon": True},
        },
        "features": FEATURES,
        "arms": [{"name": "a", "ranges": {"beta": {"choice": [0.3, 0.5]}}}],
        "deadline_s": 60,
        "actors": 4,
        "retention": {"keep_last": 8, "keep_every": 24},
        "publish": {"to": "s3://bucket/place", "deltas": True, "keep_last": 4},
    },
    {
        "source": "simulator",
        "search": {"sampler": {"kind": "grid", "points": 3}, "instances": 9},
        "sustain": {"eta0": [0.1, 1], "alpha": [1, 10], "beta": [0.5]},
        "arms": [{"name": "a", "rule": {"name": "l2", "lam": 0.01}}],
        "tries": 3,
        "patience_s": 30,
    },
)
LINES = (
    "a: &a [*a]", "<<: {seed: 3}", "%YAML 9.9", "---", "...", "\ufeff", "\t", "? [a]", "seed: 1",
    "arms: []", "- 1", "# é", "x: !!int x", "\x07", "a: b: c", "<<: *a", "{}", "'", "seed: &s 1",
)  # fmt: skip
URI_PATHS: tuple[tuple[str, ...], ...] = (
    ("source", "path"), ("source", "quarantine"), ("publish", "to"),
    ("source", "storage_options", "endpoint_url"), ("source", "storage_options", "proxy"),
)  # fmt: skip


class Configs:
    """`holdfast config`, and the start of a run: its folder and the first draws."""

    name, share = "config", 24

    def generate(self, rng: random.Random) -> Case:
        """A valid config with a few changes of its data, its text or by assignments."""
        data: Any = rng.choice(BASES)
        sets: list[str] = []
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
            data = mutated(rng, data, yaml_scalar)
        secret = isinstance(data, dict) and rng.random() < 0.25
        if secret:
            data = _with_secret(rng, data)
        text = render_yaml(data) if isinstance(data, dict) else render(data)
        body = text.encode("utf-8", "surrogatepass")
        chance = 1.0 if secret else rng.random()  # a damaged secret cannot be recognised as one
        if chance < 0.1:
            body = mutated_bytes(rng, body)
        elif chance < 0.2:
            body = _with_line(rng, body)
        elif chance < 0.202:
            body += _alias_bomb(rng)
        if rng.random() < 0.3:
            sets = [_assignment(rng, data) for _ in range(rng.choice((1, 1, 2)))]
        return Case(self.name, body, {"set": sets} if sets else {})

    def run(self, case: Case, box: Sandbox) -> None:
        """Check the config, print it, write it to a run folder and draw settings from it."""
        arguments = self.command(case, box)
        (box.inputs / "run.yaml").write_bytes(case.body)
        if box.command(*arguments) == 0:
            box.step(lambda: self._start(box, tuple(case.head.get("set", ()))))

    def _start(self, box: Sandbox, assignments: tuple[str, ...]) -> None:
        config = load_config(str(box.inputs / "run.yaml"), assignments)
        for _ in range(2):  # the second one finds the first one's file
            prepare(LocalStore(box.out / "run"), config)
        if config.search.instances <= 1_000:
            _draw(config)

    def command(self, case: Case, box: Sandbox) -> list[str]:
        """The config with all defaults."""
        sets = [part for each in case.head.get("set", ()) for part in ("--set", each)]
        return ["config", str(box.inputs / "run.yaml"), "--no-time", *sets]

    def simpler(self, case: Case) -> Iterator[Case]:
        """Fewer assignments, then less text."""
        sets = case.head.get("set", [])
        for i in range(len(sets)):
            yield Case(self.name, case.body, {"set": sets[:i] + sets[i + 1 :]})
        for body in smaller(case.body):
            yield Case(self.name, body, case.head)
        for i, each in enumerate(sets):
            for text in smaller(each.encode("utf-8", "surrogatepass")):
                fewer = text.decode("utf-8", "surrogateescape")
                yield Case(self.name, case.body, {"set": [*sets[:i], fewer, *sets[i + 1 :]]})


def _draw(config: RunConfig) -> None:
    quantiles = draw_quantiles(config, 0, cycle_rng(config.seed, 0))
    for arm in config.arms[:20]:
        ask(config.search, space_of(config, arm, 1.0), SearchState(), quantiles)


def _with_secret(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """The data with a password in a URI, or in an option of the storage."""
    if rng.random() < 0.5:
        return _deep_put(data, rng.choice(URI_PATHS), secret_uri(rng))
    inner = ("client_kwargs",) if rng.random() < 0.3 else ()
    path = ("source", "storage_options", *inner, rng.choice(SECRET_NAMES))
    return _deep_put(data, path, rng.choice((CANARY, f"Bearer {CANARY}")))


def _deep_put(data: object, path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy with this value at a path; what is on the way and not a mapping is replaced."""
    old: dict[str, Any] = data if isinstance(data, dict) else {}
    if len(path) > 1:
        value = _deep_put(old.get(path[0]), path[1:], value)
    return old | {path[0]: value}


def _assignment(rng: random.Random, data: Any) -> str:
    path = ".".join(map(str, rng.choice(paths_of(data))))
    chance = rng.random()
    if chance < 0.1:
        return f"{'.'.join(rng.choice(URI_PATHS))}={secret_uri(rng)}"
    if chance < 0.2:
        return f"source.storage_options.{rng.choice(SECRET_NAMES)}={CANARY}"
    value = render(yaml_scalar(rng))
    path += rng.choice(("", "", "", ".x", ".0", ".99999999999999999999", "." + rng.choice(TEXTS)))
    text = rng.choice((f"{path}={value}",) * 8 + (path, f"={value}", f"{path}=={value}"))
    return text.replace("\0", "")  # an argument cannot hold it


def _with_line(rng: random.Random, body: bytes) -> bytes:
    """The text with an odd line, or one of its own lines again."""
    lines = body.split(b"\n")
    new = rng.choice((rng.choice(LINES).encode(), rng.choice(lines)))
    at = rng.randrange(len(lines) + 1)
    return b"\n".join([*lines[:at], new, *lines[at:]])


def _alias_bomb(rng: random.Random) -> bytes:
    levels, width = rng.choice(((6, 10), (9, 9), (30, 2)))
    inner = "".join(
        f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * width)}]\n" for i in range(1, levels)
    )
    return f"l0: &l0 [x]\n{inner}".encode()
