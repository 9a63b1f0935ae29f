import hashlib
import importlib
import math
import os
import sys
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.cache import VERSION, encode_split, prune_cache
from mate_cli.data.loading.collate import collate
from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.data.loading.table_data_module import LoaderOptions, TableDataModule
from mate_cli.errors import DataError
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell
from mate_cli.tokenization.layout import ARRAYS, SHARED_ARRAYS, Array, TableEncoding, declared_arrays
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


@pytest.fixture(scope="module")
def examples():
    return Sample().examples("dev")[:20]


@pytest.fixture
def serializer():
    return TapasSerializer(load_tokenizer("sample"), max_tokens=96)


def test_encodings_read_back_equal_those_written(examples, serializer, tmp_path):
    split = encode_split(examples, serializer, tmp_path, "dev")
    fresh = serializer.encode(examples)
    assert len(split) == len(fresh) == 20
    for index, encoding in enumerate(fresh):
        assert split[index].example_id == encoding.example_id
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(split[index], name), getattr(encoding, name))
        assert split[index].cut.tolist() == encoding.cut.tolist()
    assert split.lengths.tolist() == [len(encoding) for encoding in fresh]
    assert split.untruncated_lengths == {encoding.example_id: encoding.uncut_tokens for encoding in fresh}
    assert split.cuts.tolist() == [encoding.cut.tolist() for encoding in fresh]


SIZES = {"T": (5, 7), "K": (3, 2), "A": (4, 6), "S": (3, 3), "F": (2, 2)}
"""Of two examples, by axis; tokens lie in three cells."""


def drawn(place: int, name: str, one: Array):
    shape = [axis if isinstance(axis, int) else SIZES[axis][place] for axis in one.axes]
    values = np.random.default_rng(len(name)).integers(1, 3, shape)
    values = values.astype(one.dtype)
    return values if one.axes else values.item()


def of_every_array(place: int, *, without=()) -> TableEncoding:
    known = {n: drawn(place, n, one) for n, one in declared_arrays(TableEncoding).items() if n not in without}
    tokens = SIZES["T"][place]
    known |= {"row_ids": np.ones(tokens, int), "column_ids": np.minimum(np.arange(tokens), 2)}
    return TableEncoding(**known, example_id=str(place))


def test_an_array_is_kept_and_padded_as_it_is_declared(examples, serializer, tmp_path, monkeypatch):
    whole = [of_every_array(place) for place in range(2)]
    monkeypatch.setattr(TapasSerializer, "encode", lambda *_: whole)
    split = encode_split(examples[:2], serializer, tmp_path, "dev")
    batch = collate([split[0], split[1]], reset_positions=False, max_positions=512)
    for name in declared_arrays(TableEncoding):
        for place, encoding in enumerate(whole):
            np.testing.assert_array_equal(getattr(split[place], name), getattr(encoding, name))
    for name, one in SHARED_ARRAYS.items():
        tensor = getattr(batch, name)
        assert tensor.dtype == (torch.float32 if one.is_float else torch.int64)
        for place, encoding in enumerate(whole):
            values = getattr(encoding, name)
            values = values[encoding.cells] if one.axes[:1] == ("S",) else np.asarray(values)
            inside = tuple(map(slice, values.shape))
            np.testing.assert_array_equal(tensor[place][inside], values)
            padding = tensor[place].clone()
            padding[inside] = one.fill
            torch.testing.assert_close(padding, torch.full_like(padding, one.fill), equal_nan=True)


def test_an_array_that_some_examples_lack_is_padding_there_and_one_that_all_lack_is_none(
    examples, serializer, tmp_path, monkeypatch
):
    optional = {field.name for field in fields(TableEncoding) if field.default is None}
    some = [of_every_array(0, without=optional), of_every_array(1)]
    monkeypatch.setattr(TapasSerializer, "encode", lambda *_: some)
    split = encode_split(examples[:2], serializer, tmp_path, "dev")
    assert {name for name in optional if getattr(split[0], name) is None} == optional
    mixed = collate([split[0], split[1]], reset_positions=False, max_positions=512)
    lacking = collate([split[0]], reset_positions=False, max_positions=512)
    for name in optional & set(SHARED_ARRAYS):
        tensor, fill = getattr(mixed, name)[0], SHARED_ARRAYS[name].fill
        torch.testing.assert_close(tensor, torch.full_like(tensor, fill), equal_nan=True)
        if SHARED_ARRAYS[name].axes:
            assert getattr(lacking, name) is None


