from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.baselines import rank_cells
from mate_cli.data.cell_examples import negatives
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.datasets.passage_questions import PassageQuestion, Span, build_examples
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.losses import correct_spans
from mate_cli.lit_modules.passage_reading import PassageReading
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

PASSAGE = "the river is long, and the river is cold."
QUESTIONS = [
    PassageQuestion("second", "what is cold?", PASSAGE, [Span("river", 27)], "Rivers"),
    PassageQuestion("nothing", "who swims?", PASSAGE, []),
    PassageQuestion("unknown", "who swims?", PASSAGE, None),
]


@pytest.fixture(scope="module")
def serializer():
    return TapasSerializer(load_tokenizer("sample"), max_tokens=64, label="span", sentences=0)


def build(serializer, kind=PassageReading, **options):
    torch.manual_seed(0)
    return kind(
        TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=serializer.vocab_size), serializer), **options
    ).eval()


def test_the_answer_is_marked_where_the_dataset_says_that_it_stands(serializer):
    examples = build_examples(QUESTIONS)
    second, nothing, _ = serializer.encode(examples)
    (places,) = second.label_ids.nonzero()
    assert serializer.span_text(examples[0], places[0], places[-1]) == "river"
    assert places[0] > len(second.input_ids) // 2, "not the first river"
    assert nothing.label_ids.nonzero()[0].tolist() == [0], "no answer is [CLS]"


def test_no_answer_is_learnt_and_said_by_who_may(serializer):
    examples = build_examples(QUESTIONS)
    able, unable = (build(serializer, no_answer=choice) for choice in (True, False))
    assert [e.example_id for e in able.training_examples(examples)] == ["second", "nothing"]
    assert [e.example_id for e in unable.training_examples(examples)] == ["second"]
    batch = collate(serializer.encode(examples[:2]), reset_positions=False, max_positions=512)
    assert correct_spans(batch.label_ids, 30).sum((1, 2)).tolist() == [1, 1]
    with torch.no_grad():
        assert 0 < able.loss(batch) < 50
    scores = able.head(able.encoder(batch)).detach()
    scores[:, 0, 0] = torch.tensor([-50.0, 50.0])
    able.head.forward = lambda output: scores
    known = {example.example_id: example for example in examples}
    predictions = able.predict(batch)
    answers = able.answers(predictions, known)
    assert answers["second"] != "" == answers["nothing"]
    found = able.score(predictions, known)
    assert (found["em/no_answer"], found["em/has_answer"] <= found["f1/has_answer"]) == (1.0, True)
    assert unable.predict(batch)[0].no_answer == 0.0


def test_weights_of_a_reader_fit_the_reader_of_cells(serializer):
    before, after = build(serializer), build(serializer, SpanReading)
    assert before.state_dict().keys() == after.state_dict().keys()
    shapes = [{name: value.shape for name, value in task.state_dict().items()} for task in (before, after)]
    assert shapes[0] == shapes[1]


def test_cells_without_the_answer_are_learnt_from_where_that_can_be_said(serializer):
    questions = Sample().examples("train")[:6]
    with pytest.raises(ConfigError, match="predict no answer"):
        build(serializer, SpanReading, negatives=2)
    task = build(serializer, SpanReading, negatives=2, no_answer=True)
    found = task.training_examples(questions)
    without = [example for example in found if not example.answer.texts]
    known = [example for example in questions if example.answer and example.answer.coordinates]
    assert len(without) == 2 * len(known)
    assert len(found) > len(without)
    assert negatives(questions, 2) == negatives(questions, 2)
    rankings = rank_cells(known)
    for example in known:
        best = next(cell for cell in rankings[example.example_id] if cell not in example.answer.coordinates)
        first, _ = (one for one in without if one.example_id.startswith(f"{example.example_id}/without/"))
        assert first.table.table_id.endswith("/".join(map(str, best))), "the first is the wrong cell nearest by TF-IDF"
    every, answer_cells = negatives(known[:1], 10_000)[known[0].example_id], set(known[0].answer.coordinates)
    assert len(every) == len(set(rankings[known[0].example_id]) - answer_cells) > 9, "all cells but those of the answer"
    copies = negatives([replace(known[0], example_id=str(number)) for number in range(9)], 2).values()
    assert len({drawn.table.table_id for _, drawn in copies}) > 1
    by_name = {example.example_id: example for example in questions}
    for example in without:
        name = example.example_id.partition("/without/")[0]
        row, column = map(int, example.table.table_id.split("/")[-2:])
        assert (row, column) not in by_name[name].answer.coordinates
    usual = build(serializer, SpanReading).training_examples(questions)
    assert usual == [example for example in found if example.answer.texts], "what is learnt without negatives stays"
