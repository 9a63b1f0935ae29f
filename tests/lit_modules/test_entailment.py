"""True or false statements: the lexical features of a statement have a short way to its class."""

from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.collate import collate
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.models.mate import Mate
from mate_cli.models.sizes import EncoderSize
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

TABLE = Table("t", (Cell("Name"), Cell("Year")), ((Cell("Ann"), Cell("1996")), (Cell("Ben"), Cell("2001"))))
STATEMENTS = {"the year of ann is 1996": 1, "the year of ann is 2044": 0, "ben has 2001": 1, "ben has 1812": 0}


@pytest.fixture(scope="module")
def batch():
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=40, lexical_features=True)
    examples = [TableExample(text, text, TABLE, Answer((), label=label)) for text, label in STATEMENTS.items()]
    return collate(serializer.encode(examples), reset_positions=True, max_positions=64)


def task(*, lexical_features):
    torch.manual_seed(0)
    size = EncoderSize(8, 2, 2, 16, 64)
    vocab_size = load_tokenizer("sample").vocab_size
    return Entailment(Mate(size, attention=Sdpa(), vocab_size=vocab_size, lexical_features=lexical_features)).eval()


def test_a_head_learns_from_lexical_features_with_any_network(batch):
    own = task(lexical_features=True)
    own.encoder.requires_grad_(False)
    optimizer = torch.optim.Adam(own.head.parameters(), lr=0.03)
    for _ in range(150):
        optimizer.zero_grad()
        own.loss(batch).backward()
        optimizer.step()
    assert [verdict.label for verdict in own.predict(batch)] == list(STATEMENTS.values())


def test_the_largest_of_any_cell_count_and_padding_does_not(batch):
    own = task(lexical_features=True)
    pooled, features = torch.zeros(len(STATEMENTS), 8), batch.cell_features
    assert features.min() >= 0
    padded = torch.cat([features.flip(1), torch.zeros_like(features)], 1)
    assert torch.equal(own.head(pooled, features), own.head(pooled, padded))
    assert not torch.equal(own.head(pooled, features), own.head(pooled, features + 1))


def test_without_them_the_head_is_one_layer(batch):
    own = task(lexical_features=False)
    assert {name for name, _ in own.head.named_parameters()} == {"weight", "bias"}
    assert own.predict(batch) == own.predict(replace(batch, cell_features=None))
