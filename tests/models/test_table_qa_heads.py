"""The heads of table questions and statements; their numbers against the reference are in test_table_qa_losses.py."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import batch_from

from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.cell_grid import CellGrid
from mate_cli.models.heads.scores import NO_LOGIT, ClassHead
from mate_cli.models.heads.table_answer import HeadOptions, TableAnswerHead
from mate_cli.tokenization.layout import SUMMARY_ROW

ROWS = [[0, 0, 0, 0, 1, 1, 1, 2, 2, 0]]
COLUMNS = [[0, 0, 1, 2, 1, 1, 2, 1, 2, 0]]
BATCH = batch_from(ROWS, COLUMNS, [[0, 0, 1, 1, 1, 1, 1, 1, 1, 0]], [[1] * 9 + [0]])
"""A question of two tokens and two columns of two rows, the first cell of two tokens; then padding."""


def output() -> EncoderOutput:
    generator = torch.Generator().manual_seed(0)
    return EncoderOutput(torch.randn(1, 10, 8, generator=generator), torch.randn(1, 8, generator=generator), BATCH)


def head_options(**chosen) -> HeadOptions:
    usual = {"temperature": 1.0, "select_one_column": True, "allow_empty_column_selection": False, "max_rows": 64}
    usual |= {"average_logits_per_cell": False, "zero_cell_head": False, "aggregations": 0, "max_columns": 32}
    return HeadOptions(**usual | chosen)


def fixed(token_scores, column_scores, **options) -> tuple[TableAnswerHead, EncoderOutput]:
    """A head whose token and column scores are these: they are the first two entries of the states."""
    head = TableAnswerHead(8, head_options(**options))
    states = torch.zeros(1, 10, 8)
    states[0, :, 0], states[0, :, 1] = torch.tensor(token_scores), torch.tensor(column_scores)
    with torch.no_grad():
        for place, layer in enumerate([head.cells, head.columns]):
            if layer is not None:
                layer.weight.copy_(torch.eye(8)[place])
    return head, EncoderOutput(states, torch.zeros(1, 8), BATCH)


SCORES = [9.0, 9.0, 1.0, 1.0, 1.0, 3.0, -1.0, -2.0, 4.0, 9.0]


def test_only_cells_of_the_best_column_keep_their_scores():
    head, states = fixed(SCORES, [50.0, 50.0, 0.0, 0.0, 2.0, 2.0, 1.0, 0.0, 0.0, 50.0])
    logits = head(states)
    assert logits.columns[0, :3].tolist() == pytest.approx([50 + NO_LOGIT, 2 / 3, 1 / 3])
    assert (logits.columns[0, 3:] == NO_LOGIT).all()
    final = logits.final()[0].tolist()
    assert final[2:9] == pytest.approx([1, 1 + NO_LOGIT, 2, 2, -1 + NO_LOGIT, -2, 4 + NO_LOGIT], abs=1e-3)
    probabilities = logits.probabilities()[0]
    assert (probabilities[torch.tensor([0, 1, 3, 6, 8, 9])] == 0).all()
    assert probabilities[4].item() == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-6)


def test_no_column_is_chosen_only_where_that_is_allowed():
    columns = [50.0, 50.0] + [0.0] * 8
    for allowed in (False, True):
        head, states = fixed(SCORES, columns, allow_empty_column_selection=allowed)
        logits = head(states)
        assert (logits.columns.argmax(-1).item() == 0) is allowed
        assert (logits.probabilities().max().item() == 0) is allowed


def test_free_scores_are_those_of_tokens_divided_by_the_temperature():
    head, states = fixed(SCORES, [0.0] * 10, select_one_column=False, temperature=0.5)
    logits = head(states)
    assert logits.columns is None
    assert logits.final()[0].tolist() == pytest.approx([2 * score for score in SCORES])
    assert logits.probabilities()[0, 9] == 0, "padding"


def test_scores_averaged_per_cell():
    head, states = fixed(SCORES, [0.0] * 10, select_one_column=False, average_logits_per_cell=True)
    assert head(states).tokens[0, :9].tolist() == pytest.approx([9, 9, 1, 1, 2, 2, -1, -2, 4])


def test_rows_and_columns_beyond_the_grid_share_its_last():
    head, states = fixed(SCORES, [0.0] * 10, max_rows=2, max_columns=2)
    logits = head(states)
    body = [1.0, 3.0, -1.0, -2.0, 4.0]
    assert logits.grid.means(logits.tokens)[0].tolist() == [[9.0, 1.0], [0.0, pytest.approx(np.mean(body))]]


@pytest.mark.parametrize("zero", [False, True])
def test_all_may_begin_with_the_same_score(zero):
    torch.manual_seed(0)
    head = TableAnswerHead(8, head_options(zero_cell_head=zero, aggregations=4))
    logits = head(output())
    assert bool((logits.tokens == 0).all()) is zero
    assert bool((logits.columns[0, 1:3] == 0).all()) is zero
    assert not (logits.aggregation == 0).any(), "aggregations never do"


def test_weights_are_drawn_as_the_reference_draws_them():
    torch.manual_seed(0)
    head = ClassHead(512, 200)
    assert head.weight.std().item() == pytest.approx(0.0176, abs=2e-4), "a normal of 0.02, cut at twice that"
    assert head.weight.abs().max() <= 0.04
    assert not head.bias.any()


def test_scores_have_32_bits_under_autocast():
    head = TableAnswerHead(8, head_options(aggregations=4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = head(output())
    assert {part.dtype for part in (logits.tokens, logits.columns, logits.aggregation)} == {torch.float32}


def test_what_is_said_of_whole_columns_is_in_no_cell():
    summary = replace(BATCH, row_ids=torch.where(BATCH.row_ids == 2, SUMMARY_ROW, BATCH.row_ids))
    grid = CellGrid.of(summary, 64, 32)
    assert grid.sizes.sum() == 7
    assert not grid.exists[0, 2:].any()


def test_a_table_without_body_chooses_nothing_and_stays_finite():
    bare = replace(BATCH, row_ids=torch.zeros_like(BATCH.row_ids), column_ids=torch.zeros_like(BATCH.column_ids))
    logits = TableAnswerHead(8, head_options())(output()._replace(batch=bare))
    assert logits.final().isfinite().all()
    assert not logits.probabilities().any()
