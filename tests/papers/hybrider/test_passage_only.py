"""The passage-only baseline reads the nearest page alone."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.papers.hybrider.system import PassageOnly
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLE = Table(
    "t",
    (Cell("City"), Cell("Mayor")),
    ((Cell("Oslo"), Cell("Bob", ("/wiki/Bob",))), (Cell("Bergen"), Cell("Ann", ("/wiki/Ann",)))),
    passages={"/wiki/Ann": "Ann won the rally .", "/wiki/Bob": "Bob sings ."},
)
RALLY = TableExample("rally", "who won the rally ?", TABLE, Answer(("Ann",), ((1, 1),), "passage"))
SONG = TableExample("song", "in which city does Bob sing ?", TABLE, Answer(("Bergen",), ((1, 0),), "table"))
BARE = TableExample("bare", "who ?", replace(TABLE, passages={}), Answer(("Ann",), ((1, 1),), "table"))


class FirstWords:
    """A reader that answers with the first words of the text that it is given."""

    def __init__(self):
        self.task, self.read = Mock(spec=SpanReading), []
        self.task.answers.side_effect = lambda found, examples: {
            key: " ".join(examples[key].table.rows[0][0].text.split()[:3]) for key in found
        }

    def task_of(self, kind):
        assert kind is SpanReading
        return self.task

    def predict(self, examples, name):
        self.read += [name, *(example.table.table_id for example in examples)]
        return [example.example_id for example in examples]


def test_the_nearest_page_is_read_alone():
    reader = FirstWords()
    answered = PassageOnly().answer({"reading": reader}, [RALLY, SONG, BARE], "dev")
    assert answered.texts == {"rally": "Title : Ann", "song": "Title : Bob"}
    assert reader.read == ["dev", "t/wiki/Ann", "t/wiki/Bob"]


def test_hits_count_the_cell_that_links_the_page():
    metrics = PassageOnly().answer({"reading": FirstWords()}, [RALLY, SONG, BARE], "dev").metrics
    assert metrics == {"hits@1": pytest.approx(1 / 3), "hits@1/table": 0, "hits@1/passage": 1}


def test_questions_without_known_answers_are_only_answered():
    answered = PassageOnly().answer({"reading": FirstWords()}, [replace(RALLY, answer=None)], "dev")
    assert answered.texts
    assert answered.metrics == {}
