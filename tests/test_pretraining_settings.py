"""Pre-training happens at the settings of the reference, and networks differ in themselves only."""

import pytest
from configurations import composed
from omegaconf import OmegaConf

from mate_cli.cli.config_dir import config_dir
from mate_cli.tokenization.serializers.masking import MaskingSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

LONG = {"linformer": 128, "etc": 32}
"""Examples in a step of the networks that are pre-trained at the length of their fine-tuning."""


def config(name, *more):
    return composed(config_dir(), "train", [f"experiment={name}", *more])


def test_settings_are_those_of_the_reference():
    mate = config("pretrain_mate")
    assert (mate.trainer.batch_size, mate.trainer.max_steps, mate.model.size) == (512, 1_000_000, "large")
    assert (mate.optimizer.lr, mate.scheduler.warmup) == (5e-5, 0.01)
    options = {name: value for name, value in mate.encoding.items() if name != "_target_"}
    own = MaskingSerializer(load_tokenizer("sample"), **options)
    assert (own.max_tokens, own.most_predictions, own.share) == (128, 20, 0.15)
    assert (own.min_text, own.max_text, own.whole_cells) == (8, 32, True)


def test_the_tables_of_all_evaluation_splits_are_left_out():
    assert config("pretrain_mate").data.exclude is None


@pytest.mark.parametrize("name", ["tapas", "sat", "etc", "linformer"])
def test_other_networks_differ_in_the_network_only(name):
    mate, other = (OmegaConf.to_container(config(f"pretrain_{one}"), resolve=True) for one in ("mate", name))
    assert mate.pop("model")["_target_"] != other.pop("model")["_target_"]
    if name in LONG:  # appendix A.1 of the MATE paper
        fine_tuned = config(f"hybridqa_{name}").encoding.max_tokens
        assert (other["encoding"].pop("max_tokens"), mate["encoding"].pop("max_tokens")) == (fine_tuned, 128)
        assert (other["trainer"].pop("batch_size"), other["trainer"].pop("max_steps")) == (LONG[name], 2_000_000)
        del mate["trainer"]["batch_size"], mate["trainer"]["max_steps"]
    assert mate == other


@pytest.mark.parametrize(("name", "tokens"), [("mate", 128), ("etc", 128), ("linformer", 512)])
def test_small_scales_take_minutes(name, tokens):
    small, minilm = (config(f"pretrain_{name}", f"scale={scale}") for scale in ("small", "minilm"))
    assert small.trainer.max_steps * small.trainer.batch_size <= 20_000
    assert (minilm.trainer.batch_size, minilm.trainer.max_steps) == (32, 20_000)
    assert small.encoding.max_tokens == minilm.encoding.max_tokens == tokens
