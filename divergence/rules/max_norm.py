"""`max_norm`: a largest Euclidean norm for every vector, whatever its length."""

from typing import Annotated, NamedTuple

from annotated_types import Gt

from divergence.lanemath import f32


class MaxNorm(NamedTuple):
    """Scale a vector back where its norm exceeds the limit, as embedding layers do."""

    limit: Annotated[float, Gt(0)] = 2.0

    def norm_limit(self, length):
        """|theta| <= limit."""
        return f32(self.limit) * f32(self.limit)
