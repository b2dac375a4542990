"""Config values that may hold secrets: URIs and the options of file systems."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from orchestrator.validation.errors import mistake, validate_with
from orchestrator.validation.uris import MAX_LENGTH, RULE, redact

HARMLESS = {
    "addressing_style", "anon", "connect_timeout", "default_block_size", "default_cache_type",
    "default_fill_cache", "endpoint_url", "location", "project", "read_timeout", "region",
    "region_name", "requester_pays", "signature_version", "use_ssl", "version_aware",
}  # fmt: skip
"""The options that are written to run folders; all others are used and then forgotten."""
GROUPS = {"client_kwargs", "config_kwargs", "s3"}
"""Options that hold options, to which the same applies."""
WORD = re.compile(r"[\w.-]{1,64}")
ADDRESS = re.compile(r"https?://([\w.-]+|\[[\da-fA-F:]+\])(:\d{1,5})?(/[\w./-]*)?")


def harmless(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that may be written down: known names with plain values."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in GROUPS and isinstance(value, Mapping):
            found[name] = harmless(value)
        elif name in HARMLESS and _is_plain(value):
            found[name] = value
    return found


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return bool(WORD.fullmatch(value) or ADDRESS.fullmatch(value))
    return value is None or isinstance(value, bool | int | float)


def without_credentials(uri: str) -> str:
    """Validate that a URI has no credentials; the message does not show it."""
    if redact(uri) != uri:
        raise mistake(RULE)
    return uri


def _mapping(data: object) -> object:
    if not isinstance(data, dict):
        raise mistake("must be a mapping")  # what it is may be a secret
    return data


Uri = Annotated[
    str, Field(min_length=1, max_length=MAX_LENGTH), AfterValidator(without_credentials)
]
"""A path or URI without credentials."""
Options = Annotated[dict[str, Any], validate_with(_mapping)]
"""The options of a file system, which may hold secrets: messages never show them."""
