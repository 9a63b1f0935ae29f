"""What was cut, not encoded or not usable is counted in the record and said in words."""

from unittest.mock import Mock

import pytest
from hydra.errors import InstantiationException

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.datasets.passage_readers import SQuAD
from mate_cli.data.loading.cache import encode_split
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import missing_answer
from mate_cli.papers.dt_fixup.datasets.option_questions import LogiQa
from mate_cli.papers.transformer_xh.datasets.document_readers import HotpotQA
from mate_cli.pipelines.run import plain_reason, record_outcome, record_skipped, record_truncation
from mate_cli.runs.record import RunRecord
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.lexical import LexicalSerializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

SAMPLE = load_tokenizer("sample")


def table(rows, columns, text="5"):
    return Table("t", (Cell("h"),) * columns, ((Cell(text),) * columns,) * rows)


def record():
    return RunRecord("train", "e", [], "d", "m", "a", "i", "t", seed=1)


def example(name, table, **answer):
    return TableExample(name, "who", table, Answer(("x",), **answer))


EXAMPLES = [
    example("whole", table(2, 2), coordinates=((1, 1),)),
    example("short", table(2, 2, "5 6 7 8 9 10"), number=5.0),
    example("low", table(30, 2), coordinates=((29, 0),), source="several cells hold the answer"),
    example("wide", table(1, 300), source="several cells hold the answer"),
    example("none", table(1, 1)),
]


def test_the_record_counts_what_was_cut(tmp_path):
    own = record()
    record_truncation(
        own, "dev", encode_split(EXAMPLES, TapasSerializer(SAMPLE, sentences=0, max_tokens=24), tmp_path, "dev")
    )
    assert own.data == {
        "dev/not_encoded": 1,
        "dev/shortened_cells": 1,
        "dev/dropped_rows": 1,
        "dev/dropped_columns": 0,
        "dev/lost_answers": 1,
    }
    assert own.facts == {
        "not encoded, dev": "1 too many columns",
        "cut, dev": "cells shortened in 1 (25.0%), rows dropped in 1 (25.0%), answer cells lost in 1 (25.0%) of 4",
    }


@pytest.mark.parametrize(
    ("dataset", "unit"), [(SQuAD, "passages"), (LogiQa, "passages"), (HotpotQA, "documents"), (Sample, "cells")]
)
def test_what_was_cut_is_called_as_the_data_are(tmp_path, dataset, unit):
    own = record()
    encodings = encode_split(EXAMPLES, TapasSerializer(SAMPLE, sentences=0, max_tokens=24), tmp_path, "dev")
    record_truncation(own, "dev", encodings, dataset.unit)
    assert f"{unit} shortened" in own.facts["cut, dev"]


def test_nothing_is_said_of_what_nobody_counts_or_nothing_cuts(tmp_path):
    own = record()
    record_truncation(own, "dev", encode_split(EXAMPLES[:1], TapasSerializer(SAMPLE, sentences=0), tmp_path, "dev"))
    assert own.data["dev/dropped_rows"] == 0
    assert own.facts == {}
    other = record()
    record_truncation(other, "dev", encode_split(EXAMPLES[:1], LexicalSerializer(SAMPLE), tmp_path, "dev"))
    assert other.data == {"dev/not_encoded": 0}


def test_questions_that_teach_nothing_are_counted_by_reason():
    own = record()
    others = TableExample("unknown", "who", table(1, 1)), example("label", table(1, 1), label=0)
    record_skipped(own, [*EXAMPLES, *others], missing_answer)
    assert own.data == {"train/unusable": 3}
    said = "of 7 training questions read, 2 without an answer, 1 several cells hold the answer"
    assert own.facts == {"not trained on": said}


def test_reasons_are_counted_without_their_figures():
    assert (
        plain_reason("2 answer cells are in dropped rows or columns") == "answer cells are in dropped rows or columns"
    )
    assert plain_reason("the table does not fit: 3 of 16 tokens are left") == "the table does not fit"


def test_what_a_class_refuses_is_the_reason_in_the_record():
    """Hydra wraps it while it builds an object."""
    fakes = Mock(record=Mock(peak_memory_mb=0.0), clock=lambda: 0.0)
    error = InstantiationException("Error in call to target")
    error.__cause__ = ConfigError("no answers", where="encoding.label")
    with pytest.raises(InstantiationException), record_outcome(fakes):
        raise error
    assert (fakes.record.status, fakes.record.reason) == ("failed", "ConfigError: encoding.label: no answers.")
