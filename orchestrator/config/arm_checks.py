"""Mistakes between arms, found in the raw config so that they show beside all the others."""

from typing import Any

from orchestrator.validation.errors import Mistake, nearest


def arm_mistakes(data: dict[str, Any]) -> list[Mistake]:
    """Names given twice, and arms named that are not there, or not yet there."""
    arms = data.get("arms")
    if not isinstance(arms, list):
        return []
    names = [_at(arm, "name") for arm in arms]
    found: list[Mistake] = []
    for i, arm in enumerate(arms):
        if isinstance(names[i], str) and names[i] in names[:i]:
            first = f"arms.{names.index(names[i])}"
            found.append(
                (("arms", i, "name"), f"must be given once, but {first} is {names[i]!r} too")
            )
        if isinstance(_at(arm, "start_from"), dict):
            found += _start_mistakes(data, names, i)
    follow = _at(_at(data.get("search"), "sampler"), "follow")
    if isinstance(follow, str) and follow not in names:
        found.append((("search", "sampler", "follow"), _unknown(follow, names)))
    published = _at(data.get("publish"), "arm")
    if isinstance(published, str) and published not in names:
        found.append((("publish", "arm"), _unknown(published, names)))
    return found


def _start_mistakes(data: dict[str, Any], names: list[Any], i: int) -> list[Mistake]:
    start, path = data["arms"][i]["start_from"], ("arms", i, "start_from")
    arm, cycle, cycles = start.get("arm"), start.get("cycle"), data.get("cycles")
    found: list[Mistake] = []
    if isinstance(cycle, int) and isinstance(cycles, int) and cycle >= cycles:
        found.append(((*path, "cycle"), f"must be below the run's {cycles} cycles, but is {cycle}"))
    if not isinstance(arm, str):
        return found
    if arm == names[i]:
        found.append(((*path, "arm"), f"must be another arm, but {arm!r} is this one"))
    elif arm not in names:
        found.append(((*path, "arm"), _unknown(arm, names)))
    elif names.index(arm) > i:
        found.append(((*path, "arm"), f"must be listed before this arm, but {arm!r} comes later"))
    else:
        begun = _at(_at(data["arms"][names.index(arm)], "start_from"), "cycle") or 0
        if isinstance(cycle, int) and isinstance(begun, int) and cycle <= begun:
            text = f"must be above {begun}, where {arm!r} itself begins, but is {cycle}"
            found.append(((*path, "cycle"), text))
    return found


def _unknown(name: str, names: list[Any]) -> str:
    known = {str(n): None for n in names if isinstance(n, str)}
    return f"must be one of the arms {', '.join(known)}{nearest(name, known)}, but is {name!r}"


def _at(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, dict) else None
