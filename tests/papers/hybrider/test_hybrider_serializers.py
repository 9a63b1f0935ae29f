"""Rankings and hops are laid out as in the original: texts, token types, labels and side features."""

from dataclasses import replace

import hybrider_golden
import numpy as np
import pytest
from hybrider_golden import IDS
from hypothesis import given
from strategies import examples
from transformers import BertTokenizer

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.papers.hybrider.linking import TableLinks
from mate_cli.papers.hybrider.nodes import MAX_NODES, SOURCES, attach_nodes
from mate_cli.papers.hybrider.serializers import HoppingSerializer, RankingSerializer, confidence_bucket
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.vocabulary import load_tokenizer


@pytest.fixture(scope="module")
def vocabulary():
    return load_tokenizer("sample")


@pytest.fixture(scope="module")
def tokenizer(vocabulary, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("\n".join(vocabulary.tokens) + "\n", encoding="utf-8")
    return BertTokenizer(str(path))


@pytest.fixture(scope="module")
def original():
    return hybrider_golden.load()


def example_of(original, question):
    example = original.examples[question]
    nodes = TableLinks(original.table, original.raw["stop_words"]).nodes(example.question, example.question_tags)
    return attach_nodes(example, nodes)


def written(tokenizer, question, node, context):
    """Pieces and types of a candidate, put together from whole texts as the reference does."""
    content, _, _, fact, _, header, *_ = node
    told = f"{header} is {content} . Fact : {fact} [SEP]" if fact else f"{header} is {content} . [SEP]"
    parts = [tokenizer.tokenize(text) for text in (f"[CLS] {question} [SEP]", told, context)]
    types = [kind for part, kind in zip(parts, (1, 0, 1), strict=True) for _ in part]
    return tokenizer.convert_tokens_to_ids([piece for part in parts for piece in part])[:128], types[:128]


def split(encoding):
    """Pieces, types and label of each candidate."""
    for number in range(1, int(encoding.row_ids.max()) + 1):
        own = encoding.row_ids == number
        assert len(set(encoding.label_ids[own])) == 1
        yield encoding.input_ids[own].tolist(), encoding.segment_ids[own].tolist(), encoding.label_ids[own][0]


@pytest.mark.parametrize("question", IDS)
def test_rankings_are_the_originals(original, vocabulary, tokenizer, question):
    table, example = original.table, example_of(original, question)
    (encoding,) = RankingSerializer(vocabulary).encode([example])
    rows = original.rows("stage1", question)
    nodes = next(row["nodes"] for row in original.raw["inputs"] if row["question_id"] == question)
    labels = rows[0]["labels"] if rows else [0] * len(nodes)
    found = list(split(encoding))
    assert len(found) == len(nodes)
    for (pieces, types, label), node, expected in zip(found, nodes, labels, strict=True):
        row, column = node[1]
        others = [
            (h.text, c.text) for i, (h, c) in enumerate(zip(table.header, table.rows[row], strict=True)) if i != column
        ]
        context = " ; ".join(f"{header} is {value}" for header, value in others) + " ."
        assert (pieces, types) == written(tokenizer, example.question, node, context)
        assert label == expected
    buckets = [max(0, int(node[4] / 0.1) - 1) for node in nodes]
    assert encoding.cell_features.tolist() == [[b, SOURCES.index(n[6])] for b, n in zip(buckets, nodes, strict=True)]


@pytest.mark.parametrize("question", IDS)
def test_hops_are_the_originals(original, vocabulary, tokenizer, question):
    example = example_of(original, question)
    rows = original.rows("stage2", question)
    for row in rows:
        current = next(
            node for node in example.nodes if [node.fact, *node.coordinate] == [row["current"][3], *row["current"][1]]
        )
        (encoding,) = HoppingSerializer(vocabulary).encode([replace(example, current=current)])
        found = list(split(encoding))
        assert [label for *_, label in found] == row["labels"]
        for (pieces, types, _), (content, _, _, header, sentence) in zip(found, row["target"], strict=True):
            context = f"{header} is {content} . {sentence}"
            assert (pieces, types) == written(tokenizer, example.question, row["current"], context)


@pytest.mark.parametrize(
    ("confidence", "bucket"), [(0.0, 0), (0.1, 0), (0.3, 1), (0.31, 2), (0.7, 5), (0.8, 7), (1.0, 9)]
)
def test_buckets_have_the_references_rounding(confidence, bucket):
    assert confidence_bucket(confidence) == bucket


@given(example=examples())
def test_any_table_is_laid_out(vocabulary, example):
    """Positions restart, types are 1 0 1, and nothing is longer than allowed."""
    serializer = RankingSerializer(vocabulary, candidate_tokens=24, max_tokens=60)
    (encoding,) = serializer.encode([example])
    if isinstance(encoding, EncodingFailure):
        assert "linked" in encoding.reason
        return
    assert len(encoding) <= 60
    sizes = np.bincount(encoding.row_ids)[1:]
    assert sizes.max() <= 24
    assert len(encoding.cell_features) == len(sizes) <= MAX_NODES
    for pieces, types, _ in split(encoding):
        assert pieces[0] == vocabulary.cls_id
        assert types[0] == 1
        assert (np.diff(types) != 0).sum() <= 2


def test_hops_need_a_node_to_begin_at(vocabulary):
    example = Sample().examples("dev")[0]
    (failure,) = HoppingSerializer(vocabulary).encode([example])
    assert failure == EncodingFailure(example.example_id, "no node to hop from")


def test_a_question_that_is_linked_to_nothing_is_a_failure(vocabulary):
    example = Sample().examples("dev")[0]
    (failure,) = RankingSerializer(vocabulary).encode([attach_nodes(example, ())])
    assert failure.reason == "nothing in the table is linked to the question"
