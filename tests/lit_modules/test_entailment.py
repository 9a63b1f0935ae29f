"""True or false statements: the lexical features of a statement have a short way to its class."""

from dataclasses import replace

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.entailment import Entailment, class_logits
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext
from mate_cli.models.mate import MateEncoder
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

TABLE = Table("t", (Cell("Name"), Cell("Year")), ((Cell("Ann"), Cell("1996")), (Cell("Ben"), Cell("2001"))))
STATEMENTS = {"the year of ann is 1996": 1, "the year of ann is 2001": 0, "ben has 2001": 1, "ben has 1996": 0}
"""The table has all their words; which of them stand in one row is what tells them apart."""


@pytest.fixture(scope="module")
def batch():
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=40, lexical_features=True)
    examples = [TableExample(text, text, TABLE, Answer((), label=label)) for text, label in STATEMENTS.items()]
    return collate(serializer.encode(examples), reset_positions=True, max_positions=64)


def task(*, lexical_features):
    torch.manual_seed(0)
    size = EncoderSize(8, 2, 2, 16, 64)
    vocab_size = load_tokenizer("sample").vocab_size
    return Entailment(
        TaskContext(MateEncoder(size, attention=Sdpa(), vocab_size=vocab_size, lexical_features=lexical_features))
    ).eval()


def test_data_with_more_classes_than_the_task_are_refused():
    statement = TableExample("a", "a", TABLE, Answer((), label=2))
    with pytest.raises(ConfigError, match=r"task\.labels=\[refuted,entailed,neutral\]"):
        task(lexical_features=False).training_examples([statement])


@pytest.mark.trains
def test_a_head_learns_from_lexical_features_with_any_network(batch):
    own = task(lexical_features=True)
    own.encoder.requires_grad_(False)
    optimizer = torch.optim.Adam(own.head.parameters(), lr=0.03)
    for _ in range(150):
        optimizer.zero_grad()
        own.loss(batch).backward()
        optimizer.step()
    assert [verdict.label for verdict in own.predict(batch)] == list(STATEMENTS.values())


def test_cells_count_wherever_they_stand_and_padding_does_not(batch):
    own, pooled = task(lexical_features=True), torch.zeros(len(STATEMENTS), 8)

    def scores(features, mask=batch.attention_mask):
        seen = replace(batch, cell_features=features, attention_mask=mask)
        return class_logits(EncoderOutput(pooled[:, None], pooled, seen), own.head)

    features, mask = batch.cell_features, batch.attention_mask
    longer = torch.cat([features, torch.full_like(features, 9.0)], 1)
    padding = torch.cat([mask, torch.zeros_like(mask)], 1)
    torch.testing.assert_close(scores(features), scores(longer.flip(1), padding.flip(1)))
    assert not torch.equal(scores(features), scores(longer, torch.ones_like(padding)))
    together, apart = torch.zeros_like(features), torch.zeros_like(features)
    together[:, 1, :2] = apart[:, 1, 0] = apart[:, 2, 1] = 1
    assert not torch.allclose(scores(together), scores(apart)), "what one cell has counts, not what all have"


def test_without_them_the_head_is_one_layer(batch):
    own = task(lexical_features=False)
    assert {name for name, _ in own.head.named_parameters()} == {"weight", "bias"}
    assert own.predict(batch) == own.predict(replace(batch, cell_features=None))
