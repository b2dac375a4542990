"""Open the store at a path or URI."""

from pathlib import Path

from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store
from orchestrator.validation.uris import check_uri


def open_store(uri: str) -> Store:
    """Open the folder at a local path or URI. Nothing is created."""
    check_uri(uri)
    if "://" not in uri:
        return LocalStore(Path(uri).expanduser().absolute())
    from orchestrator.storage.object_store import open_object_store  # fsspec is slow to load

    return open_object_store(uri)
