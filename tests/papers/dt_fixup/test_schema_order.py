"""Names of tables and columns in a random order, whenever they are learnt from."""

import numpy as np
import pytest
from music_questions import examples

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import LoaderOptions, TableDataModule
from mate_cli.papers.dt_fixup.schema.relations import NODE_KINDS
from mate_cli.papers.dt_fixup.schema.serializer import SchemaSerializer, shuffle_names
from mate_cli.tokenization.vocabulary import load_tokenizer


class Music:
    splits = ("train", "dev")

    def examples(self, split):
        return examples()


@pytest.fixture(scope="module")
def serializer():
    return SchemaSerializer(load_tokenizer("sample"), max_tokens=128)


def names(encoding, sep):
    """The pieces of each node that is a name, in the order of the text, each behind its [SEP]."""
    found, rows = [], encoding.row_ids.tolist()
    for place, (piece, row) in enumerate(zip(encoding.input_ids.tolist(), rows, strict=True)):
        if encoding.segment_ids[place] and row:
            if rows[place - 1] != row:
                assert encoding.input_ids[place - 1] == sep
                found.append((row, []))
            found[-1][1].append(piece)
    return [(row, tuple(pieces)) for row, pieces in found]


def test_only_the_order_of_names_changes(serializer):
    sep = serializer.tokenizer.sep_id
    for encoding in serializer.encode(examples()):
        mixed = shuffle_names(encoding, np.random.default_rng(3))
        before, after = names(encoding, sep), names(mixed, sep)
        assert before != after
        assert sorted(before) == sorted(after)
        words = int((encoding.segment_ids == 0).argmin()) if encoding.segment_ids.any() else 0
        assert mixed.input_ids[: words - 1].tolist() == encoding.input_ids[: words - 1].tolist()
        assert (mixed.input_ids[-1], mixed.segment_ids[-1]) == (sep, 1)
        assert len(mixed) == len(encoding)
        assert mixed.more is encoding.more


def test_tables_and_columns_are_mixed(serializer):
    (encoding, *_) = serializer.encode(examples())
    first_table = int((encoding.more[NODE_KINDS] == 3).argmax()) + 1
    firsts = {
        names(shuffle_names(encoding, np.random.default_rng(n)), serializer.tokenizer.sep_id)[0][0] for n in range(40)
    }
    assert min(firsts) < first_table <= max(firsts)


def data_module(cache, *, shuffle, rank=0, ranks=1, micro_batch=2, seed=1):
    serializer = SchemaSerializer(load_tokenizer("sample"), max_tokens=128, shuffle=shuffle)
    loading = LoaderOptions(micro_batch, 0, seed, False, 128, cache, rank=rank, ranks=ranks)
    return TableDataModule(Music(), serializer, loading, list, list)


def texts(batches):
    """The pieces of every example in the order of batches, without padding."""
    return [
        (name, tuple(pieces[: mask.sum()].tolist()))
        for batch in batches
        for name, pieces, mask in zip(batch.example_ids, batch.input_ids, batch.attention_mask, strict=True)
    ]


def learnt_from(cache, *, first=0, **options):
    data = data_module(cache, **options)
    ranks, micro = options.get("ranks", 1), options.get("micro_batch", 2)
    data.set_schedule(Schedule(4, micro, 16, ranks), first)
    return texts(data.train_dataloader())


def test_every_time_in_another_order_and_the_same_order_again_after_a_stop(tmp_path):
    whole = learnt_from(tmp_path, shuffle=True)
    assert whole == learnt_from(tmp_path, shuffle=True)
    assert whole[10:] == learnt_from(tmp_path, shuffle=True, first=5)
    assert whole != learnt_from(tmp_path, shuffle=True, seed=2)
    plain = learnt_from(tmp_path, shuffle=False)
    assert [name for name, _ in plain] == [name for name, _ in whole]
    seen = {name: {text for other, text in whole if other == name} for name, _ in whole}
    assert min(map(len, seen.values())) > 3
    assert all(len({text for other, text in plain if other == name}) == 1 for name in seen)


def test_neither_processes_nor_sizes_of_micro_batches_change_an_order(tmp_path):
    whole = sorted(learnt_from(tmp_path, shuffle=True))
    assert sorted(learnt_from(tmp_path, shuffle=True, micro_batch=4)) == whole
    shared = [learnt_from(tmp_path, shuffle=True, rank=rank, ranks=2) for rank in (0, 1)]
    assert sorted(shared[0] + shared[1]) == whole


def test_what_is_evaluated_and_measured_stands_in_the_order_of_the_schema(tmp_path):
    data = data_module(tmp_path, shuffle=True)
    plain = {one.example_id: tuple(one.input_ids.tolist()) for one in data.serializer.encode(examples())}
    for batches in (data.loader("dev"), data.every_batch()):
        assert dict(texts(batches)) == plain
