"""RoBERTa: the same states and the same pieces of bytes as transformers', from files in its layout."""

import json

import pytest
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.candidates import Candidates
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.papers.dt_fixup.options import OptionSerializer
from mate_cli.pipelines.inference.checkpoint import write_tokenizer
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.vocabulary import load_tokenizer

SIZE = EncoderSize(32, 2, 4, 64, 64)
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
TEXTS = [
    *("All cats sleep, and Tom is a cat.", "Which one follows?", "Tom sleeps: 3,5 Ünder <mask>!", "Nothing"),
    "naïve 猫",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("roberta")
    trained = ByteLevelBPETokenizer(add_prefix_space=True)
    trained.train_from_iterator(TEXTS, vocab_size=330, min_frequency=1, special_tokens=SPECIAL, show_progress=False)
    trained.save_model(str(path))
    trained.save(str(path / "tokenizer.json"))
    torch.manual_seed(0)
    config = RobertaConfig(
        vocab_size=trained.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=66,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    RobertaModel(config).save_pretrained(path)
    return path


def network(folder, **options):
    options = {"layer_norm_epsilon": 1e-5, "vocab_size": load_tokenizer(str(folder)).vocab_size, **options}
    torch.manual_seed(1)
    return Candidates(SIZE, attention=Sdpa(), **options).eval()


def test_pieces_are_those_of_transformers_whichever_file_is_read(folder, tmp_path):
    theirs = RobertaTokenizerFast(
        vocab=str(folder / "vocab.json"), merges=str(folder / "merges.txt"), add_prefix_space=True
    )
    (tmp_path / "tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    both = [load_tokenizer(str(folder)), load_tokenizer(str(tmp_path))]
    texts = [text.replace("<mask>", "mask") for text in TEXTS]
    for ours in both:
        assert [ids.tolist() for ids in ours.pieces(texts)] == theirs(texts, add_special_tokens=False).input_ids
        assert (ours.cls_id, ours.pad_id, ours.sep_id, ours.unknown_id) == (0, 1, 2, 3)
        assert ours.mask_id not in ours.pieces(["<mask>"])[0]
        words = [ours.tokens[i] for i in ours.pieces(["cats sleep"])[0] if not ours.is_continuation[i]]
        assert words[0].startswith("Ġ")
        assert len(words) == 2
    assert both[0].fingerprint == both[1].fingerprint


def test_states_are_those_of_transformers(folder):
    vocabulary = load_tokenizer(str(folder))
    table = Table("t", (Cell("context"),), ((Cell(TEXTS[0]),),))
    example = TableExample("q", TEXTS[1], table, options=(TEXTS[3], "Tom", "a cat sleeps"))
    (encoding,) = OptionSerializer(vocabulary).encode([example])
    batch = collate([encoding], reset_positions=True, max_positions=SIZE.max_positions)
    ours = network(folder)
    report = InitialWeights("roberta", str(folder), new_token_types="zero").load(ours)
    assert not report.new
    assert [name for name in report.unused if "position_ids" not in name] == []
    theirs = RobertaModel.from_pretrained(folder).eval()
    with torch.no_grad():
        found = ours(batch).states[0]
        for row in (1, 2, 3):
            here = encoding.row_ids == row
            ids = torch.from_numpy(encoding.input_ids[here]).long()[None]
            expected = theirs(ids).last_hidden_state[0]
            torch.testing.assert_close(found[torch.from_numpy(here)], expected, atol=1e-5, rtol=1e-5)
    first = encoding.input_ids[encoding.row_ids == 1].tolist()
    assert (first[0], first[-1]) == (0, 2)
    assert first[len(vocabulary.pieces([TEXTS[0]])[0]) + 1 :][:2] == [2, 2]


def test_segments_are_new_where_asked(folder):
    ours = network(folder)
    before = ours.embeddings.token_type_embeddings_0.weight.clone()
    report = InitialWeights("roberta", str(folder), new_token_types="normal").load(ours)
    assert report.new == ("embeddings.token_type_embeddings_0.weight",)
    assert torch.equal(ours.embeddings.token_type_embeddings_0.weight, before)
    assert before.std().item() == pytest.approx(0.02, rel=0.3)


def test_the_first_piece_learns(folder):
    """Its id is 0, which is padding elsewhere."""
    ours = network(folder)
    (encoding,) = OptionSerializer(load_tokenizer(str(folder))).encode(
        [TableExample("q", "Tom", Table("t", (Cell("c"),), ((Cell("cats"),),)), options=("a", "b"))]
    )
    ours(collate([encoding], reset_positions=True, max_positions=64)).states.square().sum().backward()
    assert ours.embeddings.word_embeddings.weight.grad[0].abs().sum() > 0


def test_what_does_not_fit_says_what_to_type(folder, tmp_path):
    with pytest.raises(CheckpointError, match="layer_norm_epsilon=1e-05"):
        InitialWeights("roberta", str(folder)).load(network(folder, layer_norm_epsilon=1e-12))
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "<s>": 1}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(ConfigError, match="lacks <pad>"):
        load_tokenizer(str(tmp_path))


def test_what_is_exported_is_read_again(folder, tmp_path):
    vocabulary = load_tokenizer(str(folder))
    write_tokenizer(tmp_path, vocabulary, 64, "RobertaTokenizerFast")
    assert load_tokenizer(str(tmp_path)).fingerprint == vocabulary.fingerprint
    theirs = RobertaTokenizerFast.from_pretrained(tmp_path)
    assert theirs("Tom sleeps", add_special_tokens=False).input_ids == vocabulary.pieces(["Tom sleeps"])[0].tolist()
