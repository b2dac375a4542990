"""Arguments and options that several commands share."""

import click

from divergence import own_code

config_argument = click.argument("config_path", metavar="CONFIG", type=click.Path())
set_option = click.option(
    "--set",
    "assignments",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a config value (YAML): --set search.instances=8 --set arms.0.rule=none",
)
code_option = click.option(
    "--code",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    envvar="HOLDFAST_CODE",
    expose_value=False,
    is_eager=True,
    callback=lambda context, option, folders: own_code.allow(folders),
    help="A folder with rules, sources or trainers of your own, whose code may run.",
)
run_argument = click.argument("run", metavar="RUN")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, one object per line."
)
