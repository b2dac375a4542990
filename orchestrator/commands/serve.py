"""`holdfast serve`: serves the newest champion over HTTP."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from orchestrator.serving.limits import DEFAULT, Limits

F = TypeVar("F", bound=Callable[..., Any])

SWITCH_S = 5e-4
"""How long a thread may hold the interpreter: keeps requests fast while a new model loads."""


def limit(name: str, kind: click.ParamType[Any], text: str) -> Callable[[F], F]:
    """An option for one of the limits."""
    default = getattr(DEFAULT, name)
    option = f"--{name.replace('_', '-')}"
    return click.option(option, default=default, show_default=True, type=kind, help=text)


@click.command("serve", epilog="Example: holdfast serve s3://bucket/published --port 8080")
@click.argument("source", metavar="PLACE|RUN")
@click.option(
    "--arm", help="For a RUN: the arm to serve. Default: publish.arm, else the first arm."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on (0.0.0.0: all interfaces).",
)
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535),
              help="Port to listen on (0: any free port).")  # fmt: skip
@click.option("--poll-s", default=2.0, show_default=True, type=click.FloatRange(0.01),
              help="Seconds between checks for a newer champion.")  # fmt: skip
@click.option("--max-age-s", type=click.FloatRange(0.0, min_open=True),
              help="/health returns 503 if the model is older than this.")  # fmt: skip
@limit("max_body_mb", click.FloatRange(0.0, min_open=True),
       "Larger request bodies are refused (413).")  # fmt: skip
@limit("max_ads", click.IntRange(1), "Most ads in a request, over all its users (else 422).")
@limit("max_values", click.IntRange(1), "Most values of a multi-valued feature (else 422).")
@limit("read_timeout_s", click.FloatRange(0.0, min_open=True),
       "Requests that take longer to arrive are closed (408).")  # fmt: skip
@limit("max_connections", click.IntRange(1),
       "Above it, the connection that has waited longest for a request is closed.")  # fmt: skip
def command(
    source: str, arm: str | None, host: str, port: int, poll_s: float, max_age_s: float | None,
    **limits: Any,
) -> None:  # fmt: skip
    """Serve the newest champion of a published PLACE or of a RUN (folders or URIs).

    Switches to newer champions as they appear. Endpoints:

    POST /v1/score {"user": {...}, "ads": [{...}, ...]}, /v1/batch, /v1/user-vector;
    GET /health, /version, /metrics, /docs.
    """
    import uvicorn

    from orchestrator.serving.app import make_app
    from orchestrator.serving.listen import BoundedConnection, bound_socket
    from orchestrator.serving.scorer import following

    sys.setswitchinterval(SWITCH_S)
    bounds = Limits(**limits)
    with following(source, arm, poll_s, bounds) as scorer, bound_socket(host, port) as listening:
        server = uvicorn.Server(
            uvicorn.Config(
                make_app(scorer, max_age_s),
                http=partial(BoundedConnection, limits=bounds),  # type: ignore[arg-type]
                ws="none",
                log_level="warning",
                access_log=False,
            )
        )
        gc.collect()
        gc.freeze()  # else a large request sets off a search of all modules: 150 ms without /health
        version = scorer.current.version
        click.echo(
            f"serving version {version.number} (cycle {version.cycle}) of {source} on "
            f"http://{host}:{listening.getsockname()[1]}"
        )
        server.run(sockets=[listening])
