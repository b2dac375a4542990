import pytest
from pydantic import ValidationError

from orchestrator.sources.simulator.config import PRESETS, SIGNALS, SimulatorConfig

RESTLESSNESS = (
    "depletion_share",
    "pauses_per_day",
    "flags_per_week",
    "drift_share",
    "fatigue",
    "shocks_per_day",
    "shock_size",
)
CALMNESS = ("campaign_lifetime_h", "taste_drift_h", "quality_drift_h")


def test_presets_go_from_calm_to_stormy() -> None:
    calm, normal, stormy = (
        SimulatorConfig.model_validate({"preset": name}).model_dump() for name in PRESETS
    )
    for knob in RESTLESSNESS:
        assert calm[knob] < normal[knob] < stormy[knob], knob
    for knob in CALMNESS:
        assert calm[knob] > normal[knob] > stormy[knob], knob


def test_normal_and_criteo_are_the_default() -> None:
    assert SimulatorConfig() == SimulatorConfig(preset="normal", signal="criteo")


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_signal_fills_its_two_values_and_no_other(signal: str) -> None:
    config = SimulatorConfig.model_validate({"preset": "stormy", "signal": signal})
    assert {name: getattr(config, name) for name in SIGNALS[signal]} == SIGNALS[signal]
    plain = SimulatorConfig(preset="stormy").model_dump()
    assert config.model_dump() == plain | dict(SIGNALS[signal])


def test_signals_grow_and_faint_is_the_first_market() -> None:
    assert SIGNALS["faint"] == {"interaction_sd": 0.8, "quality_sd": 0.6}
    pairs = [SIGNALS[name] for name in ("taobao", "avazu", "criteo")]
    sizes = [pair["interaction_sd"] for pair in pairs]
    assert sizes == sorted(set(sizes))
    assert [pair["quality_sd"] / pair["interaction_sd"] for pair in pairs] == pytest.approx(
        [0.75] * 3
    )


def test_a_given_value_wins_over_the_signal_which_then_has_no_name() -> None:
    config = SimulatorConfig.model_validate({"signal": "faint", "quality_sd": 0.0})
    assert (config.interaction_sd, config.quality_sd, config.signal) == (0.8, 0.0, None)
    assert SimulatorConfig(interaction_sd=0.8, quality_sd=0.6).signal == "faint"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_given_knob_wins_over_the_preset(preset: str) -> None:
    given = {"preset": preset, "campaign_lifetime_h": 5.0}
    config = SimulatorConfig.model_validate(given)
    assert config.campaign_lifetime_h == 5.0
    plain = SimulatorConfig.model_validate({"preset": preset})
    assert config.model_dump(exclude={"campaign_lifetime_h"}) == plain.model_dump(
        exclude={"campaign_lifetime_h"}
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_a_resolved_config_reads_back_as_itself(preset: str) -> None:
    given = {"preset": preset, "signal": "avazu", "seed": 9, "fatigue": 0.0}
    config = SimulatorConfig.model_validate(given)
    assert SimulatorConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ads": 0}, "ads\n.*greater than 0"),
        ({"users": 0}, "users\n.*greater than 0"),
        ({"events_per_cycle": 0}, "events_per_cycle\n.*greater than 0"),
        ({"cycle_minutes": 0}, "cycle_minutes\n.*greater than 0"),
        ({"seed": -1}, "seed\n.*greater than or equal to 0"),
        ({"pauses_per_day": -0.1}, "pauses_per_day\n.*greater than or equal to 0"),
        ({"shocks_per_day": -1}, "shocks_per_day\n.*greater than or equal to 0"),
        ({"campaign_lifetime_h": 0}, "campaign_lifetime_h\n.*greater than 0"),
        ({"ctr": 0}, "ctr\n.*greater than 0"),
        ({"ctr": 0.9}, "ctr\n.*less than or equal to 0.2"),
        ({"depletion_share": 1.1}, "depletion_share\n.*less than or equal to 1"),
        ({"daily_swing": 1.0}, "daily_swing\n.*less than 1"),
        ({"fatigue": float("nan")}, "fatigue\n.*finite"),
        ({"preset": "wild"}, "preset\n.*'calm', 'normal' or 'stormy'"),
        ({"signal": ""}, "signal\n.*'faint', 'taobao', 'avazu' or 'criteo'"),
        ({"signal": "loud"}, "signal\n.*'faint', 'taobao', 'avazu' or 'criteo'"),
        ({"start": "2024-01-01T00:00:00"}, "start\n.*timezone"),
        ({"adds": 5}, "adds\n.*not permitted"),
        ({"pauses_per_day": 6, "pause_h": 4}, "pauses_per_day and pause_h .* for 24 of 24"),
        ({"flags_per_week": 14, "flag_h": 9}, "flags_per_week and flag_h .* for 18 of 24"),
    ],
)
def test_impossible_values_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SimulatorConfig.model_validate(given)


def test_every_knob_says_what_it_is() -> None:
    silent = [
        name
        for name, field in SimulatorConfig.model_fields.items()
        if not field.description and name != "kind"
    ]
    assert silent == []


def test_ads_are_rounded_up_to_whole_campaigns() -> None:
    assert SimulatorConfig(ads=9, creatives_per_campaign=4).campaigns == 3
