"""The head against transformers' BERT, the loss against its definition."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mate_cli.attention.backends.eager import Eager
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.masked_lm import MaskedLM, MaskedPieces, masked_logits
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas
from mate_cli.runs.checkpoints import save_module
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.masking import GeneratorDraws, MaskingSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

VOCABULARY = load_tokenizer("sample")
SIZE = EncoderSize(hidden_size=32, num_layers=2, num_heads=4, intermediate_size=48, max_positions=64)
TABLE = Table(
    "t", (Cell("name"), Cell("year")), tuple((Cell(f"name {year}"), Cell(str(year))) for year in range(1990, 2000))
)


def task_of(network=MateEncoder, words=VOCABULARY.vocab_size):
    torch.manual_seed(3)
    encoder = network(SIZE, attention=Eager(), vocab_size=words)
    return MaskedLM(TaskContext(encoder)).eval()


def batch_of(count=4, seed=0):
    serializer = MaskingSerializer(VOCABULARY, max_tokens=48)
    known = serializer.tokenize_table(TABLE, ["the table has names and years", "and more names"])
    draws = [GeneratorDraws(np.random.default_rng((seed, number))) for number in range(count)]
    examples = [serializer.mask(known, own, f"e{number}") for number, own in enumerate(draws)]
    return collate(examples, reset_positions=False, max_positions=64)


def by_hand(task, batch):
    """Scores of all pieces at all places, the slow way."""
    states = task.encoder(batch).states
    hidden = task.head.LayerNorm(torch.nn.functional.gelu(task.head.dense(states)))
    return hidden @ task.encoder.embeddings.word_embeddings.weight.T + task.head.bias


def test_the_loss_is_the_mean_over_masked_pieces_and_nothing_else():
    task, batch = task_of(), batch_of()
    logits = by_hand(task, batch).log_softmax(-1)
    places = (batch.label_ids > 0).nonzero().tolist()
    nats = [-float(logits[b, t, batch.label_ids[b, t]].detach()) for b, t in places]
    assert task.loss(batch).item() == pytest.approx(sum(nats) / (len(nats) + 1e-5), rel=1e-4)
    assert task.loss(batch).item() == pytest.approx(math.log(VOCABULARY.vocab_size), rel=0.1)  # knows nothing yet


def test_words_learn_as_input_and_as_output():
    task, batch = task_of(), batch_of()
    task.loss(batch).backward()
    gradient = task.encoder.embeddings.word_embeddings.weight.grad
    read = set(batch.input_ids.unique().tolist())
    never_read = [piece for piece in range(1, VOCABULARY.vocab_size) if piece not in read]
    assert (gradient[never_read].abs().sum(1) > 0).all()
    assert "word_embeddings" not in "".join(name for name, _ in task.head.named_parameters())  # one table, not two


@pytest.mark.trains
def test_it_learns_a_table_by_heart():
    task, batch = task_of().train(), batch_of(8)
    optimizer = torch.optim.Adam(task.parameters(), lr=1e-2)
    first = task.loss(batch).item()
    for _ in range(40):
        optimizer.zero_grad()
        loss = task.loss(batch)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5 * first


def test_predictions_add_up_to_the_loss():
    task, batch = task_of(), batch_of()
    found = task.predict(batch)
    assert [one.example_id for one in found] == list(batch.example_ids)
    assert [one.masked for one in found] == (batch.label_ids > 0).sum(1).tolist()
    scores = task.score(found, {})
    masked = sum(one.masked for one in found)
    assert math.log(scores["perplexity"]) == pytest.approx(task.loss(batch).item(), rel=1e-4)
    logits = by_hand(task, batch)
    right = int(((logits.argmax(-1) == batch.label_ids) & (batch.label_ids > 0)).sum())
    assert scores["masked_accuracy"] == pytest.approx(right / masked)


def test_scores_of_nothing_and_of_the_worst():
    task = task_of()
    assert task.score([], {}) == {}
    assert task.score([MaskedPieces("e", 1, 0, 1e9)], {})["perplexity"] == pytest.approx(math.exp(50))
    assert task.is_correct(MaskedPieces("e", 3, 3, 0.1), None)
    assert not task.is_correct(MaskedPieces("e", 3, 2, 0.1), None)


def test_the_head_of_a_bert_checkpoint_is_loaded_and_scores_as_transformers_does(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=VOCABULARY.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
    )
    torch.manual_seed(4)
    bert = transformers.BertForMaskedLM(config).eval()
    for parameter in bert.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    bert.save_pretrained(tmp_path)
    task = task_of(Tapas)
    report = InitialWeights("path", str(tmp_path), new_token_types="zero").load(task.encoder, task)
    assert sum("head" in name for name in report.loaded) == 5
    assert not [name for name in report.new if "head" in name]
    batch = batch_of()
    own = replace(
        batch, **{name: torch.zeros_like(batch.row_ids) for name in ("row_ids", "column_ids", "column_ranks")}
    )
    own = replace(own, inverse_column_ranks=own.row_ids)
    with torch.no_grad():
        theirs = bert(input_ids=own.input_ids, token_type_ids=own.segment_ids, attention_mask=own.attention_mask).logits
        masked = own.label_ids > 0
        ours, labels, _ = masked_logits(task.encoder(own), task.head, task.encoder)
    assert torch.allclose(ours, theirs[masked], atol=1e-4)
    assert labels.tolist() == own.label_ids[masked].tolist()


def test_weights_go_on_to_more_pre_training_and_to_other_tasks(tmp_path):
    task = task_of()
    torch.nn.init.normal_(task.head.bias)
    save_module(task, tmp_path / "final.safetensors")
    again = MaskedLM(TaskContext(MateEncoder(SIZE, attention=Eager(), vocab_size=VOCABULARY.vocab_size)))
    InitialWeights("path", str(tmp_path / "final.safetensors")).load(again.encoder, again)
    batch = batch_of()
    assert torch.equal(again.eval().loss(batch), task.loss(batch))


def test_damaged_heads_stay_new(tmp_path):
    task = task_of()
    state = {name: tensor.clone() for name, tensor in task.state_dict().items()}
    state["head.bias"] = torch.zeros(3)
    save_file(state, tmp_path / "final.safetensors")
    report = InitialWeights("path", str(tmp_path / "final.safetensors")).load(task.encoder, task)
    assert "head.bias" in report.new
