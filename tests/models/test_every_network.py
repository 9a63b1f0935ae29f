"""What every network in conf/model must do; a new file there is tested by all that follows."""

import copy
from dataclasses import replace

import hydra
import numpy as np
import pytest
import torch
from batches import batch_from, one_table, pad
from golden import ROOT
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.layers.low_rank import Lora, add_adapters, merge_state
from mate_cli.tokenization.serializers.lexical import FEATURES

OF_NODES = ("relation_aware",)
"""They read more than tables, and have tests of their own."""
PATHS = [path for path in sorted((ROOT / "conf" / "model").glob("*.yaml")) if path.stem not in OF_NODES]
NETWORKS = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
LENGTH = 80


def make(path, seed=0, **options):
    torch.manual_seed(seed)
    config = OmegaConf.create({"encoding": {"max_tokens": LENGTH}, "model": OmegaConf.load(path)}).model
    for inner in (node for node in config.values() if OmegaConf.is_dict(node) and "size" in node):
        inner.size = "tiny"
    return hydra.utils.instantiate(config, size="tiny", attention=Sdpa(), vocab_size=99, **options).eval()


def examples(extra=0, tables=((4, 3, 3, 2), (2, 5, 2, 3), (6, 1, 4, 4))):
    """Tables of random words; the last cell of each holds the answer."""
    random = np.random.default_rng(0)
    batch = pad([one_table(random, *table) for table in tables], extra)
    shape = batch.input_ids.shape
    words = np.random.default_rng(1).integers(1, 99, (len(tables), LENGTH))[:, : shape[1]]
    last = batch.attention_mask.sum(1, keepdim=True) - 1
    answers = (batch.row_ids == batch.row_ids.gather(1, last)) & (batch.column_ids == batch.column_ids.gather(1, last))
    names = ("row_ids", "column_ids", "segment_ids", "attention_mask")
    places = np.broadcast_to(np.arange(shape[1]), shape) % 512
    ids = [getattr(batch, name) for name in names]
    batch = batch_from(*ids, input_ids=words, position_ids=places, label_ids=answers)
    return replace(batch, cell_features=features(batch))


def features(batch):
    """What a network over cells reads in place of words; numbers that follow from the words."""
    words = batch.input_ids.unsqueeze(-1) * torch.linspace(0.1, 3, len(FEATURES))
    return words.sin() * batch.attention_mask.unsqueeze(-1)


@NETWORKS
def test_states_of_padding_are_zero_and_padding_changes_nothing(path):
    model, short, long = make(path), examples(), examples(extra=9)
    length, real = short.input_ids.shape[1], short.attention_mask == 1
    expected, got = model(short), model(long)
    assert expected.states.shape == (*real.shape, 128)
    assert not got.states[long.attention_mask == 0].any()
    torch.testing.assert_close(got.states[:, :length][real], expected.states[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.pooled, expected.pooled, atol=1e-5, rtol=1e-5)


@NETWORKS
def test_padding_gets_no_gradient(path):
    model, batch = make(path), examples(extra=9)
    real = batch.attention_mask == 1
    words = torch.where(real, batch.input_ids.clamp(max=97), 98)
    read = features(batch).requires_grad_()
    model(replace(batch, input_ids=words, cell_features=read)).states.pow(3).sum().backward()
    gradients = [p.grad for name, p in model.named_parameters() if name.endswith("word_embeddings.weight")]
    for gradient in gradients:
        assert not gradient[98].any()
        assert gradient[words[real].unique()].any(-1).all()
    assert gradients or read.grad[real].any()
    assert read.grad is None or not read.grad[~real].any()


@pytest.mark.sampled(2)
@NETWORKS
def test_an_example_does_not_know_its_batch(path):
    model, tables = make(path), ((4, 3, 3, 2), (2, 5, 2, 3))
    batch, other = examples(tables=tables), examples(tables=tables)
    other.input_ids[1] = 7
    other = replace(other, cell_features=features(other))
    real = batch.attention_mask[0] == 1
    torch.testing.assert_close(model(other).states[0][real], model(batch).states[0][real])
    assert not torch.equal(model(other).states[1], model(batch).states[1])


@pytest.mark.sampled(3)
@NETWORKS
def test_preparing_a_batch_ahead_changes_nothing(path):
    model, batch = make(path), examples()
    assert torch.equal(model(model.planner(batch)).states, model(batch).states)


@pytest.mark.sampled(3)
@NETWORKS
def test_every_weight_learns(path):
    """Backward reaches all weights but those of the pooler, which cell selection does not use."""
    model = make(path)
    model(examples()).states.pow(3).sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None]
    assert still == ["pooler.dense.weight", "pooler.dense.bias"]


