"""What Hybrider's stages learn from and how they are scored, on a table made for it."""

from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.lit_modules.candidate_choice import Choice
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.candidates import Candidates
from mate_cli.models.tapas import Tapas
from mate_cli.papers.hybrider.nodes import Node
from mate_cli.papers.hybrider.tasks import NodeRanking, PageReading, RowHopping
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

PASSAGES = {
    "/wiki/Ann": "Ann won the alpine rally in winter . She was born in Leeds .",
    "/wiki/Bob": "Bob sings . He was born in Leeds .",
    "/wiki/Cid": "Cid was born in Rome .",
}
TABLE = Table(
    "t",
    (Cell("Driver"), Cell("City")),
    (
        (Cell("Ann", ("/wiki/Ann",)), Cell("Oslo")),
        (Cell("Bob", ("/wiki/Bob",)), Cell("Bergen")),
        (Cell("Cid", ("/wiki/Cid",)), Cell("Turin")),
    ),
    passages=PASSAGES,
)


def asked(name, question, answer, *cells, source):
    return TableExample(name, question, TABLE, Answer((answer,), cells, source))


MEDIUM = asked("medium", "from which city is the driver who won the alpine rally ?", "Oslo", (0, 1), source="table")
EASY = asked(
    "easy", "where was Ann , who did not sing with Bob in Bergen , born ?", "Leeds", (0, 0), (1, 0), source="passage"
)
HARD = asked("hard", "what is beyond Bergen ?", "Turin", (2, 1), source="table")
ALL = [MEDIUM, EASY, HARD]


@pytest.fixture(scope="module")
def tasks():
    torch.manual_seed(0)
    ranking = NodeRanking(TaskContext(Candidates("tiny", attention=Sdpa(), vocab_size=50)))
    hopping = RowHopping(TaskContext(Candidates("tiny", attention=Sdpa(), vocab_size=50)))
    return ranking, hopping


def test_ranking_learns_from_rows_with_a_linked_cell(tasks):
    ranking, _ = tasks
    assert [example.example_id for example in ranking.training_examples(ALL)] == ["medium", "easy"]
    assert [example.example_id for example in ranking.evaluation_examples(ALL)] == ["medium", "easy", "hard"]


def test_a_ranking_is_right_in_the_row_of_the_answer(tasks):
    ranking, _ = tasks
    examples = {example.example_id: example for example in ranking.evaluation_examples(ALL)}
    rows = {name: [node.coordinate[0] for node in example.nodes] for name, example in examples.items()}
    best = [Choice("medium", rows["medium"].index(0), 1.0), Choice("hard", 0, 1.0)]
    assert ranking.score(best, examples) == {
        "row_accuracy": pytest.approx(1 / 3),
        "row_accuracy/table": 0.5,
        "row_accuracy/passage": 0.0,
    }
    assert ranking.answers(best[:1], examples)["medium"] == "Ann"


def test_the_floor_is_the_surest_node(tasks):
    ranking, _ = tasks
    examples = {example.example_id: example for example in ranking.evaluation_examples(ALL)}
    found = ranking.baselines(examples, list)
    assert (
        found["surest/row_accuracy/passage"] == 1.0
    )  # Ann and Bergen are both in the question, and both rows are right
    assert found["surest/row_accuracy"] == pytest.approx(2 / 3)
    fields = {"content": "", "link": None, "fact": "", "header": ""}
    cell, page = (
        Node(coordinate=(row, 0), confidence=confidence, source=source, **fields)
        for row, confidence, source in ((0, 0.9, "links"), (1, 0.4, "tf-idf"))
    )
    medium = replace(examples["medium"], nodes=(page, cell))
    assert ranking.baselines({"medium": medium}, list)["surest/row_accuracy"] == 1.0


def test_hops_begin_at_every_node_in_a_row_with_the_answer(tasks):
    _, hopping = tasks
    training = hopping.training_examples(ALL)
    assert {example.current.coordinate[0] for example in training if example.example_id.startswith("medium")} == {0}
    assert len({example.example_id for example in training}) == len(training)
    first = hopping.evaluation_examples(ALL)
    assert [example.example_id for example in first] == ["medium", "easy"]
    assert first[0].current == training[0].current


def test_a_hop_is_right_where_the_answer_is_found(tasks):
    _, hopping = tasks
    (medium, _) = hopping.evaluation_examples(ALL)
    ends = [hopping.candidate(Choice("medium", place, 1.0), medium) for place in range(3)]
    assert [(end.content, end.link) for end in ends] == [("Ann", None), ("Ann", "/wiki/Ann"), ("Oslo", None)]
    assert [hopping.is_correct(Choice("medium", place, 1.0), medium) for place in range(3)] == [False, False, True]
    metrics = hopping.score([Choice("medium", 2, 1.0)], {"medium": medium})
    assert metrics == {"hop_accuracy": 1.0, "hop_accuracy/table": 1.0}


def test_pages_that_hold_the_answer_are_read():
    serializer = TapasSerializer(load_tokenizer("sample"), label="span")
    reader = PageReading(TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=50), serializer))
    training = reader.training_examples(ALL)
    assert {example.example_id.split("/")[0] for example in training} == {"easy"}
    for example in training:
        (((cell,),),) = (example.table.rows,)
        assert cell.text.startswith(("Title : Ann . Ann won", "Title : Bob . Bob sings"))
        assert example.answer.coordinates == ((0, 0),)
    (only,) = reader.evaluation_examples(ALL)
    assert (only.example_id, only.answer.source) == ("easy", "passage")
