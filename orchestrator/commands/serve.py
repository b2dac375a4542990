"""`holdfast serve`: serves the newest champion over HTTP."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from orchestrator.serving.limits import DEFAULT, Limits, ServeOptions

F = TypeVar("F", bound=Callable[..., Any])


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
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 256),
              help="Processes that share the port, each with the model in its memory.")  # fmt: skip
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
    source: str, arm: str | None, host: str, port: int, processes: int, poll_s: float,
    max_age_s: float | None, **limits: Any,
) -> None:  # fmt: skip
    """Serve the newest champion of a published PLACE or of a RUN (folders or URIs).

    Switches to newer champions as they appear. Endpoints:

    POST /v1/score {"user": {...}, "ads": [{...}, ...]}, /v1/batch, /v1/user-vector;
    GET /health, /version, /metrics, /docs.
    """
    from orchestrator.serving.listen import bound_sockets
    from orchestrator.serving.processes import serve_process, supervise

    options = ServeOptions(source, arm, host, poll_s, max_age_s, Limits(**limits))
    with bound_sockets(host, port, processes) as sockets:
        if processes == 1:
            serve_process(options, sockets[0])
        else:
            supervise(options, sockets)
