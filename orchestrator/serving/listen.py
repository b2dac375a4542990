"""Listen: bind the port, and serve until a signal comes."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from divergence.errors import InputError
from orchestrator.serving.app import App
from orchestrator.serving.connection import Connection
from orchestrator.serving.turns import Turns

BACKLOG = 2048
"""Connections that wait to be accepted."""
ACCEPTED = 8
"""Of these, how many are accepted at a time. Those before are read first: one that must be closed
because there are too many has had the time to say what it wants."""
FINISH_S = 5.0
"""How long requests may take that are not answered yet when a signal comes."""


@contextmanager
def bound_sockets(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """TCP sockets bound to one address; InputError if it is in use or not one of this host.

    The kernel spreads new connections over them. The first is bound without SO_REUSEPORT: with it,
    a port that another service of the same user has would not count as in use.
    """
    with ExitStack() as opened:
        try:
            found = [opened.enter_context(_bound(host, port, shared=False))]
            for _ in range(count - 1):
                found[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                port = found[0].getsockname()[1]
                found.append(opened.enter_context(_bound(host, port, shared=True)))
        except OSError as error:
            raise cannot_bind(host, port, error) from None
        yield found


def cannot_bind(host: str, port: int, error: OSError) -> InputError:
    """Why this service cannot have the address."""
    return InputError(f"--host {host} --port {port}: {error.strerror or error}")


def _bound(host: str, port: int, shared: bool) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, proto)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def serve(app: App, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM; requests that have been read are still answered."""
    asyncio.run(_serve(app, listening))


async def _serve(app: App, listening: socket.socket) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    connections, turns = set[Connection](), Turns(loop)
    server = await loop.create_server(
        lambda: Connection(app, turns, connections), sock=listening, backlog=ACCEPTED
    )
    listening.listen(BACKLOG)
    await stop.wait()
    server.close()
    for connection in list(connections):
        connection.finish()
    end = loop.time() + FINISH_S
    while connections and loop.time() < end:
        await asyncio.sleep(0.01)
    for connection in connections:
        connection.abort()
