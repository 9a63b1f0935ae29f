"""BLEU and ROUGE against figures computed by hand."""

import math

import pytest

from mate_cli.metrics.text_overlap import corpus_bleu, rouge_scores

pytest.importorskip("sacrebleu")
pytest.importorskip("rouge_score")


def test_rouge_is_the_f1_of_the_best_reference():
    # 4 of 5 words, 2 of 4 pairs of words, and a common subsequence of 4 words.
    scores = rouge_scores("ann was in oslo twice", ["ann lived in oslo twice", "nothing"])
    assert scores == pytest.approx({"rouge1": 4 / 5, "rouge2": 2 / 4, "rougeL": 4 / 5})
    assert rouge_scores("", ["ann"]) == {"rouge1": 0, "rouge2": 0, "rougeL": 0}
    assert rouge_scores("winning", ["wins"])["rouge1"] == 0, "words are not stemmed"


def test_bleu_is_the_geometric_mean_of_precisions_of_the_corpus_with_its_brevity_penalty():
    predictions = ["ann lee made the sea in 2001", "bob left"]
    references = [["ann lee made the sea in 2001", "the sea"], ["bob has left rome"]]
    # Precisions of 1 to 4 words: 9 of 9, 6 of 7, 5 of 5, 4 of 4. Closest lengths: 7 and 4 words.
    expected = math.exp(1 - 11 / 9) * (6 / 7) ** 0.25
    assert corpus_bleu(predictions, references) == pytest.approx(expected)
