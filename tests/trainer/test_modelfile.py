"""Model files: the same bits back, and a clear refusal of anything else."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from divergence.errors import InputError
from support.strategies import examples
from support.streams import CONFIGS, changed, contents, some_chunk, trained
from trainer.features import Feature, FeatureSpec
from trainer.model import Model, ModelConfig
from trainer.modelfile import apply_delta, load_model, save_delta, save_model


def grown(*, multi: bool = False, cycles: int = 3) -> Model:
    """A model with a history: some values dropped, rows used again."""
    model = Model(CONFIGS[multi])
    for cycle in range(cycles):
        trained(model, some_chunk(15, seed=cycle, values=20, multi=multi), cycle, mu0=0.1)
        model.expire(cycle - 2)
    return model


def refusal(data: bytes, config: ModelConfig | None = None) -> str:
    with pytest.raises(InputError) as caught:
        load_model(data, "champion.safetensors", config)
    message = str(caught.value)
    assert message.startswith("champion.safetensors ")
    return message.removeprefix("champion.safetensors ")


# -- full files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("multi", [False, True])
def test_a_model_comes_back(multi: bool) -> None:
    model = grown(multi=multi)
    loaded = load_model(save_model(model), "m", model.config)
    assert loaded.config == model.config
    assert list(contents(loaded).items()) == list(contents(model).items())
    assert (loaded.cycle, loaded.bias.tolist()) == (model.cycle, model.bias.tolist())
    for ours, theirs in ((loaded.user, model.user), (loaded.ad, model.ad)):
        np.testing.assert_array_equal(ours.inf[ours.alive()], theirs.inf[theirs.alive()])
        np.testing.assert_array_equal(ours.msqr[ours.alive()], theirs.msqr[theirs.alive()])


def test_the_same_model_is_the_same_file() -> None:
    model = grown()
    assert save_model(model) == save_model(model) == save_model(load_model(save_model(model), "m"))


def test_an_empty_model_comes_back() -> None:
    model = Model(CONFIGS[False])
    loaded = load_model(save_model(model), "m")
    assert (len(loaded), loaded.cycle, loaded.config) == (0, -1, model.config)


def test_a_loaded_model_goes_on_like_the_one_saved() -> None:
    """Gathers, scatters and expires alike for many cycles."""
    ours = grown()
    theirs = load_model(save_model(ours), "m")
    for cycle in range(3, 9):
        chunk = some_chunk(15, seed=cycle, values=20)
        for model in (ours, theirs):
            trained(model, chunk, cycle, mu0=0.1, sums_kept=0.5)
        assert set(ours.expire(cycle - 3)) == set(theirs.expire(cycle - 3))
        assert contents(ours) == contents(theirs)
        assert save_model(ours) == save_model(theirs)


def test_values_of_any_text_come_back() -> None:
    model = Model(CONFIGS[False])
    for value in ("", "ä€𝄞", "a\0b", "new\nline", '"quoted"', "x" * 10_000):
        model.ad.insert([(3, value)])
    loaded = load_model(save_model(model), "m")
    assert list(loaded.ad.index) == list(model.ad.index)


# -- deltas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("multi", [False, True])
def test_a_full_file_and_its_deltas_are_the_latest_full_file(multi: bool) -> None:
    model = Model(CONFIGS[multi])
    trained(model, some_chunk(15, values=20, multi=multi), 0)
    other = load_model(save_model(model), "full")
    for cycle in range(1, 9):
        changes = trained(model, some_chunk(6, seed=cycle, values=20, multi=multi), cycle)
        changes = changes.with_dropped(model.expire(cycle - 2))
        delta = save_delta(model, changes)
        apply_delta(other, delta, "delta")
        assert save_model(other) == save_model(model)
        assert len(delta) < len(save_model(model))


def test_a_delta_follows_the_cycle_and_not_the_model() -> None:
    """A larger model, the same chunk: a file of the same size."""
    sizes = []
    for values in (20, 2000):
        model = Model(CONFIGS[False])
        trained(model, some_chunk(2 * values, values=values), 0)
        changes = trained(model, some_chunk(10, seed=1, values=10), 1)
        sizes.append((len(save_delta(model, changes)), len(save_model(model))))
    assert sizes[1][0] < 1.1 * sizes[0][0]
    assert sizes[1][1] > 10 * sizes[0][1]


def test_full_files_and_deltas_are_not_mistaken() -> None:
    model = grown()
    changes = trained(model, some_chunk(5), 3)
    delta = save_delta(model, changes)
    assert refusal(delta) == "must be a full model file, but is a delta"
    with pytest.raises(InputError) as caught:
        apply_delta(model, save_model(model), "d")
    assert str(caught.value) == "d must be a delta model file, but is a full"


def test_a_delta_is_applied_once_and_in_its_turn() -> None:
    model = grown()
    at = model.cycle
    other = load_model(save_model(model), "full")
    deltas = [save_delta(model, trained(model, some_chunk(5), at + i)) for i in (1, 2)]
    before = save_model(other)
    with pytest.raises(InputError) as caught:
        apply_delta(other, deltas[1], "d")
    assert str(caught.value) == (
        f"d applies to a model of cycle {at + 1}, but this model is of cycle {at}"
    )
    assert save_model(other) == before
    for delta in deltas:
        apply_delta(other, delta, "d")
    assert save_model(other) == save_model(model)
    with pytest.raises(InputError):
        apply_delta(other, deltas[1], "d")


def test_a_delta_of_another_geometry_is_refused() -> None:
    model = grown()
    delta = save_delta(model, trained(model, some_chunk(5), 3))
    other = Model(replace(model.config, alone=3))
    with pytest.raises(InputError) as caught:
        apply_delta(other, delta, "d")
    assert str(caught.value) == ("d does not fit the config: it has alone 2 where the config has 3")
    assert len(other) == 0


@pytest.mark.parametrize("rows", [False, True])
def test_a_file_has_the_bytes_that_safetensors_writes(rows: bool) -> None:
    data = save_model(grown(), rows=rows)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert data == save(load(data), header["__metadata__"])


def test_a_file_is_also_read_from_an_array_that_cannot_be_written() -> None:
    data = np.frombuffer(save_model(grown()), np.uint8)  # as it comes out of Ray's store
    assert save_model(load_model(data, "m")) == data.tobytes()


# -- files that are refused ---------------------------------------------------------------------

DATA = save_model(grown())


@settings(derandomize=True, deadline=None, max_examples=examples(150))
@given(st.integers(0, len(DATA) - 1))
def test_a_file_cut_short_is_refused(length: int) -> None:
    assert "is not a Holdfast model, or is damaged" in refusal(DATA[:length])


@settings(derandomize=True, deadline=None, max_examples=examples(300))
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_a_file_with_one_byte_altered_is_refused(place: int, flip: int) -> None:
    damaged = bytearray(DATA)
    damaged[place] ^= flip
    assert "damaged" in (message := refusal(bytes(damaged))) or "version" in message


def test_every_byte_of_the_header_matters() -> None:
    """The length, the tensors' names, types and places, and the manifest."""
    size = 8 + int.from_bytes(DATA[:8], "little")
    spaces = size - len(DATA[:size].rstrip(b" "))  # filling after the header's JSON
    for place in range(size - spaces):
        damaged = bytearray(DATA)
        damaged[place] ^= 1
        assert refusal(bytes(damaged))


