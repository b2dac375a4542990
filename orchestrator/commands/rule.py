"""`holdfast rule`: checks a rule of your own."""

import click

from divergence import own_code
from divergence.errors import InputError


@click.group("rule")
def command() -> None:
    """Rules of your own."""


@command.command("check", epilog="Example: holdfast rule check my_rules:EntryClip")
@click.argument("name", metavar="MODULE:CLASS")
@click.option(
    "--code",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    envvar="HOLDFAST_CODE",
    help="The folder that holds the module. Default: the current one.",
)
def check(name: str, code: tuple[str, ...]) -> None:
    """Check that a rule keeps the contract that our own rules keep, and what it costs.

    The kernel with this rule equals the rule's oracle, gives the same bits however and wherever it
    runs, keeps vectors of any length, and hides no NaN. Takes a minute, most of it compilation.
    """
    from divergence.rules import rule_class  # loads numba
    from trainer.contract.checks import check_rule

    own_code.allow(code or (".",))
    rule_class(name)
    failed = 0
    for finding in check_rule(name):
        failed += not finding.passed
        click.echo(f"{'ok    ' if finding.passed else 'FAILED'}  {finding.check}: {finding.text}")
    if failed:
        raise InputError(f"{name}: {failed} of the checks failed")
