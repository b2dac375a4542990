"""Bind the port that a service listens on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from divergence.errors import InputError


@contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A bound TCP socket; InputError if the address is in use or not one of this host."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror or error}") from None
    with bound:
        yield bound
