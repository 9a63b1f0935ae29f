import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import texts

from mate_cli.errors import ConfigError
from mate_cli.tokenization.vocabulary import Vocabulary, load_tokenizer

VOCABULARY = load_tokenizer("minilm")


@given(texts | st.text(st.characters(exclude_categories=["Cs"])))
def test_pieces_equal_berts_fast_tokenizer(text):
    text = text.replace("[", "(")  # for "[SEP]" in a text is special to the other tokenizer only
    assert VOCABULARY.pieces([text])[0].tolist() == reference_ids(text)


def reference_ids(text):
    if not hasattr(reference_ids, "tokenizer"):
        from transformers import BertTokenizerFast

        reference_ids.tokenizer = BertTokenizerFast(vocab={token: n for n, token in enumerate(VOCABULARY.tokens)})
    return reference_ids.tokenizer(text, add_special_tokens=False).input_ids


def test_special_tokens_in_a_text_are_ordinary_text():
    (ids,) = VOCABULARY.pieces(["[SEP] [EMPTY]"])
    assert VOCABULARY.sep_id not in ids
    assert len(ids) > 4


@pytest.mark.parametrize("name", ["minilm", "sample"])
def test_named_vocabularies_have_every_special_token(name):
    vocabulary = load_tokenizer(name)
    assert vocabulary.tokens[vocabulary.empty_id] in ("[EMPTY]", "[unused0]")
    assert vocabulary.pad_id == 0
    assert len(set(vocabulary.tokens)) == vocabulary.vocab_size


def test_a_file_and_its_folder_are_one_vocabulary(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY.tokens) + "\n", encoding="utf-8")
    assert load_tokenizer(str(tmp_path)).fingerprint == VOCABULARY.fingerprint
    assert load_tokenizer(str(tmp_path / "vocab.txt")).fingerprint == VOCABULARY.fingerprint
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(str(tmp_path)).pieces(["Paris"])[0].tolist() != VOCABULARY.pieces(["paris"])[0].tolist()


def test_a_vocabulary_that_is_not_berts_is_refused():
    with pytest.raises(ConfigError, match=r"lacks \[PAD\]"):
        Vocabulary(["a", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])


def test_an_unknown_name_says_what_to_choose():
    with pytest.raises(ConfigError, match=r"no vocabulary: 'no/such-model'.*hf download no/such-model"):
        load_tokenizer("no/such-model")
