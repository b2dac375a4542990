"""Certificates for Ray's TLS in the laboratory: an authority of its own, and one for its hosts.

Ray checks the address that it connects to against the certificate: all of them stand in it.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

DAYS = "2"


def tls_environment(folder: Path, addresses: Sequence[str]) -> dict[str, str]:
    """What every process of the cluster needs; the files are made in `folder`, by openssl."""
    authority, key, request, certificate, names = (
        str(folder / name) for name in ("ca", "tls.key", "tls.csr", "tls.crt", "names")
    )
    Path(names).write_text("subjectAltName=" + ",".join(f"IP:{a}" for a in addresses))
    new_key = ("-newkey", "rsa:2048", "-nodes", "-subj", "/CN=holdfast-lab", "-keyout")
    ca = (f"{authority}.crt", f"{authority}.key")
    _openssl("req", "-x509", "-days", DAYS, *new_key, ca[1], "-out", ca[0])
    _openssl("req", *new_key, key, "-out", request)
    signed_by = ("-CA", ca[0], "-CAkey", ca[1], "-CAcreateserial")
    _openssl("x509", "-req", "-days", DAYS, "-in", request, *signed_by, "-extfile", names,
             "-out", certificate)  # fmt: skip
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": certificate,
        "RAY_TLS_SERVER_KEY": key,
        "RAY_TLS_CA_CERT": ca[0],
    }


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
