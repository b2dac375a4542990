"""A setting: the hyper-parameters in which instances differ."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Setting:
    """Step size eta0 / (alpha + (Σ|g|)^beta), and the tuned parameters of the arm's rule.

    `rho`, `lam` and `dual_step` are None where the rule has no such parameter.
    """

    eta0: float
    alpha: float
    beta: float
    rho: float | None = None
    lam: float | None = None
    dual_step: float | None = None


PARAMETERS: tuple[str, ...] = tuple(field.name for field in fields(Setting))
"""The names of all hyper-parameters, in the order of a draw's coordinates."""
