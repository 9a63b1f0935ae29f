"""SAT: against google-research/tapas, and what reaches what through its layers."""

import pytest
import torch
from batches import batch_from, exact_backends
from safetensors.torch import save_file
from test_encoder_golden import SIZE as GOLDEN_SIZE
from test_encoder_golden import assert_same, beside, network

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.patterns import SameRowOrColumn
from mate_cli.lit_modules.span_reading import allowed_spans
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.heads.scores import CellSelectionHead
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.sat import Sat
from mate_cli.tokenization.layout import SUMMARY_ROW

BACKENDS = exact_backends(SameRowOrColumn(GOLDEN_SIZE.num_heads))


def table(rows=3, columns=3, question=2):
    """Int [1, T] ids of a question, a header and one token in every cell."""
    cells = [(0, 0, 0)] * question
    cells += [(1, row, column) for row in range(rows + 1) for column in range(1, columns + 1)]
    segments, row_ids, column_ids = ([[cell[i] for cell in cells]] for i in range(3))
    return batch_from(row_ids, column_ids, segments, [[1] * len(cells)], input_ids=[range(1, len(cells) + 1)])


def make(variant, layers=1, **options):
    torch.manual_seed(0)
    return Sat(EncoderSize(16, layers, 2, 32, 40), attention=Sdpa(), vocab_size=50, variant=variant, **options).eval()


def reached(model, batch, token):
    """Which tokens' states change with the word of one token."""
    words = batch.input_ids.clone()
    words[:, token] = 49
    changed = batch_from(batch.row_ids, batch.column_ids, batch.segment_ids, batch.attention_mask, input_ids=words)
    with torch.no_grad():
        difference = model(changed).states - model(batch).states
    return difference.abs().amax(-1)[0] > 1e-7


@pytest.mark.parametrize("name", BACKENDS)
def test_the_tapas_variant_is_the_reference(name):
    assert_same(*beside("same", network(Sat, BACKENDS[name]), reset=False))


@pytest.mark.parametrize("variant", ["tapas", "original"])
def test_one_layer_carries_news_where_its_mask_lets_it(variant):
    model, batch = make(variant), table()
    for token in range(batch.input_ids.shape[1]):
        seen = model.specs[0].pattern.mask(batch)[0, 0, :, token]
        assert torch.equal(reached(model, batch, token), seen)


def test_lower_layers_see_rows_and_upper_layers_columns_too():
    batch = table(question=0)
    cell, below = 2 * 3, 3 * 3  # the first cells of the second and the third row
    two = make("original", layers=2)
    assert reached(two, batch, cell)[below]
    two.encoder.layer = two.encoder.layer[:1]
    assert reached(two, batch, cell).nonzero().flatten().tolist() == [cell, cell + 1, cell + 2]


@pytest.mark.parametrize(("layers", "lower"), [(1, 0), (2, 1), (3, 1), (12, 6)])
def test_the_lower_half_is_the_first(layers, lower):
    model = make("original", layers)
    assert [spec.pattern.columns for spec in model.specs] == [False] * lower + [True] * (layers - lower)


@pytest.mark.parametrize("new_token_types", ["zero", "normal"])
def test_weights_of_bert_leave_nothing_new_in_the_original(tmp_path, new_token_types):
    bert = {name: tensor.clone() for name, tensor in make("original").state_dict().items()}
    segments = bert.pop("embeddings.token_type_embeddings_0.weight")[:2]
    save_file({**bert, "embeddings.token_type_embeddings.weight": segments}, tmp_path / "model.safetensors")
    torch.manual_seed(1)
    model = Sat(EncoderSize(16, 1, 2, 32, 40), attention=Sdpa(), vocab_size=50, variant="original")
    report = InitialWeights("path", str(tmp_path), new_token_types=new_token_types).load(model)
    assert not report.new
    assert not report.unused
    assert torch.equal(model.embeddings.token_type_embeddings_0.weight[:2], segments)


def test_counts_of_columns_reach_their_column_and_nothing_selects_them():
    """A header, a body row and, behind it, what is said of each of two columns."""
    rows, columns = [[0, 0, 1, 1, SUMMARY_ROW, SUMMARY_ROW]], [[1, 2, 1, 2, 1, 2]]
    batch = batch_from(rows, columns, [[1] * 6], [[1] * 6], input_ids=[range(1, 7)])
    lower, upper = make("original", layers=2), make("original", layers=2)
    lower.encoder.layer, upper.encoder.layer = lower.encoder.layer[:1], upper.encoder.layer[1:]
    assert reached(lower, batch, 4).tolist() == [False, False, False, False, True, True]
    assert reached(upper, batch, 4).tolist() == [True, False, True, False, True, True]
    cells = CellSelectionHead(16)(lower(batch))
    assert cells.mask.tolist() == [[True, True]]
    assert (cells.rows.tolist(), cells.columns.tolist()) == ([[1, 1]], [[1, 2]])
    spans = allowed_spans(batch, 2)[0, :, 0]
    assert spans.tolist() == [False, False, True, True, False, False]