SHARES = Array(("T",), "float32", fill=math.nan, name="shares")
PAIRS = Array(("K", "K"), "uint8", name="pairs")
MARK = Array((), "int8", fill=-1, name="mark")


class Adding(TapasSerializer):
    """Adds arrays to every other encoding."""

    arrays = (SHARES, PAIRS, MARK)

    def encode(self, examples):
        found = super().encode(examples)
        pairs = np.ones((2, 2), int)
        for place in range(1, len(found), 2):
            shares = np.full(len(found[place]), 0.5, np.float32)
            found[place] = replace(found[place], more={SHARES: shares, PAIRS: pairs, MARK: 3})
        return found


def test_arrays_that_a_serializer_adds_reach_every_batch(examples, serializer, tmp_path):
    adding = Adding(serializer.tokenizer, max_tokens=96)
    split = encode_split(examples[:4], adding, tmp_path, "dev")
    assert [len(split[place].more) for place in range(4)] == [0, 3, 0, 3]
    data = TableDataModule(Sample(), adding, loading(tmp_path, workers=1), list, list)
    (batch,) = data.build_eval_loader(examples[:4], "dev")
    for row, place in enumerate(map(split.example_ids.index, batch.example_ids)):
        length, is_added = len(split[place]), place % 2
        shares = batch.more[SHARES][row]
        assert (shares[:length] == 0.5).all() == is_added
        assert shares[length:].isnan().all()
        assert batch.more[PAIRS][row].tolist() == [[is_added] * 2] * 2
        assert batch.more[MARK][row] == (3 if is_added else -1)
    kept = batch.keep(torch.tensor([[2, 0]] * 4))
    torch.testing.assert_close(kept.more[SHARES], batch.more[SHARES][:, [2, 0]], equal_nan=True)
    assert kept.more[PAIRS] is batch.more[PAIRS]
    assert kept.to("meta").more[MARK].device.type == "meta"
    assert collate([split[0]], reset_positions=False, max_positions=512).more == {}


OWN = """
from mate_cli.tokenization.serializers.tapas import TapasSerializer

class Own(TapasSerializer):
    ADDED = {}
"""


