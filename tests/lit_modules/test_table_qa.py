"""Answering questions by cells and aggregations, and judging statements, from end to end on made-up tables."""

import math
from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.entailment import Entailment, Verdict
from mate_cli.lit_modules.table_qa import TableAnswer, TableQA, likely_cells
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import REQUIRED, Vocabulary

WORDS = "city people how many live in all mean of which is first oslo rome lima 1 2 3 4 5 6 7 8 9 0 ##0 ? entails"
VOCABULARY = Vocabulary([*REQUIRED, "[EMPTY]", *WORDS.split()])
SERIALIZER = TapasSerializer(VOCABULARY, max_tokens=64, sentences=0)
TABLE = Table(
    "t",
    (Cell("city"), Cell("people")),
    ((Cell("oslo"), Cell("2")), (Cell("rome"), Cell("4")), (Cell("lima"), Cell("9"))),
)


def question(name: str, text: str, answer: Answer | None) -> TableExample:
    return TableExample(name, text, TABLE, answer)


FIRST = question("first", "which city is first ?", Answer(("oslo",), ((0, 0),)))
SUM = question("sum", "how many people live in all ?", Answer(("15",), number=15.0))
TWO = question("two", "people of oslo rome ?", Answer(("6",), number=6.0))
ROME = question("rome", "people of rome ?", Answer(("4",), ((1, 1),)))
AMBIGUOUS = question("ambiguous", "how many live in rome ?", Answer(("4",), ((1, 1),), number=4.0))
WEAK = [ROME, SUM, TWO, AMBIGUOUS]
COUNT = question("count", "how many ?", Answer(("3",), ((0, 0), (1, 0), (2, 0)), aggregation="count"))
NOTHING = question("nothing", "which ?", Answer((), (), aggregation="none"))
LOST = question("lost", "which ?", Answer(("paris",)))


def network(seed: int = 0) -> Tapas:
    torch.manual_seed(seed)
    return Tapas("tiny", attention=Sdpa(), vocab_size=VOCABULARY.vocab_size, hidden_dropout=0.0, attention_dropout=0.0)


def batch_of(examples):
    encodings = SERIALIZER.encode(examples)
    return collate(encodings, reset_positions=False, max_positions=512)


