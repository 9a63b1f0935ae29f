"""Streams of examples: the same batches whoever loads them, from wherever a run goes on."""

import pickle
from dataclasses import replace
from functools import partial
from itertools import islice

import pytest
import torch

from mate_cli.data.corpora.shards import (
    BLOCK,
    CorpusTable,
    Shard,
    ShardSequence,
    StreamedTable,
    deal_shards,
    open_shards,
    read_shard,
    write_shard,
)
from mate_cli.data.corpora.statement_tables import StatementTables
from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.stream import StreamDataModule, StreamedDataset, StreamOrder, TableStream
from mate_cli.data.loading.table_data_module import LoaderOptions
from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.masking import MaskingSerializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")
VOCABULARY = load_tokenizer("sample")
MASKING = MaskingSerializer(VOCABULARY, max_tokens=48)
READING = TapasSerializer(VOCABULARY, max_tokens=128, sentences=0, drop_rows_to_fit=False)
MASKED = TableCorpus("nowhere", "nowhere").maker(MASKING)
MAKERS = {"masked": MASKED, "statements": StatementTables("nowhere", "nowhere").maker(READING)}


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """The sample's tables in four files of different length."""
    folder = tmp_path_factory.mktemp("shards")
    tables = list({id(e.table): e.table for e in Sample().examples("train")}.values())
    for number, (begin, end) in enumerate(((0, 10), (10, 30), (30, 40), (40, 60))):
        write_shard(folder / f"{number}.parquet", [CorpusTable.build(table, "sample") for table in tables[begin:end]])
    return open_shards(sorted(folder.glob("*.parquet")))


def loading(tmp_path, **options):
    known = {"micro_batch": 3, "workers": 0, "seed": 5, "reset_positions": False, "max_positions": 512}
    return LoaderOptions(**{**known, "cache": tmp_path, **options})


def stream(shards, tmp_path, masks="dynamic", **options):
    return TableStream(shards, MASKED, loading(tmp_path, **options), masks)


def names(batch):
    return list(batch.example_ids)


def differing(first, second):
    """By name, what of one batch is another in the other."""
    others = second.tensors()
    names = [] if first.example_ids == second.example_ids else ["example_ids"]
    return names + [
        name for name, own in first.tensors().items() if not torch.equal(own.nan_to_num(), others[name].nan_to_num())
    ]


class Corpus(StreamedDataset):
    def __init__(self, shards, kind):
        self._shards, self._kind = shards, kind

    files = property(lambda self: self._shards)
    facts = property(lambda self: {})

    def examples(self, split):
        return []

    def maker(self, serializer):
        return MAKERS[self._kind]


def module(shards, tmp_path, kind="masked", first_batch=0, ranks=1, rank=0, **options):
    own = loading(tmp_path, rank=rank, ranks=ranks, **options)
    data = StreamDataModule(Corpus(shards, kind), MASKING, own, list, list)
    data.set_schedule(Schedule(batch_size=6, micro_batch=3, total_steps=11, ranks=ranks), first_batch)
    return data


def batches(*arguments, **options):
    return list(module(*arguments, **options).train_dataloader())


@pytest.fixture(scope="module", params=list(MAKERS))
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def alone(shards, tmp_path_factory, kind):
    """What one process sees that loads by itself."""
    return batches(shards, tmp_path_factory.mktemp("alone"), kind)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 4])
def test_any_number_of_workers_gives_the_same_stream(shards, tmp_path, kind, alone, workers):
    loaded = batches(shards, tmp_path, kind, workers=workers)
    assert len(loaded) == len(alone) == 22
    for one, other in zip(loaded, alone, strict=True):
        assert differing(one, other) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "workers"), [(1, 0), (7, 0), (15, 3)])
def test_a_resumed_run_goes_on_with_the_same_batches(shards, tmp_path, kind, alone, first, workers):
    loaded = batches(shards, tmp_path, kind, first_batch=first, workers=workers)
    assert len(loaded) == len(alone) - first
    for one, other in zip(loaded, alone[first:], strict=True):
        assert differing(one, other) == []


