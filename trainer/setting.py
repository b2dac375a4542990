"""A setting: the hyper-parameters in which instances differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from trainer.pickling import travels_fast


@travels_fast
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
    others: dict[str, float] | None = field(default=None, hash=False)
    """Any other parameters of the rule that are searched, by name; None where there are none."""

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
