"""Masked examples against the reference's own, and their shares against what they should be."""

import random
from dataclasses import replace

import numpy as np
import pytest
from golden import numbers
from scipy.stats import binomtest

from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.masking import GeneratorDraws, MaskingSerializer
from mate_cli.tokenization.vocabulary import Vocabulary

GOLDEN = numbers("tapas/g10_mlm")
SOURCE = numbers("tapas/g7_conversion_and_pruning")
VOCABULARY = Vocabulary(GOLDEN["vocab"])
MADE = [one for one in GOLDEN["examples"] if one["concatenate_snippets"]]
CONFIDENCE = 1e-6
"""How unlikely a share must be before a test fails; the draws are fixed, so it fails always or never."""


def table_of(name):
    raw = SOURCE["tables"][name]
    return Table(name, tuple(map(Cell, raw["columns"])), tuple(tuple(map(Cell, row)) for row in raw["rows"]))


def texts_of(name):
    return [question for question, _ in SOURCE["questions"][name]]


def serializer(length=128, **options):
    return MaskingSerializer(VOCABULARY, max_tokens=length, **options)


def many(count=3000, length=128, **options):
    """Examples of both tables under different draws, each with its unmasked pieces."""
    own = serializer(length, **options)
    known = [own.tokenize_table(table_of(name), texts_of(name)) for name in ("t1", "t2")]
    return [own.mask(known[number % 2], GeneratorDraws(np.random.default_rng((7, number)))) for number in range(count)]


def original(encoding):
    return np.where(encoding.label_ids > 0, encoding.label_ids, encoding.input_ids)


@pytest.mark.parametrize("golden", MADE, ids=lambda one: f"{one['table']}-{one['seq']}-{one['seed']}")
def test_the_examples_of_the_reference_are_made_exactly(golden):
    """With the same numbers of chance the same window, corner, units and replacements come out."""
    chance = random.Random(golden["seed"])

    class WithRandomTable(MaskingSerializer):
        def text_window(self, texts, draws):
            window = super().text_window(texts, draws)
            if golden["random_table"]:
                chance.random()  # the reference asks here whether to take another table
            return window

    own = WithRandomTable(
        VOCABULARY,
        max_tokens=golden["seq"],
        max_predictions=20,
        min_text=4,
        max_text=16,
        whole_cells=golden["always_continue_cells"],
    )
    read = golden["random_table"] if golden["next_sentence_labels"] == [1] else golden["table"]
    known = replace(
        own.tokenize_table(table_of(read), []),
        texts=own.tokenize_table(table_of(read), texts_of(golden["table"])).texts,
    )
    made = own.mask(known, chance)
    pad = [0] * (golden["seq"] - len(made))
    for ours, theirs in (("input_ids",) * 2, ("segment_ids",) * 2, ("column_ids",) * 2, ("row_ids",) * 2):
        assert getattr(made, ours).tolist() + pad == golden[theirs]
    masked = [
        (place, piece)
        for place, piece, weight in zip(
            golden["masked_lm_positions"], golden["masked_lm_ids"], golden["masked_lm_weights"], strict=True
        )
        if weight
    ]
    assert [(int(place), int(made.label_ids[place])) for place in np.flatnonzero(made.label_ids)] == masked


def test_at_most_fifteen_in_a_hundred_and_nearly_as_many_are_masked():
    for length, most in ((64, 10), (128, 20), (512, 77)):
        assert serializer(length).most_predictions == most
    examples = many()
    counts = np.array([np.count_nonzero(one.label_ids) for one in examples])
    limits = np.array([min(20, round(0.15 * len(one))) for one in examples])
    assert (counts <= limits).all()
    assert (counts >= 1).all()
    assert counts.sum() / limits.sum() > 0.95  # units that would be too much are skipped for smaller ones


def test_of_ten_masked_pieces_eight_become_the_mask_one_stays_one_is_any():
    examples = many()
    labels = np.concatenate([one.label_ids for one in examples])
    shown = np.concatenate([one.input_ids for one in examples])[labels > 0]
    labels = labels[labels > 0]
    random_hits = 0.1 / len(VOCABULARY.tokens)
    masks, kept = int((shown == VOCABULARY.mask_id).sum()), int((shown == labels).sum())
    assert binomtest(masks, len(labels), 0.8 + random_hits).pvalue > CONFIDENCE
    assert binomtest(kept, len(labels), 0.1 + random_hits).pvalue > CONFIDENCE
    others = shown[(shown != VOCABULARY.mask_id) & (shown != labels)]
    assert len(np.unique(others)) > 0.9 * len(VOCABULARY.tokens)  # any piece of the vocabulary


