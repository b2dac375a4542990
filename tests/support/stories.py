"""A made-up story of four vectors."""

from orchestrator.offline.story import Story, StoryTwin, StoryVector

FRAMES = (90, 100, 150, 180, 190, 200)


def made_up_story(name: str = "x") -> Story:
    """c grows at event 100, then u beside it, then k and d beside u; the twin stays small."""

    def vector(feature: str, event: int, *sources: int) -> StoryVector:
        late = [max(0, FRAMES.index(frame) + 1 - FRAMES.index(event)) for frame in FRAMES]
        return StoryVector(feature, f"{name}{feature[0]}", event, sources,
                           tuple(0.5 if n == 0 else 5.0 + 2 * n for n in late),
                           tuple(0.5 + 0.1 * n for n in late))  # fmt: skip

    vectors = (
        vector("creative", 100),
        vector("user", 150, 0),
        vector("kind", 180, 1),
        vector("device", 200, 1, 2),
    )
    end = StoryVector("device", f"{name}d", 200, (1, 2), (0.5,) * 5 + (None,), (0.6,) * 6)
    return Story(
        arm="production",
        rule="l2",
        cycle=3,
        instance=7,
        tau=15.0,
        level=5.0,
        chunk_events=400,
        events_done=201,
        lost=f"device={name}d reached inf at event 200",
        end=3,
        end_norm=None,
        grown=6,
        beside=3,
        company=((True, 0.1), (True, 0.2), (False, 0.3)),
        frames=FRAMES,
        vectors=(*vectors[:3], end),
        twin=StoryTwin("entropic", 0, 1.25, ""),
    )
