"""Bounded embedding rows in a PyTorch training loop: `DualAscent` (see README.md beside this file).

The only part of `divergence` that imports PyTorch, which the extra `[torch]` installs.
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "divergence.torch needs PyTorch: pip install 'holdfast[torch]'", name=_error.name
    ) from None

from divergence.torch.dual_ascent import DualAscent as DualAscent
from divergence.torch.tables import DivergedRow as DivergedRow
from divergence.torch.tables import diverged as diverged
