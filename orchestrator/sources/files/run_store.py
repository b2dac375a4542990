"""The run folder as a source sees it: with the storage options of the source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.sources.files.files import file_system, is_local
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.object_store import ObjectStore
from orchestrator.storage.store import Store

MAX_RECORD_BYTES = 1 << 24
"""The most that is read of a source's own record, because a folder may come from a stranger."""


def run_store(run_uri: str, options: Mapping[str, Any]) -> Store:
    """The run folder, with nothing cached."""
    fs, root = file_system(run_uri, options)
    fs.invalidate_cache()
    return LocalStore(Path(root)) if is_local(fs) else ObjectStore(run_uri, fs, root.rstrip("/"))
