"""Which actor has which lines. No Ray in here."""

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")


def place(keys: Iterable[K], homes: Mapping[K, A], actors: Sequence[A]) -> dict[K, A]:
    """A home for each key, so that all actors have the same number of keys, give or take one.

    A key stays where it is unless its actor is gone or has too many.
    """
    of_actor: dict[int, list[K]] = {id(actor): [] for actor in actors}
    homeless: list[K] = []
    for key in keys:
        at_home = of_actor.get(id(homes[key])) if key in homes else None
        (homeless if at_home is None else at_home).append(key)
    least = [(len(at_home), i) for i, at_home in enumerate(of_actor.values())]
    heapq.heapify(least)
    places = list(of_actor.values())
    for key in homeless:
        number, i = least[0]
        places[i].append(key)
        heapq.heapreplace(least, (number + 1, i))
    while True:
        fewest, most = min(of_actor.values(), key=len), max(of_actor.values(), key=len)
        if len(most) - len(fewest) <= 1:
            break
        fewest.append(most.pop())
    return {key: actor for actor in actors for key in of_actor[id(actor)]}