def test_the_code_of_ones_own_serializer_is_in_the_key_without_comments_and_docstrings(
    examples, serializer, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("0", "1", "0", '0  # a comment\n    "A docstring."'):
        (tmp_path / "own_serializer.py").write_text(OWN.format(text))
        monkeypatch.delitem(sys.modules, "own_serializer", raising=False)
        importlib.invalidate_caches()
        own = importlib.import_module("own_serializer").Own(serializer.tokenizer, max_tokens=96)
        encode_split(examples, own, tmp_path, "dev")
    assert len(list(tmp_path.glob("*.arrow"))) == 2


def test_everything_that_shapes_encodings_is_in_the_key(examples, serializer, tmp_path):
    first = examples[0]
    (cell, *others), *below = first.table.rows
    other_cell, other_links = (
        replace(first.table, rows=((changed, *others), *below))
        for changed in (Cell("changed"), replace(cell, links=("/wiki/another",)))
    )
    variants = [
        (examples, serializer),
        (examples[:-1], serializer),
        ([replace(first, question="another"), *examples[1:]], serializer),
        ([replace(first, answer=None), *examples[1:]], serializer),
        ([replace(first, table=other_cell), *examples[1:]], serializer),
        ([replace(first, table=other_links), *examples[1:]], serializer),
        ([replace(first, table=replace(first.table, passages={})), *examples[1:]], serializer),
        ([replace(first, table=replace(first.table, title="another")), *examples[1:]], serializer),
        ([replace(first, table=replace(first.table, section_title="another")), *examples[1:]], serializer),
        (examples, TapasSerializer(serializer.tokenizer, max_tokens=97)),
        (examples, TapasSerializer(serializer.tokenizer, max_tokens=96, sentences=1)),
    ]
    for some, how in variants:
        encode_split(some, how, tmp_path, "dev")
    assert len(list(tmp_path.glob("*.arrow"))) == len(variants)


@dataclass(frozen=True, slots=True)
class Tagged(TableExample):
    tags: object = ()


def test_fields_of_a_new_kind_of_example_are_in_the_key(examples, serializer, tmp_path):
    known = {field.name: getattr(examples[0], field.name) for field in fields(TableExample)}
    for tags in ("a", ("a", "b"), Cell("a"), Cell("b"), (Cell("a"),)):
        encode_split([Tagged(**known, tags=tags)], serializer, tmp_path, "dev")
    assert len(list(tmp_path.glob("*.arrow"))) == 5
    with pytest.raises(DataError, match=r"examples with a set cannot be cached. Use only texts, numbers, tuples"):
        encode_split([Tagged(**known, tags={"a"})], serializer, tmp_path, "dev")


def test_reset_positions_begin_at_zero_in_every_cell(examples, serializer):
    batch = collate(serializer.encode(examples[:1]), reset_positions=True, max_positions=512)
    seen: dict[tuple[int, int], int] = {}
    rows, columns, positions = (getattr(batch, n)[0].tolist() for n in ("row_ids", "column_ids", "position_ids"))
    for row, column, position in zip(rows, columns, positions, strict=True):
        assert position == seen.get((row, column), 0)
        seen[row, column] = position + 1


def loading(tmp_path, workers):
    return LoaderOptions(4, workers, seed=1, reset_positions=False, max_positions=512, cache=tmp_path, limit_train=40)


def test_workers_do_not_change_the_order(serializer, tmp_path):
    orders = []
    for workers in (0, 2):
        data = TableDataModule(Sample(), serializer, loading(tmp_path, workers), list, list)
        data.set_schedule(Schedule(batch_size=4, micro_batch=4, total_steps=12))
        orders.append([batch.example_ids for batch in data.train_dataloader()])
    assert orders[0] == orders[1]
    assert len(orders[0]) == 12


def test_encodings_in_memory_are_those_on_disk(examples, serializer, tmp_path):
    wide = replace(examples[0].table, header=(Cell("x"),) * 300, rows=((Cell("y"),) * 300,))
    some = [*examples[:3], replace(examples[3], table=wide), *examples[4:]]
    split, made = encode_split(some, serializer, tmp_path, "dev"), EncodedExamples(some, serializer)
    assert (made.example_ids, made.failures, len(made)) == (split.example_ids, split.failures, len(split))
    assert list(made.failures) == [some[3].example_id]
    assert (made.lengths.tolist(), made.cuts.tolist()) == (split.lengths.tolist(), split.cuts.tolist())
    data = TableDataModule(Sample(), serializer, loading(tmp_path, 0), list, list)
    for ours, theirs in zip(data.loader_encoded(made), data.loader_encoded(split), strict=True):
        assert ours.example_ids == theirs.example_ids
        for name in ARRAYS:
            assert torch.equal(getattr(ours, name), getattr(theirs, name))


def test_what_is_mostly_zero_takes_little_room_and_comes_back_bit_for_bit(examples, tmp_path):
    lexical = TapasSerializer(load_tokenizer("sample"), max_tokens=96, lexical_features=True)
    split, fresh = encode_split(examples, lexical, tmp_path, "dev"), lexical.encode(examples)
    dense = 0
    for index, encoding in enumerate(fresh):
        dense += encoding.cell_features.nbytes
        assert split[index].cell_features.tobytes() == encoding.cell_features.astype(np.float32).tobytes()
        assert split[index].cell_features.shape == encoding.cell_features.shape
    (file,) = tmp_path.glob("*.arrow")
    assert file.stat().st_size < dense, "all arrays take less than one took"


def test_what_nobody_has_opened_for_long_is_pruned(examples, serializer, tmp_path):
    for count in (5, 10):
        encode_split(examples[:count], serializer, tmp_path, "dev")
    files = list(tmp_path.glob("*.arrow"))
    for file in files:
        os.utime(file, (0, 0))
    encode_split(examples[:5], serializer, tmp_path, "dev")  # to open it is to use it
    for name in ("other.json", "table.arrow"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    count, size = prune_cache(tmp_path, days=30)
    assert (count, [file.exists() for file in files].count(True)) == (1, 1)
    assert size > 0
    assert {file.name for file in tmp_path.iterdir()} >= {"other.json", "table.arrow"}


RECORDED = "1 159f0d5c14912249"
"""Of the encodings of the sample by this version of the code."""


def test_a_change_of_the_code_that_changes_encodings_raises_their_version(examples):
    """Where this fails, raise VERSION in mate_cli/data/loading/cache.py, and record both anew."""
    digest = hashlib.sha256()
    for max_tokens in (64, 128):
        made = TapasSerializer(load_tokenizer("sample"), max_tokens=max_tokens, lexical_features=True).encode(examples)
        for encoding in made:
            for name in declared_arrays(TableEncoding):
                digest.update(
                    np.ascontiguousarray(getattr(encoding, name)).tobytes()
                    if getattr(encoding, name) is not None
                    else b"-"
                )
    assert f"{VERSION} {digest.hexdigest()[:16]}" == RECORDED
