"""`from_pretrained` takes what transformers takes, and says what it does not."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel
from transformers import AutoModelForTableQuestionAnswering as ForTables

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.auto_classes import MateForTableQuestionAnswering

NOTHING = [
    "quantization_config",
    "state_dict",
    "variant",
    "proxies",
    "tp_plan",
    "key_mapping",
]
WITHOUT_EFFECT = {
    "low_cpu_mem_usage": True,
    "weights_only": True,
    "offload_folder": "elsewhere",
    "offload_state_dict": True,
    "use_safetensors": True,
    "max_memory": {"cpu": "1GB"},
}


@pytest.mark.parametrize("load", [ForTables, MateForTableQuestionAnswering])
def test_options_that_change_nothing(exports, load):
    plain = load.from_pretrained(exports("cells")).state_dict()
    for options in (*({name: value} for name, value in WITHOUT_EFFECT.items()), dict.fromkeys(NOTHING)):
        found = load.from_pretrained(Path(exports("cells")), **options)
        assert not found.training
        assert all(torch.equal(tensor, plain[name]) for name, tensor in found.state_dict().items())


def test_what_did_not_fit_is_told(exports):
    model, info = ForTables.from_pretrained(exports("cells"), output_loading_info=True)
    assert isinstance(model, MateForTableQuestionAnswering)
    assert not any(info.values())
    _, info = AutoModel.from_pretrained(exports("cells"), output_loading_info=True)
    assert info["unexpected_keys"] == {"head.score.weight", "head.score.bias"}


def test_weights_of_another_size_are_left_only_on_request(exports):
    size = AutoConfig.from_pretrained(exports("cells")).vocab_size
    with pytest.raises(CheckpointError, match="size mismatch for encoder"):
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
        MateForTableQuestionAnswering.from_pretrained(exports("cells"), dtype="float7")
    wanted = ForTables.from_pretrained(exports("cells"))(**given).logits
    for name in ("eager", "sdpa"):
        model = ForTables.from_pretrained(exports("cells"), attn_implementation=name)
        assert {type(spec.backend).__name__.lower() for spec in model.encoder.specs} == {name}
        torch.testing.assert_close(model(**given).logits, wanted, atol=1e-3, rtol=1e-3)
    with pytest.raises(ValueError, match="use eager or sdpa"):
        ForTables.from_pretrained(exports("cells"), attn_implementation="flash_attention_2")


def test_a_configuration_of_ones_own(exports, tmp_path):
    config = AutoConfig.from_pretrained(exports("cells"), output_hidden_states=True)
    model = MateForTableQuestionAnswering.from_pretrained(exports("cells"), config=config)
    assert model.config.output_hidden_states
    assert model.config is not config
    shutil.copy(Path(exports("cells"), "config.json"), tmp_path)
    elsewhere = MateForTableQuestionAnswering.from_pretrained(exports("cells"), config=tmp_path)
    assert elsewhere.name_or_path == exports("cells")


def test_what_is_not_known_is_refused(exports):
    for option, value in (("load_in_4bit", True), ("key_mapping", {"a": "b"}), ("variant", "fp16")):
        for name in (exports("cells"), "nowhere/there"):  # before the hub is asked
            with pytest.raises(TypeError, match=f"does not accept {option}"):
                MateForTableQuestionAnswering.from_pretrained(name, **{option: value})
    assert MateForTableQuestionAnswering.from_pretrained(
        exports("cells"), output_attentions=True
    ).config.output_attentions
