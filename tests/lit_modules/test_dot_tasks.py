"""Every task on the double transformer, however its pruning transformer learns."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import save_file
from test_shortened_input import CASES, VOCABULARY

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.cell_answering import CellAnswering
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.masked_lm import MaskedLM
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.dot import Dot
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.tapas import Tapas

SIZE, PRUNER = EncoderSize(32, 1, 2, 64, 512), EncoderSize(16, 1, 2, 32, 512)
KINDS = pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
SCORED = {CellSelection: ["tokens"], CellAnswering: ["tokens"], TableQA: ["tokens", "columns"]}
"""Tasks whose head scores what is chosen."""


def made(kind, keep=30, **options):
    """A task on a DoT, and a batch of which some tokens are left out."""
    serializer_class, given, examples = CASES[kind]
    serializer = serializer_class(VOCABULARY, max_tokens=200, **given)
    torch.manual_seed(2)
    reads = {"vocab_size": VOCABULARY.vocab_size, "lexical_features": bool(given.get("lexical_features"))}
    encoder = Dot(SIZE, attention=Sdpa(), pruner=partial(Tapas, PRUNER), keep=keep, **reads, **options)
    more = {"aggregation": "weak"} if kind is TableQA else {}
    batch = collate(serializer.encode(examples), reset_positions=False, max_positions=512)
    return (
        kind(TaskContext(encoder, serializer), **more).eval(),
        batch,
        {example.example_id: example for example in examples},
    )


@pytest.mark.sampled(6)
@KINDS
@pytest.mark.parametrize("select", ["tokens", "columns"])
@pytest.mark.parametrize("learn", ["joint", "pruning", "both"])
def test_every_trained_weight_has_a_gradient(kind, select, learn):
    task, batch, _ = made(kind, select=select, learn=learn)
    loss = task.loss(batch)
    loss.backward()
    assert loss.isfinite()
    assert [name for name, one in task.named_parameters() if one.requires_grad and one.grad is None] == []
    taught = learn != "pruning" or select in SCORED.get(kind, [])
    assert [one.requires_grad for one in task.encoder.scores.parameters()] == [taught, taught]
    if len(batch.column_ids.unique()) > 2 or select == "tokens":  # candidates are all in one column
        assert any(one.grad is not None and one.grad.any() for one in task.encoder.pruner.parameters())


@KINDS
def test_two_losses_are_one_of_each_encoder(kind):
    task, batch, _ = made(kind, learn="both")
    output = task.encoder(batch)
    early = task.output_loss(output.early, task.early_head, task.encoder.pruner)
    late = task.output_loss(output, task.head, task.encoder)
    torch.testing.assert_close(task.loss(batch), early + late)
    assert early > 0


@KINDS
def test_an_answer_that_is_pruned_away_teaches_nothing_wrong(kind):
    task, batch, examples = made(kind, keep=6, first=True)
    batch = replace(batch, label_ids=batch.label_ids * (torch.arange(batch.label_ids.shape[1]) >= 6))
    loss = task.loss(batch)
    assert loss.isfinite()
    predictions = task.predict(batch)
    assert [prediction.example_id for prediction in predictions] == list(examples)
    task.score(predictions, examples)
    task.answers(predictions, examples)


def test_masked_pieces_that_are_pruned_away_count_as_not_told():
    task, batch, examples = made(MaskedLM, keep=12)
    kept = task.encoder(batch).batch.label_ids
    read, masked = ((labels > 0).sum(1) for labels in (kept, batch.label_ids))
    assert (read < masked).all()
    predictions = task.predict(batch)
    assert [one.masked for one in predictions] == masked.tolist()
    nats = torch.tensor([one.nats for one in predictions])
    told = nats - (masked - read) * math.log(VOCABULARY.vocab_size)
    mean = task.output_loss(task.encoder(batch), task.head, task.encoder)
    torch.testing.assert_close(told.sum() / read.sum(), mean, rtol=1e-4, atol=1e-4)
    assert task.score(predictions, examples)["masked_accuracy"] <= read.sum() / masked.sum()


def test_names_of_weights_are_those_of_one_owner():
    task, _, _ = made(CellSelection, learn="both")
    assert "encoder.scores.tokens.weight" in task.state_dict()
    assert not any(name.startswith("early_head.score") for name in task.state_dict())
    assert made(CellSelection)[0].early_head is None


@pytest.mark.parametrize(("kind", "select"), [(kind, select) for kind, choices in SCORED.items() for select in choices])
def test_the_pruner_begins_as_a_run_that_learnt_what_to_choose(kind, select, tmp_path):
    task, _, _ = made(kind, select=select)
    reads = {"vocab_size": VOCABULARY.vocab_size, "lexical_features": task.encoder.embeddings.lexical is not None}
    more = {"aggregation": "weak", "select_one_column": True} if kind is TableQA else {}
    run = kind(TaskContext(Tapas(PRUNER, attention=Sdpa(), **reads)), **more)
    save_file(run.state_dict(), tmp_path / "run.safetensors")
    first = InitialWeights("path", str(tmp_path / "run.safetensors"))
    InitialWeights(inner={"pruner": first}).load(task.encoder, task)
    (place,) = {name for kind_, name in run.head.choices.items() if kind_ == select}
    for name, tensor in getattr(run.head, place).state_dict().items():
        assert torch.equal(getattr(task.encoder.scores, select).state_dict()[name], tensor)
    for name, tensor in task.encoder.pruner.encoder.state_dict().items():
        assert torch.equal(run.encoder.encoder.state_dict()[name], tensor)
