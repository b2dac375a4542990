"""Open the store at a path or URI."""

import re
from pathlib import Path

from divergence.errors import InputError
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store


def open_store(uri: str) -> Store:
    """Open the folder at a local path or URI. Nothing is created."""
    if "://" not in uri:
        return LocalStore(Path(uri).expanduser().absolute())
    if re.match(r"[^/]*://[^/]*:[^/]*@", uri):
        raise InputError(
            f"{uri.split('://')[0]}://…: a URI must not contain a password, because logs and "
            "records show it: pass it to the file system in an environment variable"
        )
    from orchestrator.storage.object_store import open_object_store  # fsspec is slow to load

    return open_object_store(uri)