def test_bytes_after_the_end_are_refused() -> None:
    assert "damaged" in refusal(DATA + b"\0")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a model",
        b"\x80\x04K\x01.",
        save({"x": np.zeros(3)}),
        save({"x": np.zeros(3)}, {"holdfast": "no json"}),
        save({"x": np.zeros(3)}, {"holdfast": "{}"}),
        save({"x": np.zeros(3)}, {"holdfast": "[]"}),
        save({"x": np.zeros(3)}, {"holdfast": '"text"'}),
        save({"x": np.zeros(3)}, {"holdfast": "5"}),
        save({"x": np.zeros(3)}, {"holdfast": "null"}),
        save({"x": np.zeros(3)}, {"other": "{}"}),
        save({"x": np.zeros(3, np.float16)}, {"holdfast": '{"sha256": ""}'}),
    ],
)
def test_a_foreign_file_is_refused(data: bytes) -> None:
    assert refusal(data).startswith("is not a Holdfast model, or is damaged (")


@pytest.mark.parametrize(
    ("places", "reason"),
    [
        (((0, 8), (0, 8)), "must begin at byte 8 and end by 16"),
        (((0, 8), (9, 16)), "must begin at byte 8 and end by 16"),
        (((0, 8), (8, 24)), "must begin at byte 8 and end by 16"),
        (((-8, 8), (8, 16)), "must begin at byte 0 and end by 16"),
        (((0, 8),), "8 bytes belong to nothing"),
    ],
)
def test_tensors_that_do_not_fill_the_file_one_after_the_other_are_refused(
    places: tuple[tuple[int, int], ...], reason: str
) -> None:
    header: dict[str, object] = {"__metadata__": {"holdfast": "{}"}}
    for i, place in enumerate(places):
        header[f"x{i}"] = {"dtype": "F64", "shape": [1], "data_offsets": place}
    text = json.dumps(header).encode()
    assert reason in refusal(len(text).to_bytes(8, "little") + text + bytes(16))


def test_another_version_is_refused() -> None:
    manifest = {"format": "holdfast-model", "version": 2, "sha256": ""}
    data = save({"x": np.zeros(3)}, {"holdfast": json.dumps(manifest)})
    assert refusal(data) == (
        "has format 'holdfast-model' version 2, but this Holdfast reads 'holdfast-model' version 1"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"overlap": 5}, "overlap 4 where the config has 5"),
        ({"alone": 0}, "alone 2 where the config has 0"),
        (
            {"overlap": 1, "alone": 1},
            "overlap 4 where the config has 1; alone 2 where the config has 1",
        ),
        (
            {"spec": FeatureSpec((Feature("age"), Feature("town")), CONFIGS[False].spec.ad)},
            "user features age, city, hour where the config has age, town",
        ),
        (
            {
                "spec": FeatureSpec(
                    CONFIGS[False].spec.user, (Feature("ad"), Feature("brand", multi=True))
                )
            },
            "ad features ad, brand where the config has ad, brand (multi)",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_saying_what_differs(
    change: dict[str, object], message: str
) -> None:
    wanted = replace(CONFIGS[False], **change)
    assert refusal(DATA, wanted) == f"does not fit the config: it has {message}"


def test_a_model_is_no_code() -> None:
    """Nothing in a file but JSON and plain numbers."""
    assert b"pickle" not in DATA
    header = json.loads(DATA[8 : 8 + int.from_bytes(DATA[:8], "little")])
    kinds = {entry["dtype"] for name, entry in header.items() if name != "__metadata__"}
    assert kinds == {"F32", "F64", "I16", "I32", "I64", "U8"}


def test_changing_a_loaded_model_leaves_the_bytes() -> None:
    model = load_model(DATA, "m")
    before = model.gather(some_chunk(5), 9)
    model.scatter(some_chunk(5), 9, before, changed(before, model))
    assert save_model(model) != DATA
    assert save_model(load_model(DATA, "m")) == DATA
