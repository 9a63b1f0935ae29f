"""Checkpoints of TensorFlow, without TensorFlow: one that its Saver wrote, and damaged or unusual ones."""

import shutil
import sys

import numpy as np
import pytest
import test_encoder_golden as golden
import torch
from bundles import field, write
from golden import ROOT
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import CheckpointError, MissingDependencyError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.checkpoints.tensor_bundle import find_bundle, read_bundle
from mate_cli.models.checkpoints.tensorflow import read_variables
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas

GOLDEN = ROOT / "tests" / "golden" / "tensorflow"
VALUES = np.load(GOLDEN / "values.npz")
SIZE = EncoderSize(4, 2, 2, 6, 12)


def network(cls=Tapas, activation="gelu_new"):
    return cls(SIZE, attention=Sdpa(), vocab_size=20, activation=activation)


def everything(prefix):
    return read_bundle(prefix, lambda name: True)


def read_or_refuse(prefix):
    try:
        return everything(prefix), ""
    except CheckpointError as error:
        return None, str(error)


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "copy")
    return tmp_path / "copy"


def test_every_value_is_as_tensorflow_wrote_it():
    read = everything(GOLDEN / "model.ckpt")
    assert read.pop("global_step").dtype == torch.int64
    slots = {name for name in read if name.rpartition("/")[2] in ("adam_m", "adam_v")}
    assert {name for name in read if name not in slots} == set(VALUES.files)
    assert len(slots) > 40
    for name in VALUES.files:
        assert read[name].shape == VALUES[name].shape
        assert np.array_equal(read[name].numpy(), VALUES[name]), name


def test_names_and_matrices_are_those_of_torch():
    read = read_variables(GOLDEN / "model.ckpt")
    assert len(read) == len(VALUES.files)
    kernel = VALUES["bert/encoder/layer_1/intermediate/dense/kernel"]
    assert np.array_equal(read["bert.encoder.layer.1.intermediate.dense.weight"].numpy(), kernel.T)
    words = VALUES["bert/embeddings/word_embeddings"]
    assert np.array_equal(read["bert.embeddings.word_embeddings.weight"].numpy(), words)
    assert np.array_equal(read["classifier.weight"].numpy(), VALUES["output_weights_cls"])
    assert np.array_equal(read["aggregation_classifier.bias"].numpy(), VALUES["output_bias_agg"])


@pytest.mark.parametrize("name", ["", "model.ckpt", "model.ckpt.index", "model.ckpt.data-00000-of-00001"])
@pytest.mark.parametrize("kind", ["tapas", "path"])
@pytest.mark.parametrize("cls", [Tapas, MateEncoder])
def test_a_network_is_filled_from_a_folder_or_a_prefix(name, kind, cls):
    model = network(cls)
    report = InitialWeights(kind, str(GOLDEN / name)).load(model)
    assert not report.new
    assert len(report.loaded) == len(VALUES.files) - 8
    assert set(report.unused) == {
        *("output_weights", "output_bias", "column_output_weights", "column_output_bias"),
        *(f"{head}.{part}" for head in ("classifier", "aggregation_classifier") for part in ("weight", "bias")),
    }
    state = model.state_dict()
    for layer in range(2):
        for part in ("query", "key", "value"):
            expected = VALUES[f"bert/encoder/layer_{layer}/attention/self/{part}/kernel"].T
            assert np.array_equal(state[f"encoder.layer.{layer}.attention.self.{part}.weight"].numpy(), expected)
    ranks = VALUES["bert/embeddings/token_type_embeddings_4"]
    assert np.array_equal(state["embeddings.token_type_embeddings_4.weight"].numpy(), ranks)
    gamma = VALUES["bert/encoder/layer_1/output/LayerNorm/gamma"]
    assert np.array_equal(state["encoder.layer.1.output.LayerNorm.weight"].numpy(), gamma)


def test_the_reference_s_own_outputs_from_its_variables(tmp_path):
    variables = {name: golden.WEIGHTS[name] for name in golden.WEIGHTS.files if "/proj_seq" not in name}
    slots = {f"{name}/adam_m": np.zeros_like(value) for name, value in variables.items()}
    write(tmp_path, variables | slots)
    model = Tapas(golden.SIZE, attention=Sdpa(), vocab_size=50, activation="gelu_new", attention_dropout=0.0)
    report = InitialWeights("tapas", str(tmp_path / "model.ckpt")).load(model)
    assert not report.new
    assert all("relative_bias_table" in name for name in report.unused)
    golden.assert_same(*golden.beside("full", model.eval(), reset=False))
    golden.assert_same(*golden.beside("full_reset", model.eval(), reset=True))


def test_what_does_not_fit_is_named():
    with pytest.raises(CheckpointError, match=r"activation is gelu_new, .* Set model.activation=gelu_new"):
        InitialWeights("tapas", str(GOLDEN)).load(network(activation="gelu"))
    with pytest.raises(CheckpointError, match="size is 4 wide, 2 layers, 2 heads, 6 inside"):
        InitialWeights("tapas", str(GOLDEN)).load(Tapas("tiny", attention=Sdpa(), vocab_size=20))


