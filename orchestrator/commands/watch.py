"""`holdfast watch`: the report of a run that is under way, as a page that stays current."""

import click

from orchestrator.commands.options import code_option, run_argument


@click.command("watch", epilog="Example: holdfast watch s3://bucket/run --port 0")
@run_argument
@click.option("--port", default=8090, show_default=True, type=click.IntRange(0, 65535),
              help="Port on this machine (0: any free port).")  # fmt: skip
@click.option("--every-s", default=2.0, show_default=True, type=click.FloatRange(0.1, 3600),
              help="Seconds between looks at the run folder.")  # fmt: skip
@click.option("--baseline", metavar="ARM", help="As in `holdfast report`.")
@click.option("--challenger", metavar="ARM", help="As in `holdfast report`.")
@code_option
def command(
    run: str, port: int, every_s: float, baseline: str | None, challenger: str | None
) -> None:
    """Show the report of RUN (a folder or URI) as a page that stays current while cycles commit.

    The page is served on this machine alone (127.0.0.1). It reads only the run folder, so it
    survives a driver that stops and starts again. Ctrl-C ends it.
    """
    from orchestrator.live.follow import RunFollower
    from orchestrator.live.server import page_server
    from orchestrator.storage.open import open_store
    from orchestrator.validation.uris import redact

    follower = RunFollower(open_store(run), every_s, baseline, challenger)
    with page_server(port, lambda: follower.shown) as server, follower:
        click.echo(f"watching {redact(run)} on http://127.0.0.1:{server.server_address[1]}")
        server.serve_forever()
