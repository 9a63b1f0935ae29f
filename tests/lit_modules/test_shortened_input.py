"""Every task on a network that returns fewer tokens than it was given, and not the first ones."""

from dataclasses import replace

import pytest
import torch
import yaml
from golden import ROOT

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.cell_answering import CellAnswering
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.masked_lm import MaskedLM
from mate_cli.lit_modules.passage_reading import PassageReading
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext
from mate_cli.models.mate import MateEncoder
from mate_cli.papers.hybrider.linking import link_examples
from mate_cli.papers.hybrider.serializers import HoppingSerializer, RankingSerializer
from mate_cli.papers.hybrider.tasks import NodeRanking, PageReading, RowHopping
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import gather_tokens
from mate_cli.tokenization.serializers.masking import MaskingSerializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

VOCABULARY = load_tokenizer("sample")
TABLE = Table("t", (Cell("name"), Cell("year")), tuple((Cell(f"the name {n}"), Cell(str(1990 + n))) for n in range(5)))
EXAMPLES = [
    TableExample(
        f"e{n}",
        f"which year has the name {n} in it ?",
        TABLE,
        Answer((str(1990 + n),), ((n, 1),), "table", "count", float(n), n % 2),
    )
    for n in range(3)
]
LINKED = link_examples(EXAMPLES)
HOPPING = [replace(example, current=example.nodes[0]) for example in LINKED]
LEFT_OUT = 4
"""Tokens at the beginning that the network forgets, those of the question among them."""

CASES = {
    CellSelection: (TapasSerializer, {}, EXAMPLES),
    CellAnswering: (TapasSerializer, {}, EXAMPLES),
    TableQA: (TapasSerializer, {}, EXAMPLES),
    Entailment: (TapasSerializer, {"lexical_features": True}, EXAMPLES),
    SpanReading: (TapasSerializer, {"label": "span"}, EXAMPLES),
    PageReading: (TapasSerializer, {"label": "span"}, EXAMPLES),
    PassageReading: (TapasSerializer, {"label": "span"}, EXAMPLES),
    MaskedLM: (MaskingSerializer, {"share": 0.5}, EXAMPLES),
    NodeRanking: (RankingSerializer, {}, LINKED),
    RowHopping: (HoppingSerializer, {}, HOPPING),
}


class Forgetful(MateEncoder):
    """Forgets the first tokens of its input; the states of the others are those of the whole.

    Given a batch that is short already, it returns the states of the batch before with this one.
    """

    def forward(self, batch):
        if batch.places is None:
            whole = super().forward(batch)
            kept = torch.arange(LEFT_OUT, batch.input_ids.shape[1]).expand(len(batch.input_ids), -1)
            self.seen = EncoderOutput(gather_tokens(whole.states, kept), whole.pooled, batch.keep(kept), whole)
        return self.seen._replace(batch=batch if batch.places is not None else self.seen.batch)


def made(kind):
    serializer_class, options, examples = CASES[kind]
    serializer = serializer_class(VOCABULARY, max_tokens=200, **options)
    torch.manual_seed(2)
    lexical = bool(options.get("lexical_features"))
    encoder = Forgetful("tiny", attention=Sdpa(), vocab_size=VOCABULARY.vocab_size, lexical_features=lexical)
    given = {"aggregation": "weak"} if kind is TableQA else {}
    task = kind(TaskContext(encoder, serializer), **given).eval()
    batch = collate(serializer.encode(examples), reset_positions=False, max_positions=512)
    return task, batch, {example.example_id: example for example in examples}


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_all_that_goes_with_states_is_read_from_their_own_batch(kind):
    task, batch, examples = made(kind)
    with torch.no_grad():
        loss, predictions = task.loss(batch), task.predict(batch)
        short = task.encoder.seen.batch
        assert short.input_ids.shape[1] == batch.input_ids.shape[1] - LEFT_OUT
        assert loss.isfinite()
        torch.testing.assert_close(task.loss(short), loss, rtol=0, atol=0)
        again = task.predict(short)
    if kind is MaskedLM:  # the pieces that are left out count as not told
        assert [one.right for one in again] == [one.right for one in predictions]
    else:
        assert again == predictions
    assert [prediction.example_id for prediction in predictions] == list(examples)
    assert all(value >= 0 for value in task.score(predictions, examples).values())
    assert set(task.answers(predictions, examples)) == set(examples)


def test_the_tokens_of_a_span_are_counted_in_the_whole_encoding():
    task, batch, examples = made(SpanReading)
    target = (batch.label_ids == 1).int().argmax(1)
    width = task.head.max_length

    def certain(output):
        logits = torch.zeros(*output.states.shape[:2], width)
        logits[torch.arange(3), (output.batch.label_ids == 1).int().argmax(1), 0] = 50.0
        return logits

    task.head.forward = certain
    predictions = task.predict(batch)
    assert [prediction.start for prediction in predictions] == target.tolist()
    assert task.score(predictions, examples)["gold_em"] == 1.0


def test_kept_tokens_keep_what_belongs_to_them():
    _, batch, _ = made(TableQA)
    kept = torch.tensor([[5, 3, 9]] * 3)
    short = batch.keep(kept)
    for name, tensor in batch.tensors().items():
        expected = tensor if tensor.ndim == 1 else tensor[:, kept[0]]
        torch.testing.assert_close(short.tensors()[name], expected, equal_nan=True)
    assert short.keep(torch.tensor([[2]] * 3)).places.tolist() == [[9]] * 3
    assert short.find_places(torch.tensor([0, 1, 2])).tolist() == [5, 3, 9]
    assert short.plan is None
    assert short.example_ids == batch.example_ids


def test_every_task_is_here():
    files = (ROOT / "conf" / "task").glob("*.yaml")
    targets = {yaml.safe_load(file.read_text(encoding="utf-8"))["_target_"] for file in files}
    others = (".transformer_xh.", ".option_choice.", ".sql_parsing.")  # read texts side by side, or give nodes
    of_graphs = {target for target in targets if any(part in target for part in others)}
    assert {f"{kind.__module__}.{kind.__name__}" for kind in CASES} == targets - of_graphs
