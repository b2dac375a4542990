"""Checks across arms. They run on the raw config, so that all mistakes are reported together."""

from typing import Any

from orchestrator.validation.errors import Mistake, cut, did_you_mean, short


def arm_mistakes(data: dict[str, Any]) -> list[Mistake]:
    """Duplicate names, and references to arms that do not exist or start later."""
    arms = data.get("arms")
    if not isinstance(arms, list):
        return []
    names = [_get(arm, "name") for arm in arms]
    found: list[Mistake] = []
    first: dict[str, int] = {}
    for i, arm in enumerate(arms):
        if isinstance(names[i], str):
            found += _duplicate(names, i, first.setdefault(names[i].casefold(), i))
        start = _get(arm, "start_from")
        if isinstance(start, dict) and "run" not in start:
            found += _start_from_mistakes(data, names, i)
    follow = _get(_get(data.get("search"), "sampler"), "follow")
    if isinstance(follow, str) and follow not in names:
        found.append((("search", "sampler", "follow"), _unknown(follow, names)))
    published = _get(data.get("publish"), "arm")
    if isinstance(published, str) and published not in names:
        found.append((("publish", "arm"), _unknown(published, names)))
    return found


def _duplicate(names: list[Any], i: int, first: int) -> list[Mistake]:
    """The mistake if the arm `first` has the same folder as arm `i`."""
    if i == first:
        return []
    text = f"must be unique, but arms.{first} is also {cut(repr(names[first]))}"
    if names[i] != names[first]:
        text = (
            f"must differ in more than case from arms.{first}, {cut(repr(names[first]))}: some "
            "file systems ignore case"
        )
    return [(("arms", i, "name"), text)]


def _start_from_mistakes(data: dict[str, Any], names: list[Any], i: int) -> list[Mistake]:
    start, path = data["arms"][i]["start_from"], ("arms", i, "start_from")
    arm, cycle, cycles = start.get("arm"), start.get("cycle"), data.get("cycles")
    found: list[Mistake] = []
    if isinstance(cycle, int) and isinstance(cycles, int) and cycle >= cycles:
        found.append(
            (
                (*path, "cycle"),
                f"must be below the run's {short(cycles)} cycles, but is {short(cycle)}",
            )
        )
    if not isinstance(arm, str):
        return found
    if arm == names[i]:
        found.append(((*path, "arm"), f"must be another arm, but {cut(repr(arm))} is this one"))
    elif arm not in names:
        found.append(((*path, "arm"), _unknown(arm, names)))
    elif names.index(arm) > i:
        found.append(
            ((*path, "arm"), f"must be listed before this arm, but {cut(repr(arm))} comes later")
        )
    else:
        other = _get(data["arms"][names.index(arm)], "start_from")
        first = 0 if _get(other, "run") else _get(other, "cycle") or 0
        if isinstance(cycle, int) and isinstance(first, int) and cycle <= first:
            text = (
                f"must be above {first}, the first cycle of {cut(repr(arm))}, but is {short(cycle)}"
            )
            found.append(((*path, "cycle"), text))
    return found


def _unknown(name: str, names: list[Any]) -> str:
    known = {str(n): None for n in names if isinstance(n, str)}
    choice = f"{cut(', '.join(known))}{did_you_mean(name, known)}"
    return f"must be one of the arms {choice}, but is {cut(repr(name))}"


def _get(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, dict) else None
