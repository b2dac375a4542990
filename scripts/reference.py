"""Writes configs/REFERENCE.md: every config key, and the columns of the exported tables.

Run it after a change of a key or a column; a test says so.
"""

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from orchestrator.config import ranges, schema, trainers
from orchestrator.config.rules import RULES
from orchestrator.report.frames import CYCLES, INSTANCES, LINES
from orchestrator.sources.registry import SOURCES

PAGE = Path(__file__).parents[1] / "configs/REFERENCE.md"
NAMES: dict[Any, str] = {
    int: "integer", float: "number", str: "text", bool: "true or false", Any: "anything",
}  # fmt: skip
RANGE_MODELS = (ranges.Interval, ranges.Choice, ranges.Multiples)
SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("The run", schema.RunConfig),
    ("features", schema.FeaturesConfig),
    ("features.user and features.ad: each entry", schema.FeatureConfig),
    ("trainer, kind: torch", trainers.TorchConfig),
    ("trainer, kind: river", trainers.RiverConfig),
    ("trainer, kind: python", trainers.PythonTrainerConfig),
    ("model", schema.ModelOptions),
    ("search", schema.SearchConfig),
    ("search.ranges", schema.Ranges),
    ("search.sampler, kind: adaptive", schema.AdaptiveSampler),
    ("search.sampler.spread", schema.Spread),
    ("search.sampler, kind: grid", schema.GridSampler),
    ("search.sampler, kind: random", schema.RandomSampler),
    ("search.select, kind: champion", schema.ChampionSelect),
    ("search.select, kind: lineages", schema.LineagesSelect),
    ("search.select.start", schema.FirstSetting),
    ("search.select.within", schema.StepSpread),
    ("sustain", schema.Sustain),
    ("arms: each entry", schema.ArmConfig),
    ("arms: start_from another arm", schema.StartFrom),
    ("arms: start_from another run", schema.StartFromRun),
    ("arms: ranges", schema.ArmRanges),
    ("retention", schema.Retention),
    ("serve", schema.ServeConfig),
    ("publish", schema.PublishConfig),
    ("track", schema.TrackConfig),
    ("A range {low, high}", ranges.Interval),
    ("A range {choice}", ranges.Choice),
    ("A bound {k}", ranges.Multiples),
)
COLUMNS = {
    "run": "The run's name: that of its folder.",
    "seed": "The config's seed.",
    "arm": "The arm.",
    "rule": "The arm's rule.",
    "cycle": "The cycle, from 0.",
    "started": "When the cycle started, UTC.",
    "events": "Events of the chunk.",
    "clicks": "Clicks of the chunk.",
    "constant_logloss": "Log-loss of predicting the chunk's own CTR for every event.",
    "launched": "Instances of the cycle.",
    "retained": "Instances that did not diverge.",
    "diverged": "Instances that were aborted because an entry reached tau.",
    "failed": "Instances lost to crashes after all tries.",
    "late": "Instances that the deadline cut off.",
    "useful": "Retained instances with a better log-loss than a constant CTR.",
    "retained_fraction": "retained / (retained + diverged).",
    "useful_fraction": "useful / (retained + diverged).",
    "caution": "The level of caution of the draws; 0 is normal.",
    "winner": "The instance that became champion; empty if none was retained or, with lines, if "
    "the champion was late.",
    "eta0": "Step size.",
    "alpha": "Offset of AdaGrad's sums.",
    "beta": "Exponent of AdaGrad's sums.",
    "rho": "Bound of the rule, if it has one.",
    "lam": "Strength of l2, if the rule has one.",
    "dual_step": "Step size of the dual variable mu, if the rule has one.",
    "logloss": "Progressive log-loss: each event is predicted before it is trained on.",
    "served_logloss": "Log-loss on this chunk, before training: in `cycles` of what was served "
    "(the champion or, if a mean of lines is served, the mean), in `lines` of each line itself.",
    "max_inf": "Largest |entry| of what is served: of the champion, or of all lines in the mean.",
    "mean_top10_inf": "Mean of the ten largest |entries| of its vectors.",
    "max_msqr": "Largest mean square of its vectors; in a mean, over those of all its lines.",
    "seconds": "Wall-clock seconds of the cycle, or of the instance.",
    "train_seconds": "Seconds that all instances of the cycle took together.",
    "instance": "The instance, from 0.",
    "status": "retained, diverged, failed or late.",
    "won": "Whether the instance became champion.",
    "events_done": "Events trained before it ended.",
    "tries": "Attempts, with those lost to crashes.",
    "diverged_event": "The event of the chunk at which it diverged, from 0.",
    "diverged_feature": "The feature whose vector diverged.",
    "diverged_value": "Its value.",
    "diverged_norm": "The vector's largest |entry| then.",
    "reason": "Why it ended, in words.",
    "line": "The line, from 0.",
    "parent": "The line that it is a copy of; empty: it was there from the start.",
    "born": "The cycle after which it was copied.",
    "champion": "Whether the line is the champion after this cycle.",
    "member": "Whether it, or the copy that takes its place, is in the mean that is served after "
    "this cycle; false for all lines if the champion alone is served.",
    "replaced": "Whether a copy of another line takes its place after this cycle.",
    "why": "Why it was replaced or, of the champion, why it is the champion.",
}


