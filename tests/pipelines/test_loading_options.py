"""`from_pretrained` takes what transformers takes, and says what it does not."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel
from transformers import AutoModelForTableQuestionAnswering as ForTables

from mate_cli import Mate
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.auto_classes import MateForTableQuestionAnswering


def test_what_did_not_fit_is_told(exports):
    model, info = ForTables.from_pretrained(exports("cells"), output_loading_info=True)
    assert isinstance(model, MateForTableQuestionAnswering)
    assert not any(info.values())
    _, info = AutoModel.from_pretrained(exports("cells"), output_loading_info=True)
    assert info["unexpected_keys"] == {"head.score.weight", "head.score.bias"}


def test_weights_that_are_missing_damaged_or_pickled_are_refused(exports, tmp_path):
    folder = shutil.copytree(exports("cells"), tmp_path / "cells")
    file = folder / "model.safetensors"
    tensors = {name: tensor for name, tensor in load_file(file).items() if name != "head.score.weight"}
    save_file(tensors, file, {"format": "pt"})
    with pytest.raises(CheckpointError, match=r"the weights lack head\.score\.weight\. Export again"):
        ForTables.from_pretrained(folder)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(CheckpointError, match=r"the weights cannot be loaded: .*Export again"):
        ForTables.from_pretrained(folder)
    file.unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="safetensors"):
        ForTables.from_pretrained(folder, use_safetensors=False)
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, "pytorch_model.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin is not a safetensors file"):
        ForTables.from_pretrained(folder)


def test_weights_of_another_size_are_left_only_on_request(exports):
    size = AutoConfig.from_pretrained(exports("cells")).vocab_size
    with pytest.raises(CheckpointError, match=r"word_embeddings.weight is \(.*, the network's \("):
        ForTables.from_pretrained(exports("cells"), vocab_size=size + 5)
    options = {"vocab_size": size + 5, "ignore_mismatched_sizes": True, "output_loading_info": True}
    model, info = ForTables.from_pretrained(exports("cells"), **options)
    name = "encoder.embeddings.word_embeddings.weight"
    width = model.config.hidden_size
    assert info["mismatched_keys"] == {(name, (size, width), (size + 5, width))}
    plain = ForTables.from_pretrained(exports("cells")).state_dict()
    others = [key for key in plain if key != name]
    assert all(torch.equal(plain[key], model.state_dict()[key]) for key in others)
    size = {"hidden_size": 64, "num_layers": 2, "num_heads": 2, "intermediate_size": 128}
    size["_target_"] = "mate_cli.models.base.sizes.EncoderSize"
    narrow = json.loads(Path(exports("cells"), "config.json").read_text())["model"] | {"size": size}
    model, info = ForTables.from_pretrained(exports("cells"), model=narrow, **options)
    assert any("attention.self.query" in key for key, *_ in info["mismatched_keys"])


def test_types_by_name_and_attention_by_name(exports, given):
    assert MateForTableQuestionAnswering.from_pretrained(exports("cells"), dtype="float16").dtype == torch.float16
    assert ForTables.from_pretrained(exports("cells"), torch_dtype="auto").dtype == torch.float32
    with pytest.raises(ConfigError, match="'float7' is not a type of weights"):
        Mate.from_pretrained(exports("cells"), dtype="float7")
    wanted = ForTables.from_pretrained(exports("cells"))(**given).logits
    for name in ("eager", "sdpa"):
        model = ForTables.from_pretrained(exports("cells"), attn_implementation=name)
        assert {type(spec.backend).__name__.lower() for spec in model.encoder.specs} == {name}
        torch.testing.assert_close(model(**given).logits, wanted, atol=1e-3, rtol=1e-3)
    with pytest.raises(ValueError, match="use eager or sdpa"):
        ForTables.from_pretrained(exports("cells"), attn_implementation="flash_attention_2")


def test_what_is_not_known_is_refused(exports):
    with pytest.raises(TypeError, match="unexpected keyword argument 'load_in_4bit'"):
        MateForTableQuestionAnswering.from_pretrained(exports("cells"), load_in_4bit=True)
