"""The store at a path or URI."""

import re
from pathlib import Path

from divergence.errors import InputError
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store


def open_store(uri: str) -> Store:
    """The run folder at a local path or URI. Nothing is created yet."""
    if "://" not in uri:
        return LocalStore(Path(uri).expanduser().absolute())
    if re.match(r"[^/]*://[^/]*:[^/]*@", uri):
        raise InputError(
            f"{uri.split('://')[0]}://…: a password must not stand in a URI, which is shown in "
            "logs and records: give it to the file system by its environment"
        )
    from orchestrator.storage.object_store import open_object_store  # fsspec is slow to load

    return open_object_store(uri)
