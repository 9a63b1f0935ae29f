"""What is measured on has the shape it says."""

import pytest
from golden import shared

from mate_cli.attention.patterns import RowColumnHeads, all_pairs, needed_pairs
from mate_cli.benchmark.cases import SHAPES, draw_cases, draw_table, encode_dataset, pick_cases, spread
from mate_cli.errors import ConfigError, DataError


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tokens", [2, 33, 512])
def test_a_drawn_table_has_exactly_so_many_tokens(shape, tokens):
    table = draw_table(shape, tokens, 0)
    assert len(table) == len(table.row_ids) == tokens
    question = table.segment_ids == 0
    assert question.sum() == min(24, tokens // 2)
    assert not table.row_ids[question].any()
    assert (table.column_ids[~question] > 0).all()
    assert table.column_ids.max() <= SHAPES[shape].columns


def test_drawn_tables_differ_by_seed_and_not_otherwise():
    one, same, other = (draw_table("tall", 300, seed) for seed in (1, 1, 2))
    assert (one.row_ids == same.row_ids).all()
    assert (one.row_ids != other.row_ids).any()


@pytest.mark.parametrize(("shape", "ratio"), [("square", 7.5), ("tall", 9.0), ("hybridqa_like", 5.9)])
def test_what_an_exact_method_can_gain_at_2048_tokens(shape, ratio):
    (case,) = draw_cases([shape], [2048], [1])
    pattern = RowColumnHeads(12)
    assert all_pairs(pattern, case.batch) / needed_pairs(pattern, case.batch) == pytest.approx(ratio, rel=0.08)


def test_cases_come_shortest_first_and_mixed_ones_are_padded():
    cases = list(draw_cases(["tall"], [64, 32], [2, "mixed"]))
    assert [case.name for case in cases] == ["tall/32/2", "tall/32/mixed", "tall/64/2", "tall/64/mixed"]
    assert cases[3].batch.attention_mask.sum(1).tolist() == spread("mixed", 64) == [64, 48, 32, 16]


def test_real_batches_take_the_longest_or_a_sample_of_all_lengths():
    tables = [draw_table("tall", length, 0) for length in range(10, 90, 10)]
    cases = {
        case.label: case.batch.attention_mask.sum(1).tolist() for case in pick_cases("some", tables, [1, 2, "mixed"])
    }
    assert cases == {"1": [80], "2": [80, 70], "mixed": [80, 70, 50, 30]}


def test_an_unknown_shape_and_a_table_without_room_are_refused():
    with pytest.raises(ConfigError, match="square, tall"):
        draw_table("wide", 100, 0)
    with pytest.raises(ConfigError, match="too few for a table"):
        draw_table("tall", 1, 0)
    with pytest.raises(DataError, match=r"tabfact, .*wtq"):
        encode_dataset("trec", ".", "minilm", 64)


@pytest.mark.long
def test_the_largest_tables_of_wtq_fill_their_budget():
    encodings = encode_dataset("wtq", shared("data", "wtq"), "minilm", 1024)
    assert sorted(map(len, encodings))[-4:] > [1000] * 4
    assert max(map(len, encodings)) <= 1024
