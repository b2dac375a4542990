"""`holdfast describe`: look at a stream before a run."""

import json
import threading
from pathlib import Path

import click
import yaml
from pydantic import BaseModel, Field, ValidationError
from rich.console import Console

from divergence.errors import InputError
from orchestrator.sources.describe import describe
from orchestrator.sources.describe_table import as_json, print_tables
from orchestrator.sources.files import FilesConfig, FollowConfig, open_source
from orchestrator.sources.protocol import Source
from orchestrator.strict import Strict
from trainer.features import Feature, FeatureSpec


@click.command("describe", epilog="Example: holdfast describe run.yaml --picture stream.png")
@click.argument("config_path", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--cycles", default=50, show_default=True, type=click.IntRange(min=1),
              help="How many cycles to look at.")  # fmt: skip
@click.option("--json", "json_wanted", is_flag=True, help="One JSON object, for programs.")
@click.option("--picture", type=click.Path(path_type=Path), help="Also draw it: .png, .svg, .pdf.")
def command(config_path: Path, cycles: int, json_wanted: bool, picture: Path | None) -> None:
    """Show what is in the source of CONFIG: events, CTR, features, their values and turnover.

    Nothing is written but the picture: broken rows are counted, not put in quarantine. A folder
    that is followed is looked at as it is, without waiting.
    """
    described = describe(_source(config_path), cycles)
    if picture is not None:
        from orchestrator.sources.describe_picture import draw  # matplotlib is slow to load

        draw(described, picture, config_path.name)
    if json_wanted:
        click.echo(json.dumps(as_json(described), ensure_ascii=False))
    else:
        print_tables(described, Console(width=None if Console().is_terminal else 160))
        if picture is not None:
            click.echo(f"picture: {picture}")


class _Feature(Strict):
    name: str
    multi: bool = False
    weights: str | None = None


class _Features(Strict):
    user: tuple[str | _Feature, ...]
    ad: tuple[str | _Feature, ...]
    label: str = "click"
    timestamp: str | None = "timestamp"


class _Config(BaseModel):
    """What of a run's config a stream is made of; the rest is for the run."""

    source: FilesConfig | FollowConfig = Field(discriminator="kind")
    features: _Features


def _source(path: Path) -> Source:
    """The source of a config file, which need say no more than `source` and `features`."""
    try:
        config = _Config.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"]) or "config"
        raise InputError(f"{path}: {where}: {first['msg']}") from error
    stopped = threading.Event()
    stopped.set()  # a followed folder is looked at as it is
    return open_source(config.source, _spec(config.features), stop=stopped)


def _spec(features: _Features) -> FeatureSpec:
    user, ad = (
        tuple(
            Feature(f) if isinstance(f, str) else Feature(f.name, f.multi, f.weights) for f in side
        )
        for side in (features.user, features.ad)
    )
    return FeatureSpec(user, ad, features.label, features.timestamp)
