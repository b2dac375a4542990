"""`holdfast config`: the config with all defaults filled in."""

import click

from orchestrator.commands.options import config_argument, set_option
from orchestrator.config.file import config_text, load_config


@click.command("config", epilog="Example: holdfast config run.yaml --set search.instances=8")
@config_argument
@set_option
def command(config_path: str, assignments: tuple[str, ...]) -> None:
    """Check CONFIG and print it as YAML with all defaults filled in."""
    click.echo(config_text(load_config(config_path, assignments)), nl=False)
