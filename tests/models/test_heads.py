"""The heads against plain loops, and the span head against google-research/tapas."""

import numpy as np
import pytest
import torch
from golden import tapas
from torch import nn

from mate_cli.lit_modules.span_reading import SpanHead, allowed_spans
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.scores import NO_LOGIT, CellSelectionHead
from mate_cli.tokenization.layout import TableBatch

LOSSES = np.load(tapas("g4_losses.npz"))


def batch_of(rows, columns, mask, labels=None) -> TableBatch:
    rows, columns, mask = (torch.as_tensor(np.asarray(ids), dtype=torch.int64) for ids in (rows, columns, mask))
    zero = torch.zeros_like(rows)
    labels = None if labels is None else torch.as_tensor(np.asarray(labels), dtype=torch.int64)
    return TableBatch(zero, zero, columns, rows, *[zero] * 4, labels, position_ids=zero, attention_mask=mask)


def of(states, batch) -> EncoderOutput:
    return EncoderOutput(states, states[:, 0], batch)


def random_batch(seed: int, tokens: int = 30, examples: int = 3) -> TableBatch:
    random = np.random.default_rng(seed)
    rows, columns = random.integers(0, 4, (examples, tokens)), random.integers(0, 4, (examples, tokens))
    mask, labels = random.integers(0, 5, (examples, tokens)) > 0, random.integers(0, 9, (examples, tokens)) == 0
    return batch_of(rows, columns, mask, labels)


def cells_by_loops(head, states, batch):
    """Per example: {(row, column): (mean score, holds a label)} over body cells."""
    scores = head.score(states)[..., 0].detach()
    found = []
    for i in range(len(scores)):
        tokens: dict = {}
        for t in range(scores.shape[1]):
            row, column = int(batch.row_ids[i, t]), int(batch.column_ids[i, t])
            if row > 0 and column > 0 and batch.attention_mask[i, t]:
                tokens.setdefault((row, column), []).append((float(scores[i, t]), int(batch.label_ids[i, t])))
        found.append({cell: (np.mean([s for s, _ in v]), any(label for _, label in v)) for cell, v in tokens.items()})
    return found


@pytest.mark.parametrize("seed", range(5))
def test_cells_are_the_means_of_their_tokens(seed):
    torch.manual_seed(seed)
    batch, head, states = random_batch(seed), CellSelectionHead(8), torch.randn(3, 30, 8)
    cells = head(of(states, batch))
    expected = cells_by_loops(head, states, batch)
    assert cells.logits.shape[1] == max(map(len, expected))
    for i, wanted in enumerate(expected):
        names = list(zip(cells.rows[i].tolist(), cells.columns[i].tolist(), strict=True))
        assert names[: len(wanted)] == sorted(wanted)
        assert cells.mask[i].tolist() == [k < len(wanted) for k in range(len(names))]
        for k, name in enumerate(sorted(wanted)):
            assert cells.logits[i, k].item() == pytest.approx(wanted[name][0], abs=1e-5)
            assert cells.candidates[i, k].item() == wanted[name][1]
        assert (cells.logits[i, len(wanted) :] == NO_LOGIT).all()
        assert not cells.candidates[i, len(wanted) :].any()


def test_header_question_and_padding_are_no_cells():
    batch = batch_of([[0, 0, 1, 1, 2]], [[0, 1, 1, 1, 1]], [[1, 1, 1, 1, 0]])
    states = torch.randn(1, 5, 4)
    head = CellSelectionHead(4)
    cells = head(of(states, batch))
    assert cells.rows.tolist() == [[1]]
    assert not cells.candidates.any()
    cells.logits.sum().backward()
    torch.testing.assert_close(head.score.weight.grad[0], states[0, 2:4].mean(0))


def test_a_batch_without_cells_has_one_empty_place():
    cells = CellSelectionHead(4)(of(torch.randn(2, 3, 4), batch_of(*np.zeros((2, 2, 3)), np.ones((2, 3)))))
    assert cells.logits.tolist() == [[NO_LOGIT], [NO_LOGIT]]
    assert not cells.mask.any()


def test_linear_spans_equal_the_reference():
    batch = batch_of(LOSSES["in/row_ids"], LOSSES["in/column_ids"], LOSSES["in/input_mask"])
    states = torch.from_numpy(LOSSES["in/x"])
    head = SpanHead(16, layers=1)
    weights = torch.from_numpy(LOSSES["weights/loss/span_output_weights"])
    with torch.no_grad():
        head.start.weight.copy_(weights[None, :16])
        head.end.weight.copy_(weights[None, 16:])
        head.start.bias.fill_(float(LOSSES["weights/loss/span_output_bias"]))
        logits = head(of(states, batch))
    starts, ends = LOSSES["span/span_indexes"][0].T
    ours = logits[:, starts, ends - starts].numpy()
    forbidden = LOSSES["span/span_logits"] < -5000
    assert (~forbidden).any()
    assert np.array_equal(ours == NO_LOGIT, forbidden)
    np.testing.assert_allclose(ours[~forbidden], LOSSES["span/span_logits"][~forbidden], atol=2e-5, rtol=1e-4)
    beyond = torch.arange(32)[:, None] + torch.arange(10) >= 32
    assert (logits[:, beyond] == NO_LOGIT).all()


def test_an_mlp_on_spans_equals_the_mlp_on_concatenated_states():
    torch.manual_seed(0)
    batch, states, head = random_batch(1), torch.randn(3, 30, 8, requires_grad=True), SpanHead(8, max_length=4)
    logits = head(of(states, batch))
    first = nn.Linear(16, 8)
    with torch.no_grad():
        first.weight.copy_(torch.cat([head.start.weight, head.end.weight], dim=1))
        first.bias.copy_(head.start.bias)
    allowed = allowed_spans(batch, 4)
    assert allowed[:, :, 1:].any()
    for i, t, length in allowed.nonzero().tolist():
        pair = torch.cat([states[i, t], states[i, t + length]])
        torch.testing.assert_close(logits[i, t, length], head.score(first(pair))[0])
    logits[allowed].sum().backward()
    assert states.grad.isfinite().all()


def test_spans_stay_within_one_body_cell():
    batch = batch_of([[0, 0, 1, 1, 1, 1, 0]], [[0, 1, 1, 1, 2, 2, 0]], [[1, 1, 1, 1, 1, 0, 0]])
    allowed = allowed_spans(batch, 3)[0].tolist()
    no, one, two = [False] * 3, [True, False, False], [True, True, False]
    assert allowed == [no, no, two, one, one, no, no]
