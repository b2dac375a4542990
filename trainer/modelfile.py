"""Models as files: safetensors with a manifest. A file holds data, never code.

A *full* file holds every vector. A *delta* holds the vectors that one cycle changed and the keys
of those it dropped; a full file and its deltas, in order, give the same bits as the latest full
one. The manifest has a checksum over itself and every tensor: a file that was cut short, altered
or written by another program is refused.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from trainer.features import Feature, FeatureSpec
from trainer.geometry import PARTS
from trainer.model import Changes, Key, Model, ModelConfig, Side
from trainer.tensorfile import BLOCK, Data, Part, Parts, RowStarts, Tensors, tensor_file, tensors_in

FORMAT, VERSION = "holdfast-model", 1
MANIFEST = "holdfast"


def save_model(model: Model, *, rows: bool = False) -> bytes:
    """A full file. With `rows`, the model that is loaded from it has the same row numbers."""
    tensors: dict[str, Part] = {"bias": model.bias}
    for name, side, length in _sides(model):
        alive = side.alive()
        tensors |= _rows(name, side, alive, length)
        if rows:
            tensors |= {f"{name}.row": alive, f"{name}.free": np.array(side.free, np.int64)}
    return file_bytes(tensors, _manifest(model, "full"))


def save_delta(model: Model, changes: Changes) -> bytes:
    """A delta file: what one cycle changed, to apply to the model before that cycle."""
    tensors: dict[str, Part] = {"bias": model.bias}
    for (name, side, length), rows in zip(
        _sides(model), (changes.user_rows, changes.ad_rows), strict=True
    ):
        alive = rows[[side.keys[row] is not None for row in rows]]
        tensors |= _rows(name, side, alive, length)
    tensors |= _keys("dropped", list(changes.dropped))
    return file_bytes(tensors, _manifest(model, "delta") | {"since": changes.since})


def load_model(data: Data, name: str, config: ModelConfig | None = None) -> Model:
    """The model of a full file called `name`; `InputError` if it does not fit `config`."""
    with refusing(name):
        manifest, tensors = read_tensors(data, name, "full")
        found = _config(manifest)
        if config is not None:
            _check_fit(found, config, name)
        model = Model(config or found)
        _load_rows(model, manifest, tensors)
    return model


def apply_delta(model: Model, data: Data, name: str) -> None:
    """Apply a delta: the model is then as after the delta's cycle."""
    with refusing(name):
        manifest, tensors = read_tensors(data, name, "delta")
        _check_fit(_config(manifest), model.config, name)
        if manifest["since"] != model.cycle:
            raise InputError(
                f"{name} applies to a model of cycle {manifest['since']}, "
                f"but this model is of cycle {model.cycle}"
            )
        dropped = _read_keys("dropped", tensors)
        _load_rows(model, manifest, tensors)
        model.drop(dropped)


# -- writing ------------------------------------------------------------------------------------


def _sides(model: Model) -> tuple[tuple[str, Side, int], tuple[str, Side, int]]:
    return ("user", model.user, model.shape.user), ("ad", model.ad, model.shape.ad)


def _rows(name: str, side: Side, rows: NDArray[np.int64], length: int) -> dict[str, Part]:
    keys = [key for row in rows.tolist() if (key := side.keys[row]) is not None]
    return {
        **_keys(name, keys),
        f"{name}.vectors": RowStarts(side.rows, rows, length),
        f"{name}.mu": side.mu[rows],
        f"{name}.updates": side.updates[rows],
        f"{name}.seen": side.seen[rows],
    }


def _keys(name: str, keys: list[Key]) -> Tensors:
    values = pa.array([value for _, value in keys], pa.large_string())
    ends = np.zeros(len(keys) + 1, np.int64)
    np.cumsum(pc.binary_length(values), out=ends[1:])
    return {
        f"{name}.feature": np.array([feature for feature, _ in keys], np.int16),
        f"{name}.value_ends": ends,
        f"{name}.value_bytes": np.frombuffer(values.buffers()[2] or b"", np.uint8)[: ends[-1]],
    }


def _manifest(model: Model, kind: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "cycle": model.cycle,
        "config": asdict(model.config),
    }


def file_bytes(parts: Parts, manifest: dict[str, Any]) -> bytes:
    """A file of these tensors; the manifest gets a checksum over all of it."""

    def with_checksum(checksum: str) -> dict[str, str]:
        return {MANIFEST: json.dumps(manifest | {"sha256": checksum}, sort_keys=True)}

    return tensor_file(
        parts, with_checksum("0" * 64), lambda tensors: with_checksum(_checksum(tensors, manifest))
    )


