"""What TensorBoard itself reads of a folder."""

from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """By tag and step, as TensorBoard shows them; a step that it shows twice is an error."""
    log = _log(folder)
    found = {}
    for tag in log.Tags()["scalars"]:
        points = [(event.step, event.value) for event in log.Scalars(tag)]
        found[tag] = dict(points)
        assert len(found[tag]) == len(points), f"{tag} has a step twice"
        assert list(found[tag]) == sorted(found[tag])
    return found


def hyperparameters(folder: Path) -> dict[str, Any]:
    """What the HParams tab shows."""
    content = _log(folder).SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    given = HParamsPluginData.FromString(content).session_start_info.hparams
    return {key: getattr(value, value.WhichOneof("kind")) for key, value in given.items()}


def written_steps(folder: Path) -> list[int]:
    """The cycles in all files, in the order in which they were written."""
    events = (e for f in sorted(folder.iterdir()) for e in LegacyEventFileLoader(str(f)).Load())
    tags = ((event.step, {value.tag for value in event.summary.value}) for event in events)
    return [step for step, found in tags if "loss/constant_logloss" in found]


def _log(folder: Path) -> EventAccumulator:
    log = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    log.Reload()
    return log