@pytest.mark.parametrize("whole_cells", [True, False])
def test_cells_and_words_are_masked_whole_and_special_pieces_never(whole_cells):
    for one in many(300, whole_cells=whole_cells):
        masked = one.label_ids > 0
        special = np.isin(original(one), (VOCABULARY.cls_id, VOCABULARY.sep_id))
        assert not (masked & special & (one.column_ids == 0)).any()
        inner = VOCABULARY.is_continuation[original(one)]
        if whole_cells:
            inner[1:] |= (one.column_ids[1:] > 0) & (one.column_ids[1:] == one.column_ids[:-1])
        assert (masked[1:] == masked[:-1])[inner[1:]].all()


def test_corners_are_of_all_sizes_and_always_at_the_top_left():
    sizes = set()
    for one in many(600, 64):
        table = one.column_ids > 0
        columns, rows = one.column_ids[table].max(), one.row_ids[table].max()
        sizes.add((columns, rows))
        assert len(one) <= 64
        read = set(zip(one.row_ids[table].tolist(), one.column_ids[table].tolist(), strict=True))
        assert read == {(row, column) for row in range(rows + 1) for column in range(1, columns + 1)}
    assert len(sizes) > 12
    assert (1, 1) not in sizes


def test_windows_of_text_keep_to_their_bounds_and_begin_and_end_at_words():
    own = serializer(min_text=4, max_text=9)
    texts = own.tokenize_table(table_of("t1"), texts_of("t1")).texts
    starts = set()
    for number in range(300):
        window = own.text_window(texts, GeneratorDraws(np.random.default_rng(number)))
        assert len(window) >= 4
        assert not VOCABULARY.is_continuation[window[0]]
        starts.add(tuple(window[:3]))
    assert len(starts) > 8
    for few in (["rank"], []):  # what there is
        split = own.tokenize_table(table_of("t1"), few).texts
        assert len(own.text_window(split, random.Random(0))) == sum(len(split[place]) for place in range(len(few)))


def test_of_very_long_texts_every_part_is_read_but_few_are_split():
    own = serializer(min_text=4, max_text=9)
    words = ["paris", "bern", "spain", "green"]
    said = [" ".join([words[number % 4]] * 300) for number in range(12)]
    reads = []
    for number in range(200):
        texts = own.tokenize_table(table_of("t1"), said).texts
        window = own.text_window(texts, GeneratorDraws(np.random.default_rng(number)))
        reads.append(int(window[0]))
        assert len(texts._ids) <= 3
    shares = np.unique(reads, return_counts=True)[1] / len(reads)
    assert len(shares) == 4
    assert shares.min() > 0.1


def test_tables_without_text_rows_or_columns_are_read_as_far_as_they_go():
    own = serializer(32)
    draws = lambda: GeneratorDraws(np.random.default_rng(1))  # noqa: E731
    empty = own.mask(own.tokenize_table(Table("e", (), ()), texts_of("t1")), draws())
    assert empty.column_ids.max() == 0
    assert np.count_nonzero(empty.label_ids)
    header = own.mask(own.tokenize_table(Table("h", (Cell("rank"),), ()), []), draws())
    assert header.segment_ids.tolist() == [0, 0, 1]
    assert header.label_ids.tolist()[:2] == [0, 0]
    long = Table("l", (Cell("rank"), Cell("team")), tuple((Cell(str(n)), Cell("red blue")) for n in range(5000)))
    assert len(own.mask(own.tokenize_table(long, []), draws())) <= 32


def test_static_masks_depend_on_the_name_and_dynamic_ones_on_the_draws():
    own = serializer()
    examples = [TableExample(name, "\n".join(texts_of("t1")), table_of("t1")) for name in ("a", "b")]
    first, second = own.encode(examples), serializer().encode(examples[::-1])
    for ours, theirs in zip(first, second[::-1], strict=True):
        assert (ours.input_ids == theirs.input_ids).all()
        assert (ours.label_ids == theirs.label_ids).all()
    assert first[0].input_ids.tolist() != first[1].input_ids.tolist()


def test_words_of_the_same_window_are_masked_anew_by_other_draws():
    own = serializer(min_text=30)
    known = own.tokenize_table(Table("t", (), ()), [" ".join(texts_of("t1")[0].split()[:6])])
    found = [own.mask(known, GeneratorDraws(np.random.default_rng((7, epoch)))) for epoch in range(9)]
    assert len({tuple(original(one)) for one in found}) == 1
    assert len({tuple(one.label_ids) for one in found}) > 2


def test_ranks_are_those_of_the_whole_table():
    own = serializer(64)
    known = own.tokenize_table(table_of("t2"), texts_of("t2"))
    rank_of_rank = {int(r): int(k) for r, c, k in zip(known.rows, known.columns, known.ranks[0], strict=True) if c == 0}
    assert rank_of_rank == {row: row for row in range(7)}
