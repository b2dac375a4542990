"""Select the instance that becomes the champion."""

import math
from collections.abc import Iterable

from trainer.outcome import Outcome, Status


def select(outcomes: Iterable[Outcome]) -> int | None:
    """The retained instance with the lowest progressive log-loss.

    Ties go to the lower instance number. None if no instance was retained with a finite log-loss.
    The order of `outcomes` does not matter.
    """
    candidates = [o for o in outcomes if o.status is Status.RETAINED and math.isfinite(o.logloss)]
    return min(candidates, key=lambda o: (o.logloss, o.instance)).instance if candidates else None
