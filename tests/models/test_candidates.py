"""BERT over candidates side by side: each is read as transformers' BERT reads it alone; heads and losses on top."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from transformers import BertConfig, BertModel

from mate_cli.attention.backends.auto import Auto
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.backends.segments import Segments
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.losses import soft_cross_entropy
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.candidates import Candidates
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.papers.hybrider.tasks import CandidateHead
from mate_cli.tokenization.layout import TableEncoding

SIZE = EncoderSize(32, 2, 4, 64)
WORDS = 60


def encoding(lengths, name="q", right=(), side=None):
    """Candidates of random words, whose first half is of segment 1."""
    random = np.random.default_rng(len(lengths))
    tokens = np.zeros((9, sum(lengths)), np.int64)
    tokens[0] = random.integers(5, WORDS, sum(lengths))
    tokens[1] = np.concatenate([np.arange(n) < n // 2 for n in lengths])
    tokens[2], tokens[3] = 1, np.repeat(np.arange(len(lengths)) + 1, lengths)
    tokens[8] = np.isin(tokens[3] - 1, right)
    return TableEncoding(*tokens, example_id=name, cell_features=side)


def batch_of(*encodings):
    return collate(encodings, reset_positions=True, max_positions=SIZE.max_positions)


@pytest.fixture(scope="module")
def bert():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    return BertModel(config).eval()


@pytest.fixture(params=[Sdpa, Segments, Auto], ids=lambda backend: backend.__name__)
def network(request, bert, tmp_path):
    folder = tmp_path / "bert"
    folder.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in bert.state_dict().items()}, folder / "model.safetensors")
    bert.config.save_pretrained(folder)
    model = Candidates(SIZE, attention=request.param(), vocab_size=WORDS).eval()
    report = InitialWeights("path", str(folder), new_token_types="zero").load(model)
    assert not report.new
    return model


def test_every_candidate_is_read_as_if_it_stood_alone(network, bert):
    encodings = [encoding([7, 3, 12], "a"), encoding([5, 9], "b")]
    batch = batch_of(*encodings)
    states = network(batch).states
    for row, one in enumerate(encodings):
        for candidate in range(1, one.row_ids.max() + 1):
            places = np.flatnonzero(one.row_ids == candidate)
            words, types = (torch.tensor(x[places])[None].long() for x in (one.input_ids, one.segment_ids))
            expected = bert(words, token_type_ids=types)
            torch.testing.assert_close(states[row, places], expected.last_hidden_state[0], atol=1e-5, rtol=1e-5)
            pooled = network.pooler(states[row, places][None])
            torch.testing.assert_close(pooled, expected.pooler_output, atol=1e-5, rtol=1e-5)


class FirstToken(nn.Module):
    """A pooler that does nothing."""

    def forward(self, states):
        return states[:, 0]


def test_the_head_scores_the_first_token_of_each_candidate():
    torch.manual_seed(1)
    head = CandidateHead(32)
    batch = batch_of(encoding([2, 3, 1], "a", right=[1]), encoding([4, 2], "b", right=[0, 1]))
    states = torch.randn(*batch.input_ids.shape, 32)
    found = head(EncoderOutput(states, states[:, 0], batch), FirstToken())
    assert found.mask.tolist() == [[True, True, True], [True, True, False]]
    assert found.right.tolist() == [[False, True, False], [True, True, False]]
    torch.testing.assert_close(found.logits[0], head.score(states[0, [0, 2, 5]]).squeeze(-1))
    torch.testing.assert_close(found.logits[1, :2], head.score(states[1, [0, 4]]).squeeze(-1))


def test_side_features_are_those_of_the_candidate():
    torch.manual_seed(1)
    head = CandidateHead(32, (10, 3))
    side = np.array([[9, 2], [0, 1]], np.float32)
    batch = batch_of(encoding([2, 3], side=side))
    states = torch.zeros(1, 5, 32)
    expected = [
        head.score(torch.cat([torch.zeros(32), head.side[0].weight[a], head.side[1].weight[b]]))
        for a, b in side.astype(int)
    ]
    torch.testing.assert_close(
        head(EncoderOutput(states, states[:, 0], batch), FirstToken()).logits[0], torch.cat(expected)
    )


def test_soft_cross_entropy_is_the_formula():
    logits = torch.tensor([[1.0, 2.0, 0.5], [0.0, 3.0, 9.0], [1.0, 1.0, 1.0]])
    mask = torch.tensor([[True, True, True], [True, True, False], [True, True, True]])
    right = torch.tensor([[True, False, True], [True, False, True], [False, False, False]])
    p = logits[0].softmax(-1)
    first = -(0.5 * (p[0] + 1e-8).log() + 0.5 * (p[2] + 1e-8).log())
    second = -(logits[1, :2].softmax(-1)[0] + 1e-8).log()
    loss = soft_cross_entropy(logits, mask, right)
    torch.testing.assert_close(loss, torch.stack([first, second, torch.tensor(0.0)]), atol=1e-5, rtol=1e-5)


def test_the_loss_of_impossible_candidates_has_a_gradient():
    logits = torch.tensor([[0.0, 200.0, 7.0]], requires_grad=True)
    soft_cross_entropy(
        logits, torch.tensor([[True, True, False]]), torch.tensor([[True, False, True]])
    ).sum().backward()
    assert logits.grad.isfinite().all()
    assert logits.grad[0, 2] == 0
