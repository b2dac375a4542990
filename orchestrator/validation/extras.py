"""Libraries that only some configs need: the optional extras of the package."""

from importlib.util import find_spec

from divergence.errors import InputError


def require_library(name: str, key: str) -> None:
    """InputError if the library that a config key needs is not installed; its extra is named so."""
    if find_spec(name) is None:
        raise InputError(
            f"{key}: needs the library {name}, which is not installed: "
            f"pip install 'holdfast[{name}]'"
        )
