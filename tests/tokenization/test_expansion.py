import json

import numpy as np
import pytest
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st
from strategies import words

from mate_cli.tables.text import split_sentences
from mate_cli.tokenization.expansion import Expander, SentenceIndex, expand_cell, whole_passages

GOLDEN = json.loads(tapas("g6_hybridqa.json").read_text())
QUESTIONS = GOLDEN["questions"]


def expanded_texts(table, question, limit, titles):
    additions = Expander(table.passages, limit, titles=titles).choose(question)
    return [[" ".join(expand_cell(cell, additions)) for cell in row] for row in table.rows]


def test_sentences_equal_the_reference(linked_table):
    found = [sentence for text in linked_table.passages.values() for sentence in split_sentences(text)]
    assert found == GOLDEN["sentences"]


@pytest.mark.parametrize("limit", [1, 3, 5, 20])
@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case["answer"])
def test_search_equals_the_reference(case, limit):
    found = SentenceIndex(GOLDEN["sentences"]).search(case["question"], limit)
    assert [text for text, _ in found] == [text for text, _ in case["search"][str(limit)]]
    assert [score for _, score in found] == pytest.approx([s for _, s in case["search"][str(limit)]], abs=1e-5)


@pytest.mark.parametrize("titles", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 5])
@pytest.mark.parametrize("case", QUESTIONS, ids=lambda case: case["answer"])
def test_expanded_tables_equal_the_reference(case, limit, titles, linked_table):
    expected = case[f"expanded_k{limit}_title{int(titles)}"]
    assert expanded_texts(linked_table, case["question"], limit, titles) == expected


def test_idf_equals_the_reference():
    index = SentenceIndex(GOLDEN["sentences"])
    assert np.count_nonzero(index._idf) == GOLDEN["vocabulary_size"]
    for term, idf in GOLDEN["idf"].items():
        words = {place for word in term.split() for place in index._terms_of(word)} if " " in term else set()
        (place,) = index._terms_of(term).keys() - words
        assert index._idf[place] == pytest.approx(idf, abs=1e-5)


def by_scikit_learn(sentences, question):
    vectorizer = pytest.importorskip("sklearn.feature_extraction.text").TfidfVectorizer(ngram_range=(1, 2), max_df=0.9)
    try:
        weights = vectorizer.fit_transform(sentences)
    except ValueError:
        return np.zeros(len(sentences))
    return (weights @ vectorizer.transform([question]).T).toarray()[:, 0]


sentences = st.lists(st.lists(words | st.sampled_from(["ab", "cd ef", "x ab"]), max_size=6).map(" ".join), max_size=12)


@given(sentences, st.lists(words | st.just("ab"), max_size=8).map(" ".join))
def test_scores_equal_scikit_learn(found, question):
    assert SentenceIndex(found).scores(question) == pytest.approx(by_scikit_learn(found, question), abs=1e-12)


@pytest.mark.parametrize("found", [[], ["one sentence"], ["", ""], ["same words", "same words"], ["a b", "c"]])
def test_what_scikit_learn_refuses_is_not_expanded(found):
    assert SentenceIndex(found).search("one same words a", 5) == []


def test_the_earlier_sentence_wins_a_tie():
    found = SentenceIndex(["red car", "green tree", "red car", "blue sky"]).search("red car", 1)
    assert found[0][0] == "red car"
    assert np.argmax(SentenceIndex(["x y", "red car", "red car", "blue sky"]).scores("red car")) == 1


def test_a_repeated_sentence_goes_to_every_page_that_has_it(linked_table):
    passages = {"/a": "Red car here. Green tree.", "/b": "Blue sky. Red car here."}
    chosen = Expander(passages, 1, titles=False).choose("red car")
    assert chosen == {"/a": ("(", "Red car here.", ")"), "/b": ("(", "Red car here.", ")")}


def test_whole_passages_follow_the_text_in_the_order_of_links(linked_table):
    additions = whole_passages(linked_table.passages)
    texts = {" ".join(expand_cell(cell, additions)) for row in linked_table.rows for cell in row}
    assert set(GOLDEN["rc_interactions"]["single0_orig1_none"][0]["cells"]) <= texts
