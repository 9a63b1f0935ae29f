"""Scripts that time the loading and encoding of examples, and relation-aware attention, on little of each."""

import re

import pytest


def test_both_epochs_are_measured_at_every_length(measured_by):
    words = ["sources=[sample]", "tokenizer=sample", "lengths=[32,64]", "tables=32", "batch=8"]
    shown, figures, _ = measured_by("masking", "datasets=none", "cache=cache", *words)
    for length in (32, 64):
        assert min(figures[f"masking/{length}/{epoch}_epoch/examples_per_second"] for epoch in ("first", "later")) > 0
        assert 8 < figures[f"masking/{length}/mean_tokens"] <= length
    assert "Masked examples made per second" in shown


def test_relations_are_timed_in_shares_of_plain_attention(measured_by):
    _, figures, _ = measured_by("relations", "nodes=4", "examples=2", "width=16", "heads=2", "rounds=1")
    assert {name.rpartition("/")[0] for name in figures} == {
        f"relations/{kind}/{name}" for kind in ("attention", "layer") for name in ("eager", "sdpa", "relations")
    }
    assert figures["relations/layer/eager/time"] == 1.0
    assert all(value >= 0 for value in figures.values())


def test_tokenizers_encode_alike_and_are_timed(measured_by):
    shown, figures, _ = measured_by("tokenization", "data.sample=none", "tokenizer=sample", "examples=3", "rounds=1")
    speed = [figures[f"tokenization/sample/{name}/examples_per_second"] for name in ("mate", "transformers")]
    assert figures["tokenization/sample/speedup"] == pytest.approx(speed[0] / speed[1])
    assert figures["tokenization/sample/agreement"] == 1
    assert "sample" in shown


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("nodes=0", "nodes: Input should be greater than 0"),
        ("node=3", "node is no key; choose from nodes, examples, width, heads, rounds, seconds"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(measured_by, tmp_path, word, told):
    with pytest.raises(SystemExit, match=re.escape(told)):
        measured_by("relations", word)
    assert not (tmp_path / "outputs").exists()
