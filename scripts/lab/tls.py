"""Certificates for Ray's TLS in the laboratory, made as on the nodes of configs/cluster."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

NODE = Path(__file__).parents[2] / "configs/cluster/node-certificate.sh"
AUTHORITY = (
    "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=lab -keyout ca.key -out ca.crt"
)


def tls_environment(folder: Path, addresses: Sequence[str]) -> dict[str, str]:
    """What every process of the cluster needs. Files are shared here: one certificate for all."""
    subprocess.run(AUTHORITY.split(), cwd=folder, check=True, capture_output=True)
    subprocess.run(["sh", NODE, folder, *addresses], check=True, capture_output=True)
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / "tls.crt"),
        "RAY_TLS_SERVER_KEY": str(folder / "tls.key"),
        "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
    }
