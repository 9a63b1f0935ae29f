"""Pre-training happens at the settings of the reference, and networks differ in themselves only."""

import pytest
from configurations import composed
from omegaconf import OmegaConf

from mate_cli.cli.config_dir import config_dir
from mate_cli.tokenization.masking import MaskingSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


def config(name, *more):
    return composed(config_dir(), "train", [f"experiment={name}", *more])


def test_settings_are_those_of_the_reference():
    mate = config("pretrain_mate")
    assert (mate.trainer.batch_size, mate.trainer.max_steps) == (512, 1_000_000)
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
    if name == "linformer":  # its weights are made for one length, that of the fine-tuning
        fine_tuned = config("hybridqa_linformer").encoding.max_tokens
        assert other["encoding"].pop("max_tokens") == fine_tuned
        assert mate["encoding"].pop("max_tokens") == 128
    assert mate == other


def test_small_scales_take_minutes():
    small = config("pretrain_mate", "scale=small")
    assert small.trainer.max_steps * small.trainer.batch_size <= 20_000
    assert config("pretrain_mate", "scale=minilm").trainer.batch_size == 32
