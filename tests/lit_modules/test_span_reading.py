from dataclasses import replace

import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


def test_the_best_span_is_given_by_its_first_and_last_token():
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=64)
    batch = collate(serializer.encode(Sample().examples("dev")[:2]), reset_positions=False, max_positions=512)
    encoder = Tapas("tiny", attention=Sdpa(), vocab_size=serializer.vocab_size)
    task = SpanReading(TaskContext(encoder, serializer)).eval()
    logits = torch.zeros(*batch.input_ids.shape, 10)
    logits[0, 3, 2] = logits[1, 7, 0] = 50.0  # three tokens from the third, one token at the seventh
    task.head.forward = lambda output: logits
    spans = [(p.example_id, p.start, p.end) for p in task.predict(batch)]
    assert spans == [(batch.example_ids[0], 3, 5), (batch.example_ids[1], 7, 7)]


def test_a_reader_learns_from_several_candidate_cells_and_is_scored_in_the_first():
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=64)
    task = SpanReading(TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=serializer.vocab_size), serializer))
    example = Sample().examples("train")[0]
    cells = tuple((row, column) for row in range(3) for column in range(2))
    example = replace(example, answer=replace(example.answer, coordinates=cells, span=None))
    body = example.table.rows
    texts = [body[row][column].text for row, column in cells]
    assert len(set(texts)) > task.cells_per_question == 4
    learnt = [one.table.rows[0][0].text for one in task.training_examples([example])]
    assert learnt == texts[:4]
    (scored,) = task.evaluation_examples([example])
    assert scored.table.rows[0][0].text == texts[0]
