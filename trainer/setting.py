"""A setting: the hyper-parameters in which instances differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from divergence.errors import InputError
from trainer.pickling import travels_fast


@travels_fast
@dataclass(frozen=True, slots=True)
class Setting:
    """Step size eta0 / (alpha + (Σ|g|)^beta), and the tuned parameters of the arm's rule.

    `rho`, `lam` and `dual_step` are None where the rule has no such parameter. The first three are
    OFFSET's: None with another trainer, whose parameters are in `others`.
    """

    eta0: float | None = None
    alpha: float | None = None
    beta: float | None = None
    rho: float | None = None
    lam: float | None = None
    dual_step: float | None = None
    others: dict[str, float] | None = field(default=None, hash=False)
    """Any other parameters of the rule or the trainer that are searched, by name; None where there
    are none."""

    @property
    def steps(self) -> tuple[float, float, float]:
        """eta0, alpha and beta. InputError where this is a setting of another trainer."""
        if self.eta0 is None or self.alpha is None or self.beta is None:
            raise InputError("this setting has no eta0, alpha and beta: another trainer made it")
        return self.eta0, self.alpha, self.beta

    def value(self, name: str) -> float | None:
        """The value of a parameter; None where this setting does not have it."""
        if name in PARAMETERS:
            found: float | None = getattr(self, name)
            return found
        return (self.others or {}).get(name)


PARAMETERS: tuple[str, ...] = tuple(f.name for f in fields(Setting) if f.name != "others")
"""The names of the hyper-parameters that every search knows, in the order of a draw's coordinates.
Those in `others` come after them."""


def setting_of(values: Mapping[str, float]) -> Setting:
    """The setting with these values by name."""
    others = {name: value for name, value in values.items() if name not in PARAMETERS}
    known = {name: value for name, value in values.items() if name in PARAMETERS}
    return Setting(**known, others=others or None)