def _checksum(tensors: Tensors, manifest: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"\0{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return digest.hexdigest()


# -- reading ------------------------------------------------------------------------------------


@contextmanager
def refusing(name: str) -> Iterator[None]:
    """Raise InputError with the file's name, whatever is wrong with a file of unknown origin."""
    try:
        yield
    except InputError:
        raise
    except (
        ValueError, LookupError, TypeError, AttributeError, OverflowError,
        MemoryError, RecursionError,
    ) as error:  # fmt: skip
        raise InputError(f"{name} is not a Holdfast model, or is damaged ({error})") from error


def read_tensors(
    data: Data, name: str, kind: str, form: str = FORMAT
) -> tuple[dict[str, Any], Tensors]:
    """The manifest and the tensors of a file of this kind and format, both checked. The tensors
    are views of the file, which cannot be written."""
    metadata, tensors = tensors_in(data)
    manifest = dict(json.loads(metadata[MANIFEST]))
    given = manifest.pop("sha256")
    if (manifest.get("format"), manifest.get("version")) != (form, VERSION):
        raise InputError(
            f"{name} has format {manifest.get('format')!r} version {manifest.get('version')!r}, "
            f"but this Holdfast reads {form!r} version {VERSION}"
        )
    if _checksum(tensors, manifest) != given:
        raise InputError(f"{name} is damaged: its checksum does not match")
    if manifest["kind"] != kind:
        raise InputError(f"{name} must be a {kind} model file, but is a {manifest['kind']}")
    return manifest, tensors


def _config(manifest: dict[str, Any]) -> ModelConfig:
    fields = dict(manifest["config"])
    spec = dict(fields.pop("spec"))
    for side in ("user", "ad"):
        spec[side] = tuple(Feature(**feature) for feature in spec[side])
        if not all(_is_feature(feature) for feature in spec[side]):
            raise ValueError(f"its {side} features are not features")
    return ModelConfig(FeatureSpec(**spec), **fields)


def _is_feature(feature: Feature) -> bool:
    names = (feature.name,) if feature.weights is None else (feature.name, feature.weights)
    return isinstance(feature.multi, bool) and all(isinstance(name, str) for name in names)


def _check_fit(found: ModelConfig, wanted: ModelConfig, name: str) -> None:
    pairs = (
        ("user features", _names(found.spec.user), _names(wanted.spec.user)),
        ("ad features", _names(found.spec.ad), _names(wanted.spec.ad)),
        ("overlap", found.overlap, wanted.overlap),
        ("alone", found.alone, wanted.alone),
    )
    differing = [
        f"{what} {has} where the config has {wants}" for what, has, wants in pairs if has != wants
    ]
    if differing:
        raise InputError(f"{name} does not fit the config: it has {'; '.join(differing)}")


def _names(features: tuple[Feature, ...]) -> str:
    return ", ".join(f"{f.name} (multi)" if f.multi else f.name for f in features)


def _read_keys(name: str, tensors: Tensors) -> list[Key]:
    ends = tensors[f"{name}.value_ends"].tolist()
    text = tensors[f"{name}.value_bytes"].tobytes()
    values = (text[a:b].decode() for a, b in pairwise(ends))
    return list(zip(tensors[f"{name}.feature"].tolist(), values, strict=True))


def _load_rows(model: Model, manifest: dict[str, Any], tensors: Tensors) -> None:
    """Write the file's rows into the model; rows new to the model are added in the file's order."""
    for name, side, length in _sides(model):
        keys = _read_keys(name, tensors)
        if f"{name}.row" in tensors:
            side.insert_at(keys, tensors[f"{name}.row"], tensors[f"{name}.free"].tolist())
        side.insert(key for key in keys if key not in side.index)
        at = np.fromiter((side.index[key] for key in keys), np.int64, len(keys))
        given, mu = tensors[f"{name}.vectors"], tensors[f"{name}.mu"]
        if given.shape != (len(keys), PARTS, length) or mu.shape != (len(keys),):
            raise ValueError(f"its {name} vectors do not fit its keys")
        for here in (slice(i, i + BLOCK) for i in range(0, len(keys), BLOCK)):
            vectors = np.zeros((len(at[here]), *side.rows.shape[1:]), np.float32)
            vectors[:, :, :length] = given[here]
            side.write(at[here], vectors, mu[here], length)
        side.updates[at] = tensors[f"{name}.updates"]
        side.seen[at] = tensors[f"{name}.seen"]
        alive = side.alive()
        side.touch_each(alive, side.seen[alive])
    model.bias[:] = tensors["bias"]
    model.cycle = int(manifest["cycle"])
