"""URIs that carry credentials: how they are refused, and how every URI is shown.

A password, a user name or a signed query in a URI would end up in configs, records and logs.
"""

import re

from divergence.errors import InputError

MAX_LENGTH = 4096
RULE = "must not contain a password, a user name or a query, because records and logs show it"
REMEDY = "pass credentials to the file system in its environment variables"
NAME_IS_ADDRESS = {"abfs", "abfss", "hdfs", "sftp", "smb", "ssh", "wasb", "wasbs", "webhdfs"}
"""In URIs of these kinds, a name before @ (a container, an account) is part of the address."""
_AUTHORITY = re.compile(
    r"(?P<scheme>[\w+.-]{0,32})://"
    r"(?:(?P<password>[^\s/?#:]{0,4096}:(?!:)[^@\n]{0,4096}@(?:[^\s'\"]{0,4096}@)?)"
    r"|(?P<name>[^\s/?#@]{0,4096}@))"
)
_QUERY = re.compile(
    r"(?P<before>\bhttps?://[^\s?#'\"]*)[?#][^\s'\"]*"
    r"|(?P<other>[\w+.-]{0,32}://[^\s'\"]*?)[?#][^\s/?#'\"]*=[^\s'\"]*",  # a ? alone is a wildcard
    re.I,
)


def redact(text: str) -> str:
    """`text` without the user names, passwords, queries and fragments of the URIs in it."""
    if "://" not in text:
        return text
    return _QUERY.sub(lambda found: found["before"] or found["other"], _without_users(text))


def check_uri(uri: str) -> str:
    """`uri`; InputError, which does not show it, if it has a part that must not be shown."""
    if redact(uri) != uri:
        raise InputError(f"{uri.partition('://')[0][:32]}://…: a URI {RULE}: {REMEDY}")
    if len(uri) > MAX_LENGTH:
        raise InputError(f"{uri[:32]}…: a path or URI must have at most {MAX_LENGTH} characters")
    return uri


def _without_users(text: str) -> str:
    return _AUTHORITY.sub(_address, text)


def _address(found: re.Match[str]) -> str:
    keep = found["password"] is None and found["scheme"].lower() in NAME_IS_ADDRESS
    return found[0] if keep else f"{found['scheme']}://"
