"""Arguments and options that several commands share."""

import click

config_argument = click.argument("config_path", metavar="CONFIG", type=click.Path())
set_option = click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a config value (YAML): --set search.instances=8 --set arms.0.rule=none",
)
run_argument = click.argument("run", metavar="RUN")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object per line."
)
