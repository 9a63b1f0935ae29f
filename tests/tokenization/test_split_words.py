"""Words are those of a plain regular expression, sentences those of a plain split, however fast they are found."""

import re

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from mate_cli.tables.text import split_sentences
from mate_cli.tokenization.expansion import BLOCK, NumberedWords, WordIndex, split_words

texts = st.text(
    st.sampled_from("aB1_. !?\n\t\x1c\u00e9\u03a3\u0130\u2013,-") | st.characters(codec="utf-8"), max_size=30
)


def plain_words(text):
    return re.findall(r"(?u)\b\w\w+\b", text.lower())


@given(texts)
@example("\u03a3A\u03a3. \u03a3 \u0130\u0130")
def test_words_are_those_of_a_regular_expression(text):
    assert [word for word in split_words(text) if len(word) > 1] == plain_words(text)


@given(texts)
@example(" . a.  b! ?c\n")
def test_sentences_end_before_white_space(text):
    parts = re.split(r"(?<=[.!?])\s+", text)
    assert split_sentences(text) == [part.strip() for part in parts if part.strip()]


@given(st.lists(texts, max_size=6), texts, st.sampled_from([None, 2, 5]))
@example(["\u03a3\u03a3\u03a3\u03a3 \u03a3\u03a3"], "\u03a3\u03a3\u03a3", 2)
def test_words_have_one_number_each(some, asked, length):
    found = NumberedWords.build(some, length)
    words = [word[:length] for text in some for word in plain_words(text)]
    numbers = dict(zip(words, found.numbers.tolist(), strict=True))
    assert [numbers[word] for word in words] == found.numbers.tolist()
    assert list(numbers.values()) == list(range(len(found.hashes))), "as they are first met"
    assert found.text_ids.tolist() == [place for place, text in enumerate(some) for _ in plain_words(text)]
    assert found.find(asked) == [numbers.get(word[:length], -1) for word in plain_words(asked)]


def test_many_texts_are_numbered_as_few_are():
    texts = [f"word{number % 7} alone{number}" for number in range(2 * BLOCK + 3)]
    found = NumberedWords.build(texts)
    assert found.find("word3 alone1026 word9") == [found.numbers[6], found.numbers[-1], -1]
    assert len(found.hashes) == 7 + len(texts)
    assert found.text_ids.tolist() == [place for place in range(len(texts)) for _ in range(2)]


@given(st.lists(texts, min_size=1, max_size=5), st.data())
def test_joined_words_give_the_very_scores_of_joined_texts(some, data):
    groups = data.draw(
        st.lists(st.lists(st.integers(0, len(some) - 1), min_size=1, max_size=4), min_size=1, max_size=4)
    )
    places = dict.fromkeys(place for group in groups for place in group)
    order = {place: number for number, place in enumerate(places)}
    words = NumberedWords.build([some[place] for place in places])
    flat = np.array([order[place] for group in groups for place in group])
    joined = WordIndex(words.join(flat, np.array([len(group) for group in groups])))
    plain = WordIndex(NumberedWords.build([" ".join(some[place] for place in group) for group in groups]))
    question = " ".join(some)
    assert joined.scores(question).tobytes() == plain.scores(question).tobytes()
