"""Ranking, reading and entailment over evidence: losses by hand, predictions, and questions learnt by heart."""

import math
from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.losses import binary_cross_entropy
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.heads.scores import NO_LOGIT
from mate_cli.papers.transformer_xh.models.evidence_heads import MixtureHead
from mate_cli.papers.transformer_xh.models.transformer_xh import TransformerXh
from mate_cli.papers.transformer_xh.relations import NODE_CELLS
from mate_cli.papers.transformer_xh.serializer import EvidenceSerializer
from mate_cli.papers.transformer_xh.tasks import (
    EvidenceEntailment,
    EvidenceRanking,
    EvidenceReading,
    best_span,
    reading_targets,
    sentence_losses,
    span_losses,
)
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.vocabulary import load_tokenizer

SIZE = EncoderSize(32, 2, 4, 64)
TOKENIZER = load_tokenizer("sample")


def network(seed=0, **options):
    torch.manual_seed(seed)
    options = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "combine": "identity", **options}
    return TransformerXh(SIZE, attention=Sdpa(), vocab_size=TOKENIZER.vocab_size, **options)


def batch_of(maker, examples):
    return collate(maker.encode(examples), reset_positions=True, max_positions=64)


def learn(task, batch, steps, lr):
    optimizer = torch.optim.Adam(task.parameters(), lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        task.loss(batch).backward()
        optimizer.step()
    task.eval().requires_grad_(False)


def two_hops(count=6):
    """Tables in which the name beside a number is asked for: a cell does not know its own row."""
    names = ["ann", "bob", "eva", "tom"]
    found = []
    for place in range(count):
        order = [(place + shift) % 4 for shift in range(4)]
        rows = tuple((Cell(str(year)), Cell(names[one])) for year, one in enumerate(order, 1))
        wanted = place % 3
        table = Table(f"t{place}", (Cell("place"), Cell("name")), rows)
        answer = Answer((names[order[wanted]],), ((wanted, 1),), "table")
        found.append(TableExample(f"q{place}", f"who is {wanted + 1}?", table, answer))
    return found


def documents(name, answer, rows=((0, 0), (1, 0)), supporting=((0, 1), (1, 0))):
    texts = ((f"{name} writes.", "born in oslo."), (f"a novel by {name}.",), ("the alva is cold.",))
    cells = tuple((Cell(title, (title,)),) for title in ("one", "two", "three"))
    passages = {title: " ".join(text) for title, text in zip(("one", "two", "three"), texts, strict=True)}
    table = Table(name, (Cell("document"),), cells, passages=passages)
    known = {"sentences": texts, "supporting": supporting, "subsets": ("bridge",)}
    return TableExample(name, f"what of {name}?", table, Answer((answer,), rows, "passage"), **known)


READER = EvidenceSerializer(TOKENIZER, unit="document", relations=["mention"], label="answer", node_tokens=48)
QUESTIONS = [documents("ann", "oslo"), documents("bob", "a novel"), documents("eva", "yes"), documents("tom", "tom")]


def test_ranking_names_the_cells_that_nodes_are_of():
    examples = two_hops(2)
    batch = batch_of(EvidenceSerializer(TOKENIZER), examples)
    task = EvidenceRanking(TaskContext(network())).eval()
    (first, _) = task.predict(batch)
    assert sorted(first.cells) == [(row, column) for row in range(4) for column in range(2)]
    cells = task.cell_logits(task.encoder(batch), task.head, task.encoder)
    assert cells.candidates.sum(1).tolist() == [1, 1]
    chosen = cells.candidates.nonzero()[0]
    row, column = int(cells.rows[tuple(chosen)]), int(cells.columns[tuple(chosen)])
    assert ((row - 1, column - 1),) == examples[0].answer.coordinates


def test_a_cell_that_is_read_in_segments_is_ranked_once():
    maker = EvidenceSerializer(TOKENIZER, unit="segment", relations=["next"], node_tokens=16)
    batch = batch_of(maker, QUESTIONS[:1])
    assert batch.more[NODE_CELLS].tolist()[0].count([0, 0]) == 2
    (ranking,) = EvidenceRanking(TaskContext(network())).eval().predict(batch)
    assert sorted(ranking.cells) == [(0, 0), (1, 0), (2, 0)]
    assert list(ranking.probabilities) == sorted(ranking.probabilities, reverse=True)


def test_the_binary_loss_by_hand():
    logits = torch.tensor([[0.0, 2.0, 9.0], [1.0, 5.0, 5.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    right = torch.tensor([[True, False, False], [False, False, False]])
    expected = [(math.log(2) + math.log1p(math.exp(2))) / 2, math.log1p(math.exp(1))]
    torch.testing.assert_close(binary_cross_entropy(logits, mask, right), torch.tensor(expected))


def test_reading_losses_by_hand():
    """The cross entropies are of the texts with the answer alone, and within each of them."""
    batch = batch_of(READER, QUESTIONS)
    task = EvidenceReading(TaskContext(network(), READER), dropout=0.0).eval()
    logits = task.head(task.encoder(batch), task.encoder.pooler)
    targets = reading_targets(batch, logits)
    assert targets.kinds.tolist() == [0, 0, 1, 0]
    assert targets.answers.tolist() == [[True, False, False], [False, True, False], [False] * 3, [True, True, False]]
    assert targets.supporting[0].nonzero().tolist() == [[0, 1], [1, 0]]
    losses = span_losses(logits, targets)
    assert losses[2] == 0
    by_hand = []
    for node in (0, 1):
        own = (batch.row_ids[3] == node + 1) & (batch.segment_ids[3] == 1)
        answer = ((batch.label_ids[3] & 1) == 1)[own].nonzero().squeeze(1)
        scores = task.head.span(task.encoder(batch).states[3][own]).log_softmax(0)
        by_hand.append(-(scores[answer[0], 0] + scores[answer[-1], 1]) / 2)
    torch.testing.assert_close(losses[3], sum(by_hand) / 2)
    scores = logits.sentences[0][logits.is_sentence[0]]
    wanted = targets.supporting[0][logits.is_sentence[0]].float()
    expected = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted)
    torch.testing.assert_close(sentence_losses(logits, targets)[0], expected)
    assert torch.isfinite(task.loss(batch_of(READER, QUESTIONS[2:3])))
    unknown = targets.supporting & torch.tensor([True, False, True, True])[:, None, None]
    assert (sentence_losses(logits, replace(targets, supporting=unknown)) > 0).tolist() == [True, False, True, True]


def test_spans_stay_in_the_text_of_their_node_and_are_short():
    batch = batch_of(READER, QUESTIONS)
    for seed in range(5):
        task = EvidenceReading(TaskContext(network(seed), READER), max_span_length=3).eval()
        for row, one in enumerate(task.predict(batch)):
            assert one.start <= one.end < one.start + 3
            span = slice(one.start, one.end + 1)
            assert batch.segment_ids[row, span].all()
            assert len(batch.row_ids[row, span].unique()) == 1
            assert one.cell == tuple(batch.more[NODE_CELLS][row, batch.row_ids[row, one.start] - 1].tolist())


def test_the_best_end_is_looked_for_behind_the_best_start():
    starts = torch.tensor([[0.0, 3.0, 1.0, NO_LOGIT]])
    ends = torch.tensor([[9.0, 0.0, 1.0, 5.0]])
    assert [int(place) for place in best_span(starts, ends, 2)] == [1, 2]
    assert [int(place) for place in best_span(starts, ends, 3)] == [1, 3]


@pytest.mark.trains
@pytest.mark.long
def test_questions_are_learnt_by_heart_with_their_evidence():
    batch = batch_of(READER, QUESTIONS)
    task = EvidenceReading(TaskContext(network(1), READER), dropout=0.0)
    learn(task, batch, steps=600, lr=5e-4)
    predictions = task.predict(batch)
    by_name = {example.example_id: example for example in QUESTIONS}
    assert task.answers(predictions, by_name)["eva"] == "yes"
    scores = task.score(predictions, by_name)
    names = ("em", "f1", "sp_em", "sp_f1", "joint_em", "joint_f1", "em/bridge")
    assert {name: scores[name] for name in names} == dict.fromkeys(names, 1.0)
    assert scores["node_accuracy"] >= 3 / 4  # of yes nobody says where it stands
    assert all(task.is_correct(one, by_name[one.example_id]) for one in predictions)
    released = EvidenceReading(TaskContext(network(), READER), answer_kinds=False, supporting_sentences=False).eval()
    scores = released.score(released.predict(batch), by_name)
    assert "joint_f1" not in scores
    assert not any(one.kind or one.supporting for one in released.predict(batch))


def statements():
    rows = tuple((Cell(name), Cell(str(place))) for place, name in enumerate(("ann", "bob", "eva")))
    table = Table("t", (Cell("name"), Cell("place")), rows)
    said = {"ann is 0": 1, "bob is 0": 0, "eva is 2": 1, "ann is 2": 0}
    return [TableExample(text, text, table, Answer((str(label),), label=label)) for text, label in said.items()]


@pytest.mark.trains
def test_statements_are_learnt_by_heart_and_rows_share_the_verdict():
    maker = EvidenceSerializer(TOKENIZER, unit="row", relations=["all"])
    batch = batch_of(maker, statements())
    task = EvidenceEntailment(TaskContext(network()), dropout=0.0)
    assert task.training_examples(statements()) == statements()
    learn(task, batch, steps=60, lr=1e-3)
    verdicts = task.predict(batch)
    assert [one.label for one in verdicts] == [1, 0, 1, 0]
    assert all(sum(share for _, share in one.rows) == pytest.approx(1) for one in verdicts)
    assert {row for row, _ in verdicts[0].rows} == {0, 1, 2}
    assert task.details(verdicts[0])["rows"][0] == list(verdicts[0].rows[0])


def test_a_mixture_by_hand_and_the_loss_of_known_evidence():
    maker = EvidenceSerializer(TOKENIZER, unit="row", relations=["all"])
    batch = batch_of(maker, statements())
    task = EvidenceEntailment(TaskContext(network()), dropout=0.0).eval()
    output = task.encoder(batch)
    found = task.head(output, task.encoder.pooler)
    assert isinstance(task.head, MixtureHead)
    states = torch.stack([task.encoder.pooler(output.states[0, token][None, None])[0] for token in found.tokens[0]])
    weights, classes = task.head.weight(states).squeeze(1).softmax(0), task.head.classes(states).softmax(1)
    torch.testing.assert_close(found.log_probabilities[0].exp(), weights @ classes)
    plain = task.loss(batch)
    labelled = replace(batch, label_ids=(batch.row_ids == 1).long())
    right = torch.tensor([[True, False, False]]).expand(4, 3)
    of_nodes = binary_cross_entropy(found.node_logits, found.mask, right)
    torch.testing.assert_close(task.loss(labelled), plain + of_nodes.mean())
    some = torch.tensor([[1], [0], [0], [1]])  # of the others the evidence is unknown
    partly = replace(batch, label_ids=labelled.label_ids * some)
    torch.testing.assert_close(task.loss(partly), plain + of_nodes[[0, 3]].mean())
    released = EvidenceEntailment(TaskContext(network()), double_softmax=True, dropout=0.0).eval()
    chances = found.log_probabilities.exp()
    torch.testing.assert_close(released.loss(batch), torch.nn.functional.cross_entropy(chances, batch.class_ids))