def test_processes_that_train_together_share_each_step(shards, tmp_path, kind, alone):
    shares = [batches(shards, tmp_path, kind, ranks=2, rank=rank) for rank in (0, 1)]
    assert [len(share) for share in shares] == [11, 11]
    for step in range(11):
        for rank in (0, 1):
            assert differing(shares[rank][step], alone[2 * step + rank]) == []


def test_every_epoch_has_all_tables_once_in_another_order(shards, tmp_path):
    lane = ShardSequence(list(enumerate(shards)), (5, 2, 0))
    assert lane.size == sum(shard.tables for shard in shards)
    epochs = [list(lane.rows(epoch * lane.size, (epoch + 1) * lane.size)) for epoch in range(2)]
    orders = [[(row.shard, row.row) for row in rows] for rows in epochs]
    everything = sorted((number, row) for number, shard in enumerate(shards) for row in range(shard.tables))
    assert [sorted(order) for order in orders] == [everything] * 2
    of_first = [[row for number, row in order if number == 0] for order in orders]
    assert of_first[0] != of_first[1]
    assert {row.epoch for row in epochs[1]} == {1}


def test_held_out_tables_are_never_learnt_from(shards):
    held_out = {table.key for shard in shards for table in islice(read_shard(shard.path), shard.held_out)}
    lane = ShardSequence(list(enumerate(shards)), (5, 2, 0))
    learnt = {row.read().key for row in lane.rows(0, lane.size)}
    assert len(held_out) == 6
    assert not learnt & held_out
    assert len(learnt) == lane.size


def test_long_files_are_mixed_in_blocks_that_can_be_found_again(tmp_path):
    tables = [Table(str(n), (Cell("n"),), ((Cell(str(n)),),)) for n in range(2 * BLOCK + 70)]
    write_shard(tmp_path / "long.parquet", [CorpusTable.build(table, "s") for table in tables])
    (shard,) = open_shards([tmp_path / "long.parquet"])
    rows = [(row.row, row.read().table.table_id) for row in ShardSequence([(0, shard)], (1,)).rows(0, shard.tables)]
    assert sorted(rows) == [(n, str(n + shard.held_out)) for n in range(shard.tables)]
    assert rows != sorted(rows)
    for begin in (BLOCK + 3, 2 * BLOCK + 1, 1):
        again = ShardSequence([(0, shard)], (1,)).rows(begin, begin + 2)
        assert [(row.row, row.read().table.table_id) for row in again] == rows[begin : begin + 2]
    few = ShardSequence([(0, replace(shard, tables=5))], (1,))
    assert sorted(row.row for row in few.rows(0, 5)) == list(range(5))


def test_masks_are_new_in_every_epoch_or_always_the_same(shards, tmp_path):
    size = len(stream(shards, tmp_path))
    for masks, equal in (("dynamic", False), ("static", True)):
        own = stream(shards[:1], tmp_path, masks)
        seen = {}
        for number in range(9):  # nine tables, three epochs
            batch = own[number]
            for place, name in enumerate(batch.example_ids):
                seen.setdefault(name, set()).add(
                    tuple(batch.input_ids[place][batch.attention_mask[place] == 1].tolist())
                )
        assert len(seen) == 9
        assert all(len(found) == 1 for found in seen.values()) is equal
    assert size == 54


def test_another_seed_gives_another_stream(shards, tmp_path):
    own, other = stream(shards, tmp_path), stream(shards, tmp_path, seed=6)
    assert [names(other[number]) for number in range(6)] != [names(own[number]) for number in range(6)]
    table = StreamedTable(0, 0, 0, partial(next, read_shard(shards[0].path)))
    (first,), (second,) = (stream(shards[:1], tmp_path, seed=seed)._make(table) for seed in (5, 6))
    assert first.label_ids.tolist() != second.label_ids.tolist()


def test_lanes_are_those_of_the_files_and_each_process_reads_its_own(shards, tmp_path):
    own = stream(shards, tmp_path)
    assert len(own.lanes) == 4
    read = {number: {name.partition("/")[0] for name in names(own[number])} for number in range(8)}
    assert all(len(files) == 1 for files in read.values())
    assert read[0] == read[4] != read[1]


