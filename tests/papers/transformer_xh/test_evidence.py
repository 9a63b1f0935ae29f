"""Evidence: nodes, how they relate, what is kept, and what there is to learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples as table_examples

from mate_cli.errors import ConfigError
from mate_cli.papers.transformer_xh.relations import (
    KINDS,
    NODE_CELLS,
    RELATIONS,
    SENTENCE_IDS,
    EvidenceNode,
    mentions,
    relate,
)
from mate_cli.papers.transformer_xh.serializer import HAS_ANSWER, SUPPORTS, UNJUDGED, EvidenceSerializer, _shares
from mate_cli.tables.example import Answer, DocumentLink, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.lexical import FEATURES
from mate_cli.tokenization.serializers.serializer import EncodingFailure
from mate_cli.tokenization.vocabulary import load_tokenizer

TOKENIZER = load_tokenizer("sample")
TABLE = Table(
    "t",
    (Cell("year"), Cell("winner")),
    (
        (Cell("1975"), Cell("Ann Lee", ("/wiki/Ann_Lee",))),
        (Cell("1980"), Cell("Bob Stone", ("/wiki/Bob_Stone",))),
        (Cell(""), Cell("Ann Lee", ("/wiki/Ann_Lee",))),
    ),
    passages={"/wiki/Ann_Lee": "She was born in Oslo. She won.", "/wiki/Bob_Stone": "He boxes with Ann Lee."},
)
DOCUMENTS = (
    ("Ann Lee", ("Ann Lee writes.", "She was born in Oslo.")),
    ("Rivers", ("The Alva is cold.",)),
    ("Alva (novel)", ("It is by Ann Lee.", "Oslo is in it.")),
)


def question(answer=((1, 1),)):
    return TableExample("q", "who boxes with whom in 1980?", TABLE, Answer(("Bob Stone",), answer, "table"))


def documents(answer="Oslo", links=(), unjudged=()):
    rows = tuple((Cell(title, (str(place),)),) for place, (title, _) in enumerate(DOCUMENTS))
    passages = {str(place): " ".join(texts) for place, (_, texts) in enumerate(DOCUMENTS)}
    return TableExample(
        "q",
        "where was the author of Alva born?",
        Table("t", (Cell("document"),), rows, passages=passages),
        Answer((answer,), ((0, 0), (2, 0)), "passage"),
        sentences=tuple(texts for _, texts in DOCUMENTS),
        supporting=((0, 1), (2, 0)),
        links=links,
        unjudged=unjudged,
    )


def serializer(**options):
    return EvidenceSerializer(TOKENIZER, **options)


def reader(**options):
    given = {"unit": "document", "relations": ["link", "mention"], "label": "answer", "node_tokens": 64}
    return serializer(**{**given, **options})


def encoded(maker, example):
    (encoding,) = maker.encode([example])
    assert not isinstance(encoding, EncodingFailure), encoding
    return encoding


def texts(encoding):
    """The words of each node."""
    rows = range(1, encoding.row_ids.max() + 1)
    return [" ".join(TOKENIZER.tokens[i] for i in encoding.input_ids[encoding.row_ids == row]) for row in rows]


def test_a_cell_with_the_question_its_header_and_its_page():
    encoding = encoded(serializer(), question())
    assert encoding.more[NODE_CELLS].tolist() == [
        [0, 0],
        [0, 1],
        [1, 0],
        [1, 1],
        [2, 1],
    ]  # nothing to say of an empty cell
    whole = texts(encoding)
    assert whole[0].startswith("[CLS]")
    assert whole[3].count("[SEP]") == 2
    assert "boxes" in whole[3].replace(" ##", "")
    places = np.flatnonzero(encoding.row_ids == 4)
    own = encoding.segment_ids[places]
    assert own[0] == 0
    assert own[-1] == 1
    assert (np.diff(own) >= 0).all()
    assert encoding.label_ids[places].all()
    assert encoding.label_ids.sum() == len(places)


def test_relations_of_cells():
    encoding = encoded(serializer(relations=["row", "page", "column"]), question())
    row, column, page = (KINDS.index(kind) + 1 for kind in ("row", "column", "page"))
    expected = [[0, row, column, 0, 0], [row, 0, 0, column, page], [column, 0, 0, row, 0]]
    expected += [[0, column, row, 0, column], [0, page, 0, column, 0]]
    assert encoding.more[RELATIONS].tolist() == expected
    assert encoding.more[RELATIONS].dtype == np.uint8


def test_a_row_sees_itself_through_its_first_cell_only():
    nodes = [EvidenceNode(0, column, "", "") for column in range(3)] + [EvidenceNode(1, 0, "", "")]
    assert (relate(nodes, ["first"]) > 0).tolist() == [
        [False, True, True, False],
        [True, False, False, False],
        [True, False, False, False],
        [False] * 4,
    ]


def test_who_is_mentioned_sees_who_mentions_and_links_come_from_the_data():
    mention, link = KINDS.index("mention") + 1, KINDS.index("link") + 1
    found = encoded(reader(), documents(links=(DocumentLink(1, 0),))).more[RELATIONS]
    assert found.tolist() == [[0, link, mention], [0, 0, 0], [0, mention, 0]]  # the title is "Alva", of all rivers
    assert encoded(reader(relations=["next"]), documents()).more[RELATIONS].sum() == 2 * (KINDS.index("next") + 1)
    assert (encoded(reader(relations=["all"]), documents()).more[RELATIONS] > 0).sum() == 6
    assert not encoded(reader(relations=[]), documents()).more[RELATIONS].any()


@pytest.mark.parametrize(
    ("title", "text", "holds"),
    [("Alva (river)", "the ALVA.", True), ("Alva", "Alvaro", False), ("C++", "in C++ and", True), ("A", "A b", False)],
)
def test_mentions(title, text, holds):
    assert mentions(title, text) is holds


def test_what_leads_to_a_document_is_told_of_it_once():
    links = (DocumentLink(1, 0, "around the link"), DocumentLink(2, 0))
    told, plain = encoded(reader(edge_texts=True), documents(links=links)), encoded(reader(), documents(links=links))
    first = texts(told)[0]
    assert " ".join(TOKENIZER.tokens[i] for i in TOKENIZER.pieces(["around the link"])[0]) in first
    assert first.count("[SEP]") == texts(plain)[0].count("[SEP]") + 2
    assert texts(told)[1] == texts(plain)[1]
    place = np.flatnonzero(told.row_ids == 1)
    asked = int((told.segment_ids[place] == 0).sum())
    assert asked > int((plain.segment_ids[plain.row_ids == 1] == 0).sum())


def test_every_sentence_of_parallel_links_is_told_once():
    links = [DocumentLink(1, 0, text) for text in ("around the link", "in another place", "around the link", "")]
    maker = reader(edge_texts=True, node_tokens=200)
    told = encoded(maker, documents(links=tuple(links)))
    first = texts(told)[0]
    for sentence in ("around the link", "in another place"):
        pieces = " ".join(TOKENIZER.tokens[i] for i in TOKENIZER.pieces([sentence])[0])
        assert first.count(pieces) == 1, sentence
    assert (told.more[RELATIONS] == encoded(maker, documents(links=tuple(links[:1]))).more[RELATIONS]).all()


def test_the_answer_and_the_sentences_that_support_it():
    maker, example = reader(), documents(unjudged=(1,))
    encoding = encoded(maker, example)
    answer = np.flatnonzero(encoding.label_ids & HAS_ANSWER)
    runs = np.split(answer, np.flatnonzero(np.diff(answer) > 1) + 1)
    assert [maker.span_text(example, run[0], run[-1]) for run in runs] == ["Oslo", "Oslo"]
    assert [int(encoding.row_ids[run[0]]) for run in runs] == [1, 3]
    supports = (encoding.label_ids & SUPPORTS) > 0
    pairs = zip(encoding.row_ids[supports].tolist(), encoding.more[SENTENCE_IDS][supports].tolist(), strict=True)
    assert set(pairs) == {(1, 2), (3, 1)}
    assert ((encoding.label_ids & UNJUDGED) > 0).tolist() == (encoding.row_ids == 2).tolist()
    assert encoding.class_ids == 0
    yes = encoded(maker, documents("yes"))
    assert yes.class_ids == 1
    assert not (yes.label_ids & HAS_ANSWER).any()


def test_an_answer_in_a_title_only_is_found_there():
    maker, example = reader(), documents("Alva (novel)")
    answer = np.flatnonzero(encoded(maker, example).label_ids & HAS_ANSWER)
    assert maker.span_text(example, answer[0], answer[-1]) == "Alva (novel)"


def test_segments_hold_whole_sentences_and_together_all_of_them():
    example = documents()
    whole, parts = encoded(reader(), example), encoded(reader(unit="segment", node_tokens=34), example)
    assert len(parts.more[NODE_CELLS]) > len(whole.more[NODE_CELLS])

    def of_nodes(encoding, row):
        return np.flatnonzero(encoding.more[NODE_CELLS][:, 0] == row)

    for row in range(3):
        of_row = [
            set(
                encoding.more[SENTENCE_IDS][
                    np.isin(encoding.row_ids - 1, np.flatnonzero(encoding.more[NODE_CELLS][:, 0] == row))
                ]
            )
            for encoding in (whole, parts)
        ]
        assert of_row[0] == of_row[1]


def test_rows_that_fit_the_question_best_stay_whole():
    encoding = encoded(serializer(max_nodes=3), question())
    assert encoding.more[NODE_CELLS][:, 0].tolist().count(1) == 2
    assert encoding.cut.tolist()[1] == 1
    only = encoded(serializer(max_nodes=1), question())
    assert only.more[NODE_CELLS].tolist() == [[1, 0]]
    assert only.cut.tolist()[1:] == [2, 0, 0]


def test_a_node_that_is_too_long_loses_words_of_its_longer_part_and_keeps_its_ends():
    encoding = encoded(reader(node_tokens=16), documents())
    separator = TOKENIZER.sep_id
    for row in range(1, 4):
        own = encoding.row_ids == row
        ids, segments = encoding.input_ids[own], encoding.segment_ids[own]
        assert len(ids) <= 16
        assert ids[-1] == separator
        assert ids[segments == 0][-1] == separator
    assert encoding.cut[0] == 3


def test_rows_and_their_features():
    maker = serializer(unit="row", lexical_features=True)
    encoding = encoded(maker, question())
    assert [EvidenceSerializer.label_kind(given) for given in ({"unit": "row"}, {}, {"label": "answer"})] == [
        "rows",
        "evidence",
        "answer",
    ]
    assert encoding.more[NODE_CELLS].tolist() == [[0, 0], [1, 0], [2, 0]]
    assert encoding.cell_features.shape == (3, len(FEATURES))
    assert set(encoding.row_ids[encoding.label_ids == 1]) == {2}
    assert encoded(serializer(lexical_features=True), question()).cell_features.shape == (5, len(FEATURES))


def test_answers_are_not_marked_in_whole_rows():
    with pytest.raises(ConfigError, match="whole rows"):
        serializer(unit="row", label="answer")


def test_a_table_without_text_is_a_failure():
    empty = TableExample("q", "who?", Table("t", (Cell("a"),), ((Cell(""),),)))
    (failure,) = serializer().encode([empty])
    assert failure == EncodingFailure("q", "the table has no text")


@given(
    example=table_examples(),
    unit=st.sampled_from(["cell", "row", "document", "segment"]),
    kinds=st.lists(st.sampled_from(KINDS), unique=True),
    sizes=st.tuples(st.integers(1, 12), st.integers(8, 40), st.integers(8, 200)),
)
def test_any_table_is_laid_out_within_its_limits(example, unit, kinds, sizes):
    nodes, length, most = sizes
    maker = serializer(unit=unit, relations=kinds, max_nodes=nodes, node_tokens=length, max_tokens=most)
    (encoding,) = maker.encode([example])
    if isinstance(encoding, EncodingFailure):
        return
    lengths = np.bincount(encoding.row_ids)[1:]
    assert len(encoding) <= most
    assert len(lengths) == len(encoding.more[NODE_CELLS]) <= nodes
    assert (lengths > 0).all()
    assert (lengths <= length).all()
    assert encoding.more[RELATIONS].shape == (len(lengths), len(lengths))
    assert not encoding.more[RELATIONS].diagonal().any()
    assert set(np.unique(encoding.more[RELATIONS])) <= {0, *(KINDS.index(kind) + 1 for kind in kinds)}
    alone = [maker.nodes(example)[place].node for place in range(len(lengths))]
    assert [(node.row, node.column) for node in alone] == [tuple(cell) for cell in encoding.more[NODE_CELLS].tolist()]


@pytest.mark.parametrize(("first", "second"), [(9, 9), (4, 9), (9, 4), (3, 3), (12, 5)])
@pytest.mark.parametrize("most", [7, 8, 13])
def test_the_longer_part_loses_its_end_until_both_fit(first, second, most):
    kept = [first, second]
    while sum(kept) > most:  # as the reference does
        kept[0 if kept[0] > kept[1] else 1] -= 1
    assert _shares(first, second, most) == tuple(kept)
