"""Which instance becomes the champion."""

import math
from collections.abc import Iterable

from trainer.outcome import Outcome, Status


def select(outcomes: Iterable[Outcome]) -> int | None:
    """The instance number of the retained outcome with the least progressive log-loss.

    Ties go to the lower instance number. None where no instance was retained with a finite
    log-loss. The order of `outcomes` does not matter.
    """
    standing = [o for o in outcomes if o.status is Status.RETAINED and math.isfinite(o.logloss)]
    return min(standing, key=lambda o: (o.logloss, o.instance)).instance if standing else None
