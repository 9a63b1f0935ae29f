"""Which questions repeat others: hand-made cases, what holds for any questions, and the data of the study."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.datasets.hybridqa.files import HybridQAQuestion
from mate_cli.data.question_contamination import KnownQuestions, QuestionFingerprint, find_repetitions, normalize_words

FIRST = HybridQAQuestion("1", "Which team comes from a town that is known for its tin mining ?", "T_0", "Veor")
MORE = replace(FIRST, question_id="2", text="Which Cornish team comes from a town that is known for its tin-mining?")


def reasons(questions, training=(), evaluation=(), **options):
    return find_repetitions(questions, training, evaluation, **options)


def test_words_are_compared_without_case_accents_and_punctuation():
    assert normalize_words("Who is Côte d'Ivoire 's N.O. 1 ?") == (
        *("who", "is", "cote", "d", "ivoire", "s", "n", "o", "1"),
    )
    (why,) = reasons([replace(FIRST, text=FIRST.text.upper().replace(" ?", "?"))], [FIRST])
    assert why == "equal to another of training"


def test_a_word_more_is_near_equal_where_the_answer_is_the_same():
    assert QuestionFingerprint.of(FIRST).overlap(QuestionFingerprint.of(MORE)) == pytest.approx(24 / 28)
    assert reasons([MORE], [FIRST]) == ["near-equal to another of training"]
    assert reasons([MORE], [FIRST], near=0.9) == [""]
    assert reasons([replace(MORE, answer="Camborne")], [FIRST]) == [""]
    numbered = replace(MORE, text=MORE.text.replace("Cornish", "1st"))
    assert reasons([numbered], [FIRST]) == ["near-equal to another of training"], "one of two has a number"


def test_templates_with_the_same_answer_by_chance_are_not_near_equal():
    asked = "What was the year of birth of the number {} pick of the 2007 AFL rookie draft ?"
    fifth, second = (HybridQAQuestion(at, asked.format(at), "T_0", "1989") for at in "52")
    assert QuestionFingerprint.of(fifth).overlap(QuestionFingerprint.of(second)) > 0.7
    assert reasons([fifth, second]) == ["", ""]
    assert reasons([second], evaluation=[fifth]) == ["near-equal to one of evaluation"]


def test_evaluation_counts_whatever_the_answer_and_comes_first():
    hidden = replace(FIRST, answer=None)
    assert reasons([FIRST, replace(MORE, answer="x")], [FIRST], [hidden]) == [
        "equal to one of evaluation",
        "near-equal to one of evaluation",
    ]


def test_another_table_is_another_question():
    assert reasons([replace(FIRST, table_id="T_1")], [FIRST], [FIRST]) == [""]


QUESTIONS = st.builds(
    HybridQAQuestion,
    st.just("q"),
    st.lists(st.sampled_from(["who", "won", "in", "1975", "2", "Oslo", "the", "?"]), max_size=9).map(" ".join),
    st.sampled_from(["T_0", "T_1"]),
    st.sampled_from(["a", "b", None]),
)


@given(st.lists(QUESTIONS, max_size=12), st.lists(QUESTIONS, max_size=4), st.lists(QUESTIONS, max_size=4))
def test_what_is_kept_repeats_nothing_and_what_is_left_out_repeats_something(questions, training, evaluation):
    found = reasons(questions, training, evaluation)
    assert len(found) == len(questions)
    kept = [question for question, why in zip(questions, found, strict=True) if not why]
    assert reasons(kept, training, evaluation) == [""] * len(kept), "once is enough"
    assert not any(KnownQuestions(questions=evaluation).find_repeat(question) for question in kept)
    for place, (question, why) in enumerate(zip(questions, found, strict=True)):
        others = [*training, *kept[: sum(not reason for reason in found[:place])]]
        learnt = KnownQuestions(questions=others).find_repeat(question, same_answer=True)
        assert bool(why) == bool(KnownQuestions(questions=evaluation).find_repeat(question) or learnt)


@pytest.mark.parametrize(("words", "near"), [(5, False), (6, True)])
def test_one_word_more_in_six(words, near):
    text = ["who", "won", "the", "last", "cup", "there"][:words]
    questions = [replace(FIRST, text=" ".join(text)), replace(FIRST, text=" ".join([*text[:3], "big", *text[3:]]))]
    assert bool(reasons(questions)[1]) == near
