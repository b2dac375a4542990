"""`holdfast config`: the config as it is understood."""

import click

from orchestrator.commands.options import config_argument, set_option
from orchestrator.config.file import config_text, load_config


@click.command("config", epilog="Example: holdfast config run.yaml --set search.instances=8")
@config_argument
@set_option
def command(config_path: str, assignments: tuple[str, ...]) -> None:
    """Check CONFIG and print it with every default filled in, as YAML that reads back the same."""
    click.echo(config_text(load_config(config_path, assignments)), nl=False)
