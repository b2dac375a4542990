"""What happens beside the cycles (processes lost, storage that fails), as JSON lines."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from divergence.errors import InputError

PACKAGE = "orchestrator"


class JsonLines(logging.Formatter):
    """One object a line: time, level, where, message."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as JSON."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(entry)


@contextmanager
def logging_to(path: str | None) -> Iterator[None]:
    """Append this package's log to a file ("-": standard error); None: leave logging as it is."""
    if path is None:
        yield
        return
    try:
        handler = logging.StreamHandler(sys.stderr) if path == "-" else logging.FileHandler(path)
    except OSError as error:
        raise InputError(f"--log {path}: cannot be written: {error.strerror}") from None
    handler.setFormatter(JsonLines())
    logger = logging.getLogger(PACKAGE)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        handler.close()
