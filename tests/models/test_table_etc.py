"""TableETC: its links, its slots, and what reaches what through its layers."""

import numpy as np
import pytest
import torch
from batches import batch_from, one_table, pad
from largest_tensor import LargestTensor
from safetensors.torch import save_file

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.layers.global_local import find_links
from mate_cli.models.table_etc import TableEtc
from mate_cli.models.tapas import Tapas

SIZE = EncoderSize(16, 2, 4, 32, 40)


def make(layers=2, radius=2, seed=0, **options):
    torch.manual_seed(seed)
    size = EncoderSize(16, layers, 4, 32, 40)
    return TableEtc(size, attention=Sdpa(), radius=radius, max_distance=3, vocab_size=50, **options).eval()


def links_of(batch):
    return find_links(AttentionPlan(Full(4), batch))


def with_words(batch, words):
    ids = (batch.row_ids, batch.column_ids, batch.segment_ids, batch.attention_mask)
    return batch_from(*ids, input_ids=words, position_ids=batch.position_ids)


def some_table(extra=0):
    random = np.random.default_rng(1)
    batch = pad([one_table(random, 3, 4, 3, 3), one_table(random, 2, 2, 2, 2)], extra)
    words = np.random.default_rng(2).integers(1, 50, (2, 400))[:, : batch.input_ids.shape[1]]
    return with_words(batch, words)


def test_rows_have_the_first_slots_and_columns_the_others():
    """A question, header, body, a row and a column beyond the slots, the last ones within, padding."""
    rows = [[0, 0, 0, 1, 1, 200, 3, 127, 0]]
    columns = [[0, 1, 3, 1, 3, 200, 0, 128, 0]]
    segments = [[0, 1, 1, 1, 1, 1, 1, 1, 0]]
    links = links_of(batch_from(rows, columns, segments, [[1] * 8 + [0]]))
    assert links.slots.tolist() == [0, 1, 3, 127, 128, 130, 255]
    own = [links.slots[linked].tolist() for linked in links.linked[0]]
    assert own == [[], [0, 128], [0, 130], [1, 128], [1, 130], [], [3], [127, 255], []]
    assert links.used.all()


def test_slots_that_only_another_example_needs_are_unused():
    links = links_of(pad([np.array([[1], [2], [1]]), np.array([[1], [5], [2]])]))
    assert links.slots.tolist() == [0, 2, 5, 128, 129]
    assert links.used.tolist() == [[False, True, False, True, False], [False, False, True, False, True]]


def test_slots_begin_with_the_embedding_of_their_row_or_column():
    model = make()
    rows, columns = (model.embeddings.get_submodule(f"token_type_embeddings_{i}").weight for i in (2, 1))
    slots = torch.tensor([0, 5, 127, 128, 255])
    got = model.slot_embeddings(slots, rows, columns)
    kind, norm = model.slot_embeddings.kind.weight, model.slot_embeddings.LayerNorm
    places = [rows[0] + kind[0], rows[5] + kind[0], rows[127] + kind[0], columns[1] + kind[1], columns[128] + kind[1]]
    torch.testing.assert_close(got, norm(torch.stack(places)))


def reached(model, batch, token):
    words = batch.input_ids.clone()
    words[0, token] = 49
    with torch.no_grad():
        change = model(with_words(batch, words)).states - model(batch).states
    return (change.abs().amax(-1)[0] > 1e-7)[batch.attention_mask[0] == 1]


def test_news_from_far_arrive_after_two_layers():
    batch = some_table()
    far = torch.arange(int(batch.attention_mask[0].sum())) > 2
    assert reached(make(layers=1), batch, 0).tolist() == (~far).tolist()
    assert reached(make(layers=2), batch, 0).all()


def test_weights_of_bert_leave_only_what_bert_lacks_new(tmp_path):
    dense = Tapas(SIZE, attention=Sdpa(), vocab_size=50)
    save_file(dense.state_dict(), tmp_path / "model.safetensors")
    model = make()
    report = InitialWeights("path", str(tmp_path)).load(model)
    assert not report.unused
    kinds = ("self.backend.of_", "slot_output", "slot_embeddings")
    assert all(any(kind in name for kind in kinds) for name in report.new)
    first, second = (network.encoder.layer[1].attention["self"].value.weight for network in (model, dense))
    assert torch.equal(first, second)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_memory_grows_with_the_length(dropout):
    size = EncoderSize(16, 1, 4, 32, 40)

    def largest(tokens):
        table = np.array([[1] * tokens, [1 + i * 20 // tokens for i in range(tokens)], [1] * tokens])
        torch.manual_seed(0)
        model = TableEtc(size, attention=Sdpa(), radius=15, vocab_size=50, attention_dropout=dropout)
        with LargestTensor() as mode:
            model(pad([table])).states.square().mean().backward()
        return mode.numel

    peaks = [largest(tokens) for tokens in (512, 1024, 2048)]
    assert peaks[1] == 2 * peaks[0]
    assert peaks[2] == 2 * peaks[1]
