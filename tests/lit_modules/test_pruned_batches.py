"""What is said of tokens that a network leaves out, by hand and on the double transformer."""

import math
from dataclasses import replace

import pytest
import torch
from test_dot_tasks import CASES, made

from mate_cli.lit_modules.base import prunings
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.metrics.pruning import Pruning, pruning_scores
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.tokenization.serializers.serializer import OF_ANSWERS

MOST = 200
"""Tokens of an encoding there."""


def given(labels, scores, kept):
    """What a network is given: one token of a question, then five of a table; and that it keeps some of them."""
    _, batch, _ = made(CellSelection)
    batch = batch.keep(torch.arange(6).expand(3, -1))
    column_ids = torch.tensor([[0, 1, 1, 1, 1, 1]]).expand(3, -1)
    names = ("a", "b", "c")
    batch = replace(batch, label_ids=torch.tensor(labels), column_ids=column_ids, places=None, example_ids=names)
    short = batch.keep(torch.tensor(kept))
    return batch, EncoderOutput(torch.zeros(3, 3, 4), torch.zeros(3, 4), short, None, torch.tensor(scores))


def test_answers_that_survive_and_scores_above_the_others():
    labels = [[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1], [0] * 6]
    scores = [[0.0, -1.0, -2.0, -3.0, -4.0, -5.0]] * 3
    batch, output = given(labels, scores, [[0, 1, 2]] * 3)
    assert prunings(batch, output, of_answers=True) == [
        Pruning("a", 3, True, -2.5 + 1.5),  # the token that is gone counts, that of the question does not
        Pruning("b", 3, False, -5.0 + 1.5),
        Pruning("c", 3),
    ]
    assert prunings(batch, output._replace(scores=None), of_answers=True)[:2] == [
        Pruning("a", 3, True),
        Pruning("b", 3, False),
    ]
    assert prunings(batch, output, of_answers=False) == [Pruning(name, 3) for name in "abc"]
    assert prunings(batch, output._replace(batch=batch), of_answers=True) == [], "nothing is left out"


def test_padding_is_no_token():
    batch, output = given([[0, 1, 0, 0, 0, 0]] * 3, [[0.0, -1.0, -3.0, -9.0, -9.0, -9.0]] * 3, [[0, 1, 2]] * 3)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]])
    output = output._replace(batch=replace(output.batch, attention_mask=mask))
    found = prunings(batch, output, of_answers=True)
    assert [(one.kept_tokens, one.score_margin) for one in found] == [(3, 1.0), (2, 0.0), (1, None)]


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("first", [True, False], ids=["first", "learnt"])
def test_every_task_tells_what_is_kept(kind, first):
    task, batch, examples = made(kind, keep=MOST, first=first)
    task.keep_predictions(batch)
    predictions = task.collect_predictions()
    pruned = task.find_prunings(predictions)
    assert list(pruned) == list(examples)
    scores = pruning_scores(pruned.values())
    assert scores["kept_tokens"] == batch.attention_mask.sum().item() / len(examples)
    assert scores.get("kept") == (1.0 if task.spec.label in OF_ANSWERS else None), (
        "all tokens are kept, so are all answers"
    )
    assert math.isfinite(scores.get("score_margin", 0.0))
    if first or kind is Entailment:
        assert "score_margin" not in scores
    elif kind in (CellSelection, TableQA, SpanReading):
        assert scores["score_margin"] != 0


def test_the_first_tokens_lose_answers_behind_them():
    task, batch, examples = made(CellSelection, keep=16, first=True)
    task.keep_predictions(batch)
    pruned = task.find_prunings(task.collect_predictions())
    behind = [(row > 0).nonzero().min().item() >= 16 for row in batch.label_ids]
    assert any(behind)
    assert [one.answer_kept for one in pruned.values()] == [not later for later in behind]
    assert {one.kept_tokens for one in pruned.values()} == {16}
    assert list(pruned) == list(examples)
