"""`holdfast export`: a champion's vectors for other systems."""

import click


@click.command(
    "export",
    epilog="Example: holdfast export runs/demo --as vespa --ads ads.parquet --out vespa-app",
)
@click.argument("source", metavar="PLACE|RUN")
@click.option("--as", "form", required=True, type=click.Choice(["parquet", "vespa"]),
              help="Output format.")  # fmt: skip
@click.option(
    "--out", required=True, metavar="DIR", help="Output folder or URI; existing files are replaced."
)
@click.option(
    "--arm", help="For a RUN: the arm to export. Default: publish.arm, else the first arm."
)
@click.option("--ads", metavar="FILE",
              help="File of ads (.parquet, .csv, .jsonl) with an id and a column for each ad "
              "feature. Required for vespa.")  # fmt: skip
@click.option(
    "--id", "key", default="id", show_default=True, help="Name of the id column in --ads."
)
@click.option(
    "--name", default="holdfast_ad", show_default=True, help="Name of the Vespa document type."
)
def command(
    source: str, form: str, out: str, arm: str | None, ads: str | None, key: str, name: str
) -> None:
    """Export the newest champion of a published PLACE or of a RUN (folders or URIs).

    parquet: tables with a vector for each user and ad feature value, and for each ad with --ads.
    vespa: a schema that ranks by b + nu_u . nu_a, and a feed of documents with the ads' vectors.
    """
    from divergence.errors import InputError
    from orchestrator.export.catalogue import catalogue_vectors
    from orchestrator.export.model_table import export_parquet
    from orchestrator.export.vespa import export_vespa
    from orchestrator.publish.follower import Follower
    from orchestrator.publish.origin import open_origin
    from orchestrator.storage.output import Output

    if form == "vespa" and ads is None:
        raise InputError("--ads must be given: a Vespa document is an ad")
    origin = open_origin(source, arm)
    follower = Follower(origin)
    found = follower.advance()
    for fault in found.faults:
        click.echo(f"holdfast: skipped: {fault}", err=True)
    model, output = follower.model, Output(out)
    assert found.version is not None  # a follower that has a model has its version
    table = None if ads is None else catalogue_vectors(model, ads, key, found.version.mapping)
    if form == "vespa" and table is not None:
        written = export_vespa(model, found.version, output, table, name)
    else:
        written = export_parquet(model, found.version, output, table)
    what = origin.described(found.version)
    click.echo(f"exported {what} to {output.uri}: {', '.join(written)}")
