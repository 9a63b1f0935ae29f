"""Sweeps of the DT-Fixup paper train the rows of its tables: depths, rates, warm-up, first weights, sizes."""

import itertools

import pytest
import torch
import yaml
from configurations import composed, sweep_jobs

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.config_dir import config_dir
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.papers.dt_fixup.models.extra import Extra
from mate_cli.papers.dt_fixup.models.relation_aware import RelationAware
from mate_cli.papers.dt_fixup.sql_parsing import SqlParsing

ROBERTA_PIECES = 50265
LARGE = ("roberta", "FacebookAI/roberta-large", "large", 1e-5)


def jobs(sweep, *more):
    """The configurations of a sweep, one for each seed's job."""
    file = config_dir() / "sweep" / f"{sweep}.yaml"
    seeds = str(yaml.safe_load(file.read_text(encoding="utf-8"))["hydra"]["sweeper"]["params"].get("seed", "1"))
    assert seeds == ("1" if sweep == "dt_fixup_grid" else "1,2,3,4,5")
    return [composed(config_dir(), "train", [*words, *more]) for words in sweep_jobs(file, ["seed=1"])]


def row(config):
    """What a row of tables 2, 4, 5 and 7 differs in."""
    extra = config.model.extra or {}
    return extra.get("layers", 0), extra.get("scheme"), config.scheduler.warmup


def rates(config):
    """Of new layers and of the encoder."""
    return config.optimizer.lr, pytest.approx(config.optimizer.lr * config.optimizer.factors.pretrained, rel=1e-4)


def first_weights(config):
    return config.init.kind, config.init.checkpoint, config.model.size, config.model.layer_norm_epsilon


STANDARD, FIXED = ("standard", 0.1), ("dt_fixup", 0.0)


@pytest.mark.long
def test_table_5_on_spider():
    found = jobs("spider_depth")
    depths = (2, 4, 8, 16, 24, 32)
    assert sorted(map(row, found)) == sorted((depth, *scheme) for depth in depths for scheme in (STANDARD, FIXED))
    for config in found:
        assert first_weights(config) == LARGE
        assert (rates(config), config.trainer.max_epochs, config.encoding.shuffle) == ((4e-4, 3.2e-6), 60, True)


@pytest.mark.long
def test_table_5_on_reclor():
    found = jobs("dt_fixup_depth")
    assert sorted(map(row, found)) == sorted((depth, *scheme) for depth in (4, 8, 16) for scheme in (STANDARD, FIXED))
    for config in found:
        assert first_weights(config) == LARGE
        assert (config.data.name, rates(config), config.trainer.max_epochs) == ("reclor", (1e-4, 1e-5), 12)


def test_table_4():
    found = jobs("reclor_table4")
    assert [row(config) for config in found] == [(0, None, 0.1), (4, *STANDARD), (4, *FIXED)]
    assert [rates(config) for config in found] == [(1e-5, 1e-5), (3e-4, 1e-5), (3e-4, 1e-5)]
    assert {first_weights(config) for config in found} == {LARGE}


@pytest.mark.long
def test_the_grid_of_appendix_c5():
    found = jobs("dt_fixup_grid")
    searched = {
        (config.optimizer.lr, config.model.extra.input_dropout, config.task.dropout, config.task.smoothing)
        for config in found
    }
    grid = itertools.product((4e-4, 5e-4, 6e-4, 7e-4, 8e-4), (0.3, 0.4, 0.5, 0.6), (0.0, 0.1, 0.2))
    assert searched == {(rate, dropout, dropout, smoothing) for rate, dropout, smoothing in grid}
    assert len(found) == len(searched) == 60
    assert {row(config) for config in found} == {(24, *FIXED)}


def test_the_parser_has_as_many_layers_and_parameters_as_the_paper_says():
    """48 layers, and "around 380 million" parameters (appendix C.5)."""
    config = composed(config_dir(), "train", ["experiment=spider_sql"])
    options = {key: value for key, value in config.model.extra.items() if key != "_target_"}
    with torch.device("meta"):
        encoder = RelationAware(
            config.model.size, attention=Sdpa(), vocab_size=ROBERTA_PIECES, extra=Extra(**options), pooler=False
        )
        task = SqlParsing(TaskContext(encoder))
    assert len(encoder.encoder.layers) == len(encoder.extra.encoder.layers) == 24
    assert sum(parameter.numel() for parameter in task.parameters()) == pytest.approx(380e6, rel=0.02)
