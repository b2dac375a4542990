"""The hooks of a training step. A rule overrides those it needs.

A rule is a NamedTuple of numbers with methods of these names; the kernel calls the functions
below with the rule as first argument, and numba picks the rule's method, or the default, by the
rule's type when it compiles. Defaults are constants that the compiler folds away.

`theta`, `g` and the like are eight lanes of one vector; `mu`, `msqr` and `inverse_length` are
lanes too, one for each of eight *vectors*.

Every rule also has a method `oracle(self, theta, g, sums, mu, step)`: the complete step of one
vector in plain numpy, which the contract compares with the kernel. It takes the vector, the
gradient of the loss, AdaGrad's sums, the multiplier, and a function from sums to step sizes. It
returns the new vector, sums and multiplier.
"""

from inspect import signature

import numpy as np
from numba import types
from numba.extending import overload

from divergence.lanemath import f32
from divergence.simd import fma, splat


def penalty_coefficient(self, mu, inverse_length):
    """The coefficient c of the penalty's gradient c * theta, for eight vectors. Default 0."""


def summed_gradient(self, c, theta, g):
    """The gradient that is added to AdaGrad's sum. Default: the loss's own, g."""


def move(self, c, theta, g, eta0, denominator):
    """The new theta. The step size is eta0 / denominator. Default: theta - step * g."""


def gradient_limit(self):
    """The largest norm a vector's gradient may have; longer ones are scaled. Default: none."""


def update_limit(self):
    """(relative, absolute): no entry may move by more than relative * |theta| + absolute.

    The whole update is scaled down until that holds. Default: none.
    """


def logit_damping(self):
    """How much the steps of an event are held back by how far they would move its logit.

    All steps of an event, the bias's included, are divided by sqrt(1 + (damping * reach)**2), where
    reach is the sum of step * x**2 over all entries, and x the derivative of the logit by the
    entry. So the logit moves by less than slope / damping, to first order, however large the step
    sizes are, and small steps stay as they are. Default: 0.
    """


def norm_limit(self, length):
    """The largest squared norm of a vector after the step; larger ones are scaled. Default none."""


def ascend(self, mu, msqr):
    """The new multipliers of eight vectors, from their mean squares after the step. Default: mu."""


def damps(self):
    """Whether the rule has `logit_damping`: known when the kernel is compiled. Not a hook."""


_NONE = f32(float("inf"))


class _Default:
    """The hooks that a rule does not override."""

    def penalty_coefficient(self, mu, inverse_length):
        return splat(f32(0.0))

    def summed_gradient(self, c, theta, g):
        return g

    def move(self, c, theta, g, eta0, denominator):
        return theta - (eta0 * g) / denominator

    def gradient_limit(self):
        return _NONE

    def update_limit(self):
        return _NONE, _NONE

    def logit_damping(self):
        return f32(0.0)

    def norm_limit(self, length):
        return _NONE

    def ascend(self, mu, msqr):
        return mu


HOOKS = {
    name: tuple(signature(default).parameters)
    for name, default in vars(_Default).items()
    if not name.startswith("_")
}
"""The names of the arguments of each hook: numba wants them to be the same everywhere."""


def _method(rule, name):
    """The rule's own method, or the default; None where the argument is not a rule."""
    if not isinstance(rule, types.BaseNamedTuple):
        return None
    return getattr(rule.instance_class, name, getattr(_Default, name))


@overload(penalty_coefficient)
def _penalty_coefficient(self, mu, inverse_length):
    return _method(self, "penalty_coefficient")


@overload(summed_gradient)
def _summed_gradient(self, c, theta, g):
    return _method(self, "summed_gradient")


@overload(move)
def _move(self, c, theta, g, eta0, denominator):
    return _method(self, "move")


@overload(gradient_limit)
def _gradient_limit(self):
    return _method(self, "gradient_limit")


@overload(update_limit)
def _update_limit(self):
    return _method(self, "update_limit")


@overload(logit_damping)
def _logit_damping(self):
    return _method(self, "logit_damping")


@overload(damps)
def _damps(self):
    if not isinstance(self, types.BaseNamedTuple):
        return None
    own = hasattr(self.instance_class, "logit_damping")
    return (lambda self: True) if own else (lambda self: False)


@overload(norm_limit)
def _norm_limit(self, length):
    return _method(self, "norm_limit")


@overload(ascend)
def _ascend(self, mu, msqr):
    return _method(self, "ascend")


class Penalty:
    """The primal step of every rule with multipliers: the loss plus mu * msqr(theta)."""

    @staticmethod
    def penalty_coefficient(self, mu, inverse_length):
        """The gradient of mu / d * |theta|**2 is 2 mu / d * theta."""
        return splat(f32(2.0)) * mu * inverse_length

    @staticmethod
    def summed_gradient(self, c, theta, g):
        """The paper trains "with the loss", so by default the penalty is in the sum."""
        return fma(c, theta, g) if self.penalty_in_sum else g

    @staticmethod
    def move(self, c, theta, g, eta0, denominator):
        """Explicit, or implicit (proximal): theta / (1 + step * c) after the loss's own step.

        The explicit step overshoots where mu is large; the implicit one cannot.
        """
        if self.implicit:
            return (theta * denominator - eta0 * g) / fma(eta0, c, denominator)
        return theta - (eta0 * fma(c, theta, g)) / denominator

    @staticmethod
    def plain_step(self, theta, g, sums, mu, step):
        """The same for the oracle, in numpy: the new vector and sums."""
        pull = 2 * mu / len(theta) * theta
        sums = sums + np.abs(g + pull if self.penalty_in_sum else g)
        if self.implicit:
            return (theta - step(sums) * g) / (1 + step(sums) * 2 * mu / len(theta)), sums
        return theta - step(sums) * (g + pull), sums