def test_lanes_shuffle_files_of_one_size_apart(tmp_path):
    files = [Shard(tmp_path / str(number), 100, 4) for number in range(2)]
    first, second = TableStream(files, MASKED, loading(tmp_path)).lanes
    assert [row.row for row in first.rows(0, 100)] != [row.row for row in second.rows(0, 100)]


@pytest.mark.parametrize("count", [64, 65, 67, 96, 97, 128, 131])
def test_any_number_of_files_mixes_as_well_as_64(tmp_path, count):
    files = [Shard(tmp_path / str(number), 100 + number % 3, 4) for number in range(count)]
    lanes = TableStream(files, MASKED, loading(tmp_path)).lanes
    assert len(lanes) == 64
    assert len({next(lane.rows(0, 1)).shard for lane in lanes}) == 64
    learnt = sorted((row.shard, row.row) for lane in lanes for row in lane.rows(0, lane.size))
    assert learnt == [(number, row) for number, file in enumerate(files) for row in range(file.tables)]
    assert max(lane.size for lane in lanes) < 1.05 * min(lane.size for lane in lanes)


def test_lanes_that_share_files_read_each_table_once(shards):
    files = list(enumerate(shards))
    lanes = [ShardSequence(dealt, (5, 2, lane)) for lane, dealt in enumerate(deal_shards(files, 3))]
    learnt = {(row.shard, row.row): row.read().key for lane in lanes for row in lane.rows(0, lane.size)}
    whole = ShardSequence(files, (1,))
    assert learnt == {(row.shard, row.row): row.read().key for row in whole.rows(0, whole.size)}


def test_a_limit_takes_few_tables_of_each_file(shards, tmp_path):
    assert len(stream(shards, tmp_path, limit_train=8)) == 8


def test_the_order_counts_over_all_processes_and_its_length_is_that_of_the_whole_run():
    schedule = Schedule(batch_size=8, micro_batch=2, total_steps=3, ranks=2)
    assert list(StreamOrder(schedule, 1, 2)) == [5, 7, 9, 11]
    assert len(StreamOrder(schedule, 1, 2)) == 6


def test_steps_are_the_same_for_any_micro_batch_and_epochs_are_exact(shards, tmp_path):
    found = {}
    for micro_batch in (12, 4, 1):
        own = stream(shards, tmp_path, micro_batch=micro_batch)
        own.batch_size = 12
        tables = [name for number in range(8 * 12 // micro_batch) for name in names(own[number])]
        found[micro_batch] = [tables[start : start + 12] for start in range(0, len(tables), 12)]
    assert found[12] == found[4] == found[1]
    epochs = [[name for step in steps for name in step] for steps in (found[12][:4], found[12][4:])]
    assert [len(set(epoch)) for epoch in epochs] == [48, 48]  # of 54 tables, in steps of 12
    assert set(epochs[0]) != set(epochs[1])


def test_lengths_and_costs_are_of_some_examples(shards, tmp_path):
    data = module(shards, tmp_path)
    assert 8 < data.training().lengths.mean() <= 48
    assert sum(len(batch.input_ids) for batch in data.sample_batches(5, 2)) == 5
    assert len(data.training().cuts) == len(data.training().failures) == 0


def test_a_stream_in_use_can_be_sent_to_another_process(shards, tmp_path):
    own = stream(shards, tmp_path)
    first = own[0]
    sent = pickle.loads(pickle.dumps(own))
    assert differing(sent[0], first) == []
    assert differing(sent[5], own[5]) == []


def test_other_encodings_are_refused():
    with pytest.raises(ConfigError, match="encoding=masked"):
        TableCorpus("nowhere", "nowhere").maker(READING)


def test_tables_that_are_good_for_nothing_are_passed_over(shards, tmp_path):
    def mask_few(name, *table):
        return MASKED(name, *table) if name in good else []

    (shard,) = shards[:1]
    good = {"0/4"}
    own = TableStream([shard], mask_few, loading(tmp_path))
    found = [own[number] for number in range(3)]
    assert [names(batch) for batch in found] == [["0/4"]] * 3
    assert sorted(batch.is_filler for batch in found) == [False, True, True]
    good.clear()
    with pytest.raises(DataError, match="no training example can be made"):
        own[0]