def test_several_checkpoints_in_a_folder(copy):
    for file in list(copy.glob("model.ckpt.*")):
        shutil.copy(file, copy / file.name.replace("model.ckpt", "model.ckpt-7"))
    with pytest.raises(CheckpointError, match=r"it has 2 .* Name one of them, such as .*model.ckpt"):
        InitialWeights("tapas", str(copy)).load(network())
    assert not InitialWeights("tapas", str(copy / "model.ckpt-7")).load(network()).new


def test_a_folder_without_any(tmp_path):
    assert find_bundle(tmp_path) is None
    assert find_bundle(tmp_path / "model.ckpt") is None
    with pytest.raises(CheckpointError, match="no weights at"):
        InitialWeights("path", str(tmp_path / "model.ckpt")).load(network())


def test_missing_data(copy):
    (copy / "model.ckpt.data-00000-of-00001").unlink()
    with pytest.raises(CheckpointError, match=r"data-00000-of-00001: .*no such file"):
        InitialWeights("tapas", str(copy)).load(network())


def test_damaged_configuration(copy):
    (copy / "bert_config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"bert_config.json: not readable as JSON"):
        InitialWeights("tapas", str(copy)).load(network())


def test_without_the_package_that_checks(monkeypatch):
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(MissingDependencyError, match=r"pip install google-crc32c"):
        everything(GOLDEN / "model.ckpt")


@given(
    part=st.sampled_from(["index", "data-00000-of-00001"]),
    place=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)
def test_one_turned_bit_is_never_taken_for_a_weight(tmp_path_factory, part, place, bit):
    folder = tmp_path_factory.mktemp("turned")
    for file in GOLDEN.glob("model.ckpt.*"):
        shutil.copy(file, folder)
    file = folder / f"model.ckpt.{part}"
    content = bytearray(file.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    file.write_bytes(content)
    read, message = read_or_refuse(folder / "model.ckpt")
    assert "\n" not in message
    if read is not None:  # the bytes that fill up the footer
        assert part == "index"
        assert all(np.array_equal(read[name].numpy(), VALUES[name]) for name in VALUES.files)


@given(part=st.sampled_from(["index", "data-00000-of-00001"]), share=st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut(tmp_path_factory, part, share):
    folder = tmp_path_factory.mktemp("cut")
    for file in GOLDEN.glob("model.ckpt.*"):
        shutil.copy(file, folder)
    file = folder / f"model.ckpt.{part}"
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="cannot be read"):
        everything(folder / "model.ckpt")


NUMBERS = {f"layer_{i}/{part}": np.full((2, i + 1), i, np.float32) for i in range(9) for part in ("kernel", "bias")}


@pytest.mark.parametrize(
    "options", [{"snappy": True}, {"blocks": 3}, {"shards": 2}, {"snappy": True, "blocks": 2, "shards": 3}]
)
def test_other_ways_to_store_the_same(tmp_path, options):
    read = everything(write(tmp_path, NUMBERS, **options))
    assert set(read) == set(NUMBERS)
    assert all(np.array_equal(read[name].numpy(), NUMBERS[name]) for name in NUMBERS)


def test_types_of_numbers(tmp_path):
    values = {
        "half": np.float16([1, 2.5]),
        "double": np.float64([[3.25]]),
        "whole": np.int32([4]),
        "none": np.zeros((0, 3)),
    }
    read = everything(write(tmp_path, values, kinds={"half": 19, "double": 2, "whole": 3, "none": 2}))
    assert all(np.array_equal(read[name].numpy(), values[name]) for name in values)
    short = {"short": np.array([0x3F80, 0xC000], np.uint16)}
    assert everything(write(tmp_path, short, kinds={"short": 14}))["short"].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": {"layer_0/bias": 7}}, "layer_0/bias has the type 7, which is not supported"),
        ({"header": field(2, 1)}, "big-endian"),
        ({"compression": 4}, "unknown compression 4"),
        ({"kinds": {"layer_0/bias": 2}}, "has the wrong size"),
        ({"header": field(1, b"two")}, "text in place of a number"),
    ],
)
def test_what_is_not_supported(tmp_path, options, message):
    with pytest.raises(CheckpointError, match=message):
        everything(write(tmp_path, NUMBERS, **options))


def test_a_variable_that_tensorflow_stored_in_slices():
    with pytest.raises(CheckpointError, match="sliced is stored in slices, which is not supported"):
        everything(GOLDEN / "sliced" / "model.ckpt")
    assert read_bundle(GOLDEN / "sliced" / "model.ckpt", lambda name: name != "sliced") == {}


def test_no_index_at_all(tmp_path):
    (tmp_path / "model.ckpt.index").write_bytes(b"something else" * 9)
    with pytest.raises(CheckpointError, match="it is not an index of tensors"):
        everything(tmp_path / "model.ckpt")