@pytest.mark.sampled(3)
@NETWORKS
def test_saved_weights_come_back(path, tmp_path):
    model, batch = make(path), examples()
    save_file(model.state_dict(), tmp_path / "weights.safetensors")
    again = make(path, seed=1)
    assert not torch.equal(again(batch).states, model(batch).states)
    again.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(again(batch).states, model(batch).states)
    assert torch.equal(copy.deepcopy(again)(batch).states, model(batch).states)


@pytest.mark.sampled(3)
@NETWORKS
def test_recomputing_layers_gives_the_same_gradients(path):
    found = []
    for checkpointing in (False, True):
        model = make(path, gradient_checkpointing=checkpointing).train()
        torch.manual_seed(3)
        model(examples()).states.pow(3).sum().backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    torch.testing.assert_close(*found)


@pytest.mark.sampled(3)
@NETWORKS
def test_bfloat16_stays_near(path):
    model, batch = make(path), examples()
    with torch.autocast("cpu", torch.bfloat16):
        states = model(batch).states
    torch.testing.assert_close(states.float(), model(batch).states, atol=0.1, rtol=0.1)


@pytest.mark.trains
@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_twenty_steps_learn_three_tables_by_heart(path):
    batch = examples()
    task = CellSelection(TaskContext(make(path, hidden_dropout=0.0, attention_dropout=0.0)), dropout=0.0)
    optimizer = torch.optim.AdamW(task.parameters(), lr=1e-3)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = task.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 1.2
    assert losses[-1] < 0.1


@pytest.mark.parametrize("path", [path for path in PATHS if path.stem in ("etc", "linformer")], ids=lambda p: p.stem)
def test_weights_of_single_keys_are_refused_where_there_are_none(path):
    model = make(path)
    with pytest.raises(ConfigError, match="does not support weights of single keys"):
        model.encoder(torch.zeros(1, 128), model.plans(examples()), torch.zeros(1))


READERS = pytest.mark.parametrize(
    "path", [path for path in PATHS if "lexical_features" in path.read_text()], ids=lambda path: path.stem
)


@READERS
def test_lexical_features_reach_the_states_where_they_are_asked_for(path):
    batch = examples()
    other = replace(batch, cell_features=batch.cell_features + 1)
    model, plain = make(path, lexical_features=True), make(path)
    assert not torch.equal(model(other).states, model(batch).states)
    assert torch.equal(plain(other).states, plain(batch).states)
    with pytest.raises(ConfigError, match=r"encoding\.lexical_features"):
        model(replace(batch, cell_features=None))


@pytest.mark.sampled(3)
@NETWORKS
def test_norms_take_the_epsilon_of_the_weights(path):
    """RoBERTa's is another one than BERT's; a network that reads no words begins with neither."""
    if path.stem == "lexical":
        pytest.skip("it reads no words")
    assert OmegaConf.load(path).layer_norm_epsilon == 1e-12
    norms = [
        (name, norm)
        for name, norm in make(path, layer_norm_epsilon=1e-5).named_modules()
        if isinstance(norm, torch.nn.LayerNorm) and not name.startswith(("extra.", "slot_embeddings."))  # new ones
    ]
    assert norms
    assert [name for name, norm in norms if norm.eps != 1e-5] == []


@pytest.mark.sampled(3)
@NETWORKS
def test_adapters_of_every_network_merge_into_weights_that_compute_the_same(path):
    model, plain, batch = make(path), make(path), examples()
    plain.load_state_dict(model.state_dict())
    add_adapters(model, Lora(2), {name for name, _ in model.named_parameters()})
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model(batch).states.pow(3).sum().backward()
    with torch.no_grad():
        for parameter in learnt:
            parameter.add_(0.01)
    expected = model(batch).states
    plain.load_state_dict(merge_state(model.state_dict(), model.lora.scale or Lora(2).scale))
    torch.testing.assert_close(plain(batch).states, expected, atol=1e-4, rtol=1e-4)
    assert learnt
    assert all(parameter.grad is not None for parameter in learnt)