LINES_ARE = "A run with `select: lineages` has them [in Python](../orchestrator/notebook/README.md)"
RULE_PARAMETERS = {
    "mu0": "The multiplier mu that a new vector starts with.",
    "mu_floor": "The smallest mu.",
    "mu_ceiling": "The largest mu.",
    "implicit": "Whether the penalty is applied as a proximal step, which is stable at any mu.",
    "penalty_in_sum": "Whether AdaGrad's sums include the penalty's gradient.",
    "damping": "How much an event's steps are held back by how far they move its logit.",
    "wall": "A vector is scaled back where its mean square exceeds this many times rho.",
    "relative": "The largest step, as a share of the entry.",
    "absolute": "The largest step of an entry near zero.",
    "rate": "The share of a vector that each step takes away.",
    "limit": "The largest norm: of a gradient with gradient_clip, of a vector with max_norm.",
    "factor": "By what mu is multiplied where the bound is exceeded, and divided elsewhere.",
}


def page() -> str:
    """The page's text."""
    parts = [
        "# Reference\n\nWritten by `scripts/reference.py` from the code: do not edit. "
        "`holdfast config CONFIG` prints a config with all defaults. See also the "
        "[glossary](GLOSSARY.md) and [your data](../orchestrator/sources/README.md)."
    ]
    parts += [_section(title, model) for title, model in SECTIONS]
    parts += [_section(f"source, kind: {kind}", model) for kind, model in SOURCES.items()
              if model.__module__.startswith("orchestrator.")]  # fmt: skip
    parts += [_section(title, model) for title, model in _inner_models()]
    parts += [_section(f"arms: rule, name: {name}", model) for name, model in RULES.items()]
    parts += [
        _columns("cycles", f"{_files('cycles')}: one row per run, arm and cycle", CYCLES),
        _columns("instances", f"{_files('instances')}: one row per instance", INSTANCES),
        _columns("lines", f"{LINES_ARE}: one row per run, arm, cycle and line", LINES),
    ]
    return "\n\n".join(parts) + "\n"


def undocumented() -> list[str]:
    """The keys that have no sentence."""
    models = [model for _, model in (*SECTIONS, *_inner_models())]
    models += RULES.values()
    models += [model for model in SOURCES.values() if model.__module__.startswith("orchestrator.")]
    return [
        f"{model.__name__}.{name}"
        for model in models
        for name, field in model.model_fields.items()
        if not _sentence(name, field)
    ]


def _inner_models() -> Iterator[tuple[str, type[BaseModel]]]:
    """The mappings inside the sources of files."""
    seen: set[type[BaseModel]] = set()
    for kind in ("files", "follow"):
        for name, field in SOURCES[kind].model_fields.items():
            for model in _models(field.annotation):
                if model not in seen:
                    seen.add(model)
                    entry = ": each entry" if get_origin(field.annotation) is dict else ""
                    yield f"source.{name}{entry}", model


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _section(title: str, model: type[BaseModel]) -> str:
    text = " ".join((model.__doc__ or "").split("\n\n")[0].split())
    rows = [
        f"| `{name}` | {_cell(_type(field))} | {_cell(_default(field))} "
        f"| {_cell(_sentence(name, field))} |"
        for name, field in model.model_fields.items()
        if name != "family"
    ]
    table = "\n".join(["| key | type | default | |", "|---|---|---|---|", *rows])
    return f"## {title}\n\n{text}\n\n{table}" if rows else f"## {title}\n\n{text}"


def _sentence(name: str, field: FieldInfo) -> str:
    """What a key is for: its own docstring, that of its mapping, or that of a parameter."""
    if field.description:
        return field.description
    for model in _models(field.annotation):
        if model not in RANGE_MODELS and model.__doc__:
            return " ".join(model.__doc__.split()).split(". ")[0].removesuffix(".") + "."
    if name in ("kind", "name"):
        return "Which one this is."
    return COLUMNS.get(name) or RULE_PARAMETERS.get(name, "")


def _files(name: str) -> str:
    return f"`holdfast report` writes `{name}.parquet` and `{name}.csv`"


def _columns(name: str, what: str, columns: tuple[str, ...]) -> str:
    rows = [f"| `{column}` | {_cell(COLUMNS[column])} |" for column in columns]
    head = f"## Columns of {name}\n\n{what}.\n"
    return "\n".join([head, "| column | |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _type(field: FieldInfo) -> str:
    return _name(field.annotation) + _limits(field.metadata)


def _name(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _name(inner[0]) + _limits(inner[1:])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (Union, types.UnionType):
        given = [one for one in inner if one is not type(None)]
        if any(one in RANGE_MODELS for one in given):
            return "number or range"
        return " or ".join(dict.fromkeys(_name(one) for one in given))
    if origin is tuple:
        return f"list of: {_name(inner[0])}"
    if origin is dict:
        return f"mapping of: {_name(inner[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "mapping"
    return NAMES.get(annotation, "time" if "datetime" in str(annotation).lower() else "text")


def _limits(metadata: Any) -> str:
    signs = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
    found = []
    for one in _flat(metadata):
        for kind, sign in signs.items():
            if isinstance(one, kind):
                found.append(f"{sign} {getattr(one, kind.__name__.lower()):g}")
    return f" {', '.join(found)}" if found else ""


def _flat(metadata: Any) -> Iterator[Any]:
    for one in metadata:
        yield from _flat(one.metadata) if isinstance(one, FieldInfo) else (one,)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "required"
    if value is None and _name(field.annotation) == "number or range":
        return "that of `search.ranges`"
    return _value(value)


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, BaseModel):
        dumped = value.model_dump(mode="json", exclude_none=True)
        is_own = len(_yaml(dumped)) <= 60 or value != type(value)()  # not those of its section
        return f"`{_yaml(dumped)}`" if is_own else "the defaults below"
    if isinstance(value, tuple | list | dict) and not value:
        return "empty"
    return f"`{value}`"


def _yaml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page())