def learnt(task, examples, steps: int, lr: float = 1e-3):
    """The task after some steps on all of the examples at once, and its losses."""
    batch, optimizer, losses = batch_of(examples), torch.optim.Adam(task.parameters(), lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = task.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    task.eval()
    return batch, losses


def by_name(examples):
    return {example.example_id: example for example in examples}


WEAK_OPTIONS = {"aggregation": "weak", "temperature": 0.1, "normalise_answer_loss": True, "dropout": 0.0}


@pytest.mark.trains
def test_weak_supervision_lowers_its_loss_from_any_start():
    """Several selections give the same number, so which of them is found depends on the seed, but not the loss."""
    task = TableQA(TaskContext(network()), **WEAK_OPTIONS)
    assert task.training_examples([*WEAK, LOST, NOTHING]) == WEAK
    batch, losses = learnt(task, WEAK, 80)
    assert losses[-1] < 0.2 * losses[0]
    assert task.answers(task.predict(batch), by_name(WEAK))["rome"] == "4"


@pytest.mark.trains
def test_weak_supervision_has_no_loss_where_the_right_cells_are_selected():
    """Cells and aggregations are learned with labels, which has one optimum. The weak loss of it is near 0."""
    selections = [
        (((1, 1),), "none"),
        (((0, 1), (1, 1), (2, 1)), "sum"),
        (((0, 1), (1, 1)), "sum"),
        (((1, 1),), "none"),
    ]
    labelled = [
        replace(one, answer=replace(one.answer, coordinates=cells, aggregation=aggregation))
        for one, (cells, aggregation) in zip(WEAK, selections, strict=True)
    ]
    context = TaskContext(network())
    weak = TableQA(context, **WEAK_OPTIONS)
    assert weak.loss(batch_of(WEAK)) > 0.5
    supervised = TableQA(context, aggregation="supervised", dropout=0.0)
    learnt(supervised, labelled, 120)
    weak.load_state_dict(supervised.state_dict())
    batch = batch_of(WEAK)
    predictions = weak.eval().predict(batch)
    assert weak.loss(batch) < 0.1
    assert weak.score(predictions, by_name(WEAK))["denotation_accuracy"] == 1.0
    found = {prediction.example_id: prediction for prediction in predictions}
    assert (found["rome"].aggregation, found["sum"].aggregation) == ("none", "sum")
    assert found["two"].cells == ((0, 1), (1, 1))
    assert found["rome"].confidence > 0.8
    assert weak.answers(predictions, by_name(WEAK)) == {"rome": "4", "sum": "15", "two": "6", "ambiguous": "4"}


@pytest.mark.trains
def test_supervised_aggregation_learns_cells_and_what_is_done_with_them():
    examples = [COUNT, replace(FIRST, answer=replace(FIRST.answer, aggregation="none")), NOTHING]
    task = TableQA(TaskContext(network()), aggregation="supervised", allow_empty_column_selection=True, dropout=0.0)
    assert task.training_examples([*examples, FIRST, LOST]) == examples, "the others name no aggregation"
    batch, _ = learnt(task, examples, 80)
    scores = task.score(task.predict(batch), by_name(examples))
    assert scores["denotation_accuracy"] == scores["joint_accuracy"] == 1.0


def null_task():
    return TableQA(TaskContext(network()), allow_empty_column_selection=True, dropout=0.0)


@pytest.mark.parametrize(
    ("null_scores", "threshold", "right"),
    [((-1.0, 1.0, 3.0), 2.0, 3), ((-1.0, -3.0, -0.5), -0.75, 3), ((1.0, -1.0, 0.0), -0.5, 2)],
)
def test_the_threshold_of_no_answer_is_fitted_on_dev(null_scores, threshold, right):
    examples, task = by_name([FIRST, ROME, NOTHING]), null_task()
    cells = (((0, 0),), ((1, 1),), ((2, 0),))
    choices = zip(examples, cells, null_scores, strict=True)
    predictions = [TableAnswer(n, where, (0.9,), null_score=score, null_probability=0.6) for n, where, score in choices]
    task.fit_threshold(predictions, examples)
    assert float(task.head.null_threshold) == pytest.approx(threshold)
    found = task.score(predictions, examples)
    names = ("denotation_accuracy", "denotation_accuracy/has_answer", "denotation_accuracy/no_answer")
    assert [found[name].questions for name in names] == [3, 2, 1]
    assert [found[name] for name in names] == pytest.approx([right / 3, (right - 1) / 2, 1])
    assert (task.selection(predictions[2]).is_null, task.selection(predictions[2]).confidence) == (True, 0.6)


def test_the_threshold_goes_with_the_weights_and_older_weights_have_none():
    task, other = null_task(), null_task()
    task.head.null_threshold.fill_(1.5)
    other.load_state_dict(task.state_dict())
    assert float(other.head.null_threshold) == 1.5
    other.load_state_dict({name: value for name, value in task.state_dict().items() if "threshold" not in name})
    assert float(other.head.null_threshold) == 0.0


def test_without_unanswerable_questions_nothing_is_fitted():
    task = null_task()
    task.fit_threshold([TableAnswer("first", ((0, 0),), (0.9,), null_score=5.0)], by_name([FIRST]))
    assert float(task.head.null_threshold) == 0.0


@pytest.mark.trains
def test_unanswerable_questions_are_learned_where_no_column_may_be_chosen():
    task = null_task()
    examples = [FIRST, ROME, NOTHING]
    assert task.training_examples(examples) == examples
    assert [task.skip_reason(example) for example in examples] == ["", "", ""]
    plain = TableQA(TaskContext(network()))
    assert plain.training_examples(examples) == [FIRST, ROME]
    assert "allow_empty_column_selection=true" in plain.skip_reason(NOTHING)
    batch, _ = learnt(task, examples, 60)
    predictions = task.predict(batch)
    task.fit_threshold(predictions, by_name(examples))
    assert task.score(predictions, by_name(examples))["denotation_accuracy"] == 1.0
    assert task.answers(predictions, by_name(examples)) == {"first": "oslo", "rome": "4", "nothing": ""}


@pytest.mark.trains
def test_cells_are_chosen_freely():
    both = question("both", "how many ?", Answer(("oslo", "4"), ((0, 0), (1, 1))))
    task = TableQA(TaskContext(network()), select_one_column=False, label_weighting="intended", dropout=0.0)
    batch, _ = learnt(task, [FIRST, both], 80)
    cells = {prediction.example_id: prediction.cells for prediction in task.predict(batch)}
    assert cells == {"first": ((0, 0),), "both": ((0, 0), (1, 1))}
    assert not any(parameter.grad is not None for parameter in task.encoder.pooler.parameters())


@pytest.mark.trains
def test_statements_are_learnt_by_heart():
    statements = [
        question("yes", "oslo is first", Answer((), label=1)),
        question("no", "lima is first", Answer((), label=0)),
    ]
    task = Entailment(TaskContext(network()))
    assert task.training_examples([*statements, FIRST]) == statements
    batch, _ = learnt(task, statements, 40)
    verdicts = task.predict(batch)
    assert task.answers(verdicts, {}) == {"yes": "entailed", "no": "refuted"}
    assert task.score(verdicts, by_name(statements))["accuracy"] == 1.0
    assert task.selection(verdicts[0]).confidence == verdicts[0].probability > 0.8
    assert task.baselines(by_name(statements), lambda: statements[:1])["majority/accuracy"] == 0.5


def test_an_example_that_cannot_be_encoded_counts_as_wrong():
    wide = replace(FIRST, example_id="wide", table=Table("w", (Cell("city"),) * 300, ((Cell("oslo"),) * 300,)))
    encodings = SERIALIZER.encode([FIRST, wide])
    assert isinstance(encodings[1], EncodingFailure)
    right = TableAnswer("first", ((0, 0),), (0.9,))
    assert TableQA(TaskContext(network())).score([right], by_name([FIRST, wide]))["denotation_accuracy"] == 0.5
    labelled = by_name([question("a", "oslo", Answer((), label=1)), replace(wide, answer=Answer((), label=0))])
    assert Entailment(TaskContext(network())).score([Verdict("a", 1, 0.7)], labelled)["accuracy"] == 0.5


def test_baselines_guess_a_column_and_the_nearest_cell():
    scores = TableQA(TaskContext(network())).baselines(by_name([FIRST, AMBIGUOUS]), lambda: [FIRST])
    assert scores["frequent_column/denotation_accuracy"] == 0.5
    assert scores["tfidf/denotation_accuracy"] == 0.5, "the first cell where no word is shared; 'rome' is not how many"


def test_cells_have_the_mean_of_their_tokens_and_come_column_by_column():
    rows = ((Cell("oslo 1"), Cell("2")), (Cell("3"), Cell("4")))
    batch = batch_of([replace(FIRST, table=replace(TABLE, rows=rows))])
    cells = list(zip(batch.row_ids[0].tolist(), batch.column_ids[0].tolist(), strict=True))
    known = {(1, 1): 0.25, (1, 2): 0.7, (2, 1): 0.6, (2, 2): 0.5, (0, 1): 1.0}
    shares = torch.tensor([[known.get(cell, 0.0) for cell in cells]])
    shares[0, cells.index((1, 1))] = 0.95
    ((cells, means),) = likely_cells(shares, batch, 0.5)
    assert cells == ((0, 0), (1, 0), (0, 1)), "0.5 is not more than 0.5, and the header is no cell"
    assert means == pytest.approx((0.6, 0.6, 0.7))


@pytest.mark.parametrize("aggregation", ["none", "supervised", "weak"])
@pytest.mark.parametrize("one_column", [True, False])
def test_every_trained_weight_has_a_gradient(aggregation, one_column):
    task = TableQA(TaskContext(network()), aggregation=aggregation, select_one_column=one_column)
    task.loss(batch_of([SUM, FIRST])).backward()
    trained = {name: parameter for name, parameter in task.named_parameters() if parameter.requires_grad}
    assert [name for name, parameter in trained.items() if parameter.grad is None] == []
    assert any(name.startswith("encoder.pooler") for name in trained) is (aggregation != "none")


def test_an_answer_without_cells_has_no_confidence():
    assert TableAnswer("q", (), ()).confidence == 0
    assert TableAnswer("q", ((0, 0),), (0.8,), "sum", 0.5, 0.5).confidence == pytest.approx(0.2)
    assert not math.isnan(TableQA(TaskContext(network())).selection(TableAnswer("q", (), ())).confidence)
