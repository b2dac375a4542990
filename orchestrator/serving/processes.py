"""A serving process, and several of them on one port."""

import gc
import os
import signal
import socket
import sys
import tempfile
import threading
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess

import click

from divergence.errors import InputError
from orchestrator.serving.limits import ServeOptions
from orchestrator.validation.uris import redact

SWITCH_S = 1e-4
"""How long a thread may hold the interpreter: keeps requests fast while a new model loads."""

GC_OBJECTS = 50_000
"""New objects between two collections. Python's 700 triple the time to parse a large request."""

SHARED_COUNTERS = "PROMETHEUS_MULTIPROC_DIR"
"""The variable with the folder of shared counters; prometheus_client reads it when imported."""

AGAIN_S = 1.0
"""The pause before a process is started that has died before."""

END_S = 15.0
"""How long the processes may take to end."""


def serve_process(options: ServeOptions, listening: socket.socket, number: int = 0) -> None:
    """Load the newest champion and serve it until SIGINT or SIGTERM."""
    from orchestrator.serving.app import App
    from orchestrator.serving.listen import cannot_bind, serve
    from orchestrator.serving.scorer import following

    sys.setswitchinterval(SWITCH_S)
    with following(options.source, options.arm, options.poll_s, options.limits) as scorer:
        app = App(scorer, options.max_age_s)
        gc.collect()
        gc.freeze()  # else a large request sets off a search of all modules: 150 ms without /health
        gc.set_threshold(GC_OBJECTS)
        try:
            listening.listen()  # who reads the next line may connect
        except OSError as error:  # another service has bound the port at the same time
            raise cannot_bind(options.host, listening.getsockname()[1], error) from None
        if number == 0:
            version, port = scorer.current.version, listening.getsockname()[1]
            click.echo(
                f"serving version {version.number} (cycle {version.cycle}) of {options.source} on "
                f"http://{options.host}:{port}"
            )
            click.echo(f"what to send, with an example: http://{options.host}:{port}/version")
        serve(app, listening)


def supervise(options: ServeOptions, sockets: list[socket.socket]) -> None:
    """Serve with a process for each socket, and start a process that dies again.

    InputError if one cannot start, for example because there is no model. One that has died is
    started until it serves again: the others go on while the model cannot be read.
    """
    context, stop = get_context("spawn"), threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stop.set())

    def start(number: int) -> BaseProcess:
        made = context.Process(target=_child, args=(options, sockets[number], number))
        made.start()
        return made

    with tempfile.TemporaryDirectory(prefix="holdfast-counters-") as folder:
        os.environ[SHARED_COUNTERS] = folder
        running, died = [start(number) for number in range(len(sockets))], set[int]()
        try:
            while not stop.is_set():
                connection.wait([each.sentinel for each in running], timeout=0.5)
                for number, process in enumerate(running):
                    if process.is_alive() or stop.is_set():
                        continue
                    if process.exitcode == 2 and number not in died:
                        raise InputError("serve: a process could not start; see above")
                    click.echo(f"process {number} ended ({process.exitcode}): restarted", err=True)
                    if number in died:
                        stop.wait(AGAIN_S)
                    died.add(number)
                    running[number] = start(number)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.join(END_S)
                process.kill()


def _child(options: ServeOptions, listening: socket.socket, number: int) -> None:
    try:
        serve_process(options, listening, number)
    except InputError as error:
        click.echo(f"holdfast: {redact(str(error))}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:  # while the model loads
        sys.exit(130)
