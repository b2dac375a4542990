"""The norms of a champion's vectors."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.journal.record import ChampionNorms
from trainer.protocol import AnyModel

TOP = 10


def champion_norms(model: AnyModel, mean_of: int = 1) -> ChampionNorms:
    """The norms of all vectors of a model, whether or not this cycle trained them.

    A mean of lines has their ad vectors divided by their number: the norms are those of lines, but
    that a mean square is over all of them.
    """
    sides = [(*norms, share) for norms, share in zip(model.norms(), (1, mean_of), strict=False)]
    top = np.sort(np.concatenate([_largest(inf) * share for inf, _, share in sides]))[-TOP:]
    return ChampionNorms(
        max_inf=float(top[-1]) if len(top) else 0.0,
        top10_inf=float(top.mean()) if len(top) else 0.0,
        max_msqr=float(max(msqr.max(initial=0.0) * share**2 for _, msqr, share in sides)),
    )


def _largest(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """At least the ten largest values, in a few passes; np.partition takes as long as forty."""
    cut = values.max(initial=0.0)
    while cut > 0.0:
        cut = cut / 2 if cut > 1e-6 else 0.0
        found = values[values >= cut]
        if len(found) >= TOP:
            return found
    return values
