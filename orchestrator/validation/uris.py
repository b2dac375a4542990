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
_USER = re.compile(
    r"://(?:(?P<password>[^\n/?#:]{0,4096}+:(?!:)[^@\n]{0,4096}+@(?:[^\s'\"]{0,4096}@)?)"
    r"|[^\s/?#@]{0,4096}+@)"
)
_REST = re.compile(r"://[^\s'\"]*")
_QUERY = re.compile(r"[?#][^/?#]*=")  # of object stores, where a ? alone is a wildcard
_WEB_QUERY = re.compile(r"[?#]")


def redact(text: str) -> str:
    """`text` without the user names, passwords, queries and fragments of the URIs in it."""
    if "://" not in text:
        return text
    return _REST.sub(_without_query, _USER.sub(_without_user, text))


def check_uri(uri: str) -> str:
    """`uri`; InputError, which does not show it, if it has a part that must not be shown."""
    if redact(uri) != uri:
        raise InputError(f"{uri.partition('://')[0][:32]}://…: a URI {RULE}: {REMEDY}")
    if len(uri) > MAX_LENGTH:
        raise InputError(f"{uri[:32]}…: a path or URI must have at most {MAX_LENGTH} characters")
    return uri


def _without_user(found: re.Match[str]) -> str:
    keep = found["password"] is None and _scheme(found) in NAME_IS_ADDRESS
    return found[0] if keep else "://"


def _without_query(found: re.Match[str]) -> str:
    web = _scheme(found) in ("http", "https") or "::http" in found[0].lower()
    query = (_WEB_QUERY if web else _QUERY).search(found[0])
    return found[0][: query.start()] if query else found[0]


def _scheme(found: re.Match[str]) -> str:
    before = found.string[max(found.start() - 16, 0) : found.start()].lower()
    return re.split(r"[^a-z0-9+.-]", before)[-1]
