"""The network over cells: what it needs, and that the row is learnt from elsewhere in the row."""

from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.lexical import Lexical
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.lexical import LexicalSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


@pytest.fixture(scope="module")
def batch():
    table = Table("t", (Cell("a"), Cell("b")), ((Cell("ohio"), Cell("1")), (Cell("utah"), Cell("2"))))
    encodings = LexicalSerializer(load_tokenizer("sample")).encode([TableExample("q", "who is from ohio", table)])
    return collate(encodings, reset_positions=True, max_positions=512)


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Lexical(size="tiny", attention=Sdpa(), vocab_size=99).eval()


def test_only_features_count(network, batch):
    states = network(batch).states
    assert torch.equal(network(replace(batch, input_ids=batch.input_ids + 1)).states, states)
    assert not torch.equal(network(replace(batch, cell_features=batch.cell_features + 1)).states, states)


def test_an_encoding_without_features_is_refused(network, batch):
    with pytest.raises(ConfigError, match="encoding=lexical"):
        network(replace(batch, cell_features=None))


def test_weights_over_words_are_refused(network, monkeypatch):
    monkeypatch.setattr("mate_cli.models.checkpoints.files.read_minilm", lambda: object())
    with pytest.raises(ConfigError, match="init=random"):
        InitialWeights(kind="minilm").load(network)
