"""The bound rho on a vector's mean square: the paper's heuristic rho0, and the search around it.

The paper (section V-D) requires |<nu_u, nu_a>| <= 12, splits the norm between the two sides by a
parameter t, and sets the bound on an ad vector's mean square equal to that on a user feature's.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from divergence.errors import InputError

LOGIT = 12.0  # sigmoid(-12) is 6e-6: no click probability is lower
VISIBLE = 1e-3  # a gain of a thousandth of the log-loss
ERRORS = 2.0  # standard errors that a gain must exceed


def rho0(length: int) -> float:
    """The closed form, for vectors of N entries."""
    if length < 1:
        raise InputError(f"rho0 needs vectors of at least one entry, but N is {length}")
    root = np.sqrt(length)
    return float(288.0 / (24.0 * root + length**0.75 * np.sqrt(48.0 + root) + length))


def division_of_mass(length: int) -> float:
    """The t > 0 for which both bounds agree: 12 t**2 - sqrt(N) t - sqrt(N) = 0."""
    root = float(np.sqrt(length))
    return (root + float(np.sqrt(root * root + 4.0 * LOGIT * root))) / (2.0 * LOGIT)


def user_bound(length: int, t: float) -> float:
    """The largest mean square of a user feature's vector, for a division t."""
    return float(LOGIT / (1.0 + t) / np.sqrt(length))


def ad_bound(length: int, t: float) -> float:
    """The largest mean square of an ad's vector, for a division t."""
    return float((LOGIT * t / (1.0 + t)) ** 2 / length)


def safe_multiple(length: int, ad_length: int, tau: float) -> float:
    """The k below which a vector within rho = k * rho0 cannot reach tau.

    Since ||v||_inf <= sqrt(d * msqr), no entry of d does while d * rho < tau**2.
    """
    return tau * tau / (length * rho0(ad_length))


def visible_gain(
    losses: Sequence[float], better: Sequence[float], visible: float = VISIBLE
) -> bool:
    """Whether the second series of log-losses is visibly lower than the first.

    The criterion: chunk by chunk, the mean gain is more than `visible` of the mean loss *and* more
    than two standard errors of the paired differences. A series with a lost chunk (NaN or inf)
    never gains, and every other series gains on it.
    """
    first, second = np.asarray(losses, float), np.asarray(better, float)
    if not np.all(np.isfinite(second)):
        return False
    if not np.all(np.isfinite(first)):
        return True
    gain = first - second
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
    return bool(gain.mean() > max(visible * first.mean(), ERRORS * error))


def smallest_sufficient(losses: Mapping[float, Sequence[float]], visible: float = VISIBLE) -> float:
    """The smallest k whose log-loss no larger k improves visibly (the paper's choice).

    `losses` maps each k to the log-loss of a model trained with rho = k * rho0 on each of the same
    chunks. The largest k always suffices.
    """
    if not losses:
        raise InputError("the search for k needs at least one value of k")
    lengths = {len(series) for series in losses.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InputError("the search for k needs the same chunks, at least one, for every k")
    ks = sorted(losses)
    for i, k in enumerate(ks):
        if not any(visible_gain(losses[k], losses[larger], visible) for larger in ks[i + 1 :]):
            return k
    raise AssertionError("the largest k always suffices")
