"""The subcommands of `holdfast`, one thin module each; the work is done elsewhere.

A command's module is imported when the command is used, so that `holdfast --help` takes a moment.
"""

import importlib
from typing import Any

import click

COMMANDS = {
    "run": "Run CONFIG: many instances each cycle; the best one is the next cycle's warm start.",
    "describe": "Show what the source of CONFIG contains: events, CTR, features, their values and "
                "turnover.",
    "config": "Check CONFIG, print it as YAML with all defaults, and say how long a cycle takes.",
    "log": "Show the committed cycles of RUN (a folder or URI), one line for each arm and cycle.",
    "health": "Show whether RUN is healthy, and if not, why.",
    "report": "Write report.html, figures/ and tables of one or several runs, and show a summary.",
    "watch": "Show the report of RUN (a folder or URI) as a page that stays current while cycles "
             "commit.",
    "replay": "Train an instance of RUN again, bit for bit, and show how its vectors grew.",
    "score": "Score EVENTS (a file, folder, glob or URI) with the champion of RUN.",
    "publish": "Publish the newest champion of RUN to PLACE (folders or URIs).",
    "rollback": "Serve an earlier version of PLACE (a folder or URI) again, and hold it.",
    "serve": "Serve the newest champion of a published PLACE or of a RUN (folders or URIs).",
    "export": "Export the newest champion of a published PLACE or of a RUN (folders or URIs).",
    "ab": "A/B tests: run one in the simulated marketplace, or analyse daily counts.",
    "bound": "Print the heuristic bound rho0 for CONFIG, and search for its multiple k.",
    "rule": "Rules of your own.",
    "data": "Fetch and convert public click logs.",
}  # fmt: skip
"""The name of each command, which is that of its module, and the first sentence of its help."""


class Commands(click.Group):
    """Imports the commands that are used."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Placeholders for all commands: their names and first sentences."""
        super().__init__(*args, **options)
        self.commands = {name: click.Command(name, help=text) for name, text in COMMANDS.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command with this name."""
        if cmd_name not in COMMANDS:
            return None
        module: Any = importlib.import_module(f"orchestrator.commands.{cmd_name}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and the first sentences."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        rows = [(name, each.get_short_help_str(limit)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
