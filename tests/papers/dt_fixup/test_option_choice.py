"""Options are chosen by their first tokens, learnt, scored and compared with the commonest place."""

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.candidate_choice import Choice
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.candidates import Candidates
from mate_cli.papers.dt_fixup.models.extra import Extra
from mate_cli.papers.dt_fixup.option_choice import OptionChoice
from mate_cli.papers.dt_fixup.options import OptionSerializer
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.vocabulary import load_tokenizer

OPTIONS = ("red", "green", "blue")


def example(name, label):
    table = Table(name, (Cell("context"),), ((Cell(f"the answer is {name}"),),))
    return TableExample(name, "which?", table, Answer((OPTIONS[label],), label=label), options=OPTIONS)


@pytest.fixture
def task():
    torch.manual_seed(0)
    extra = Extra(layers=2, heads=2, inner=32, input_dropout=0.0)
    vocabulary = load_tokenizer("sample")
    network = Candidates(EncoderSize(32, 1, 2, 32), attention=Sdpa(), vocab_size=vocabulary.vocab_size, extra=extra)
    return OptionChoice(TaskContext(network)).eval(), OptionSerializer(vocabulary)


def test_scores_are_those_of_first_tokens_whatever_stands_beside(task):
    task, serializer = task
    examples = [example("one", 0), example("two", 2)]
    encodings = serializer.encode(examples)
    batch = collate(encodings, reset_positions=True, max_positions=512)
    output = task.encoder(batch)
    found = task.head(output, task.encoder.pooler)
    starts = [int((encodings[0].row_ids == row + 1).argmax()) for row in range(3)]
    expected = task.head.score(output.states[0, starts]).squeeze(-1)
    torch.testing.assert_close(found.logits[0], expected)
    assert found.right.tolist() == [[True, False, False], [False, False, True]]
    alone = collate(encodings[1:], reset_positions=True, max_positions=512)
    torch.testing.assert_close(task.head(task.encoder(alone), task.encoder.pooler).logits[0], found.logits[1])
    expected = torch.nn.functional.cross_entropy(found.logits, torch.tensor([0, 2]))
    torch.testing.assert_close(task.loss(batch), expected)


def test_accuracy_counts_every_question_and_the_floor_is_the_commonest_place(task):
    task, _ = task
    examples = {name: example(name, label) for name, label in (("a", 0), ("b", 2), ("c", 2), ("d", 1))}
    choices = [Choice("a", 0, 0.9), Choice("b", 1, 0.5), Choice("c", 2, 0.5)]
    assert task.score(choices, examples)["accuracy"] == 0.5
    assert task.answers(choices, examples) == {"a": "red", "b": "green", "c": "blue"}
    assert task.baselines(examples, lambda: list(examples.values()))["majority/accuracy"] == 0.5
