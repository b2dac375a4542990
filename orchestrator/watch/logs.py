"""The log as JSON lines: events outside the cycles, such as lost processes and storage retries."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from divergence.errors import InputError
from orchestrator.validation.uris import redact

PACKAGE = "orchestrator"


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as JSON."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        return json.dumps(entry)


@contextmanager
def logging_to(path: str | None) -> Iterator[None]:
    """Append this package's log to a file ("-": standard error); None: change nothing."""
    if path is None:
        yield
        return
    try:
        handler = logging.StreamHandler(sys.stderr) if path == "-" else logging.FileHandler(path)
    except OSError as error:
        raise InputError(f"--log {path}: cannot be written: {error.strerror}") from None
    handler.setFormatter(JsonLines())
    logger = logging.getLogger(PACKAGE)
    before = logger.handlers, logger.level, logger.propagate
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers, logger.level, logger.propagate = before
        handler.close()
