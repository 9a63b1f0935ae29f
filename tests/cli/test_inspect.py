import re

import numpy as np
import pytest

from mate_cli.cli.app import main
from mate_cli.cli.inspect import cell_lengths, find_example, linked_texts
from mate_cli.data.sample import Sample
from mate_cli.errors import DataError
from mate_cli.tokenization.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

WORDS = ("inspect", "data=sample", "init.size=tiny", "init.tokenizer=sample")


@pytest.fixture(scope="module")
def examples():
    return Sample().examples("dev")


def read_png(path):
    from matplotlib.image import imread

    return imread(path)


def test_prints_the_example_and_draws_what_its_heads_see(tmp_path, capsys, examples, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main([*WORDS, "example=dev-0007", "tokens=30", f"paths.outputs={tmp_path}"]) == 0
    printed, example = capsys.readouterr().out, examples[7]
    assert example.question in printed
    assert f"{example.answer.texts[0]}  ({example.answer.source})" in printed
    assert printed.count("○") == 1 + len(example.answer.coordinates), "the legend and the cell with the answer"
    assert "Tokens (the first 30 of" in printed
    assert "[CLS]" in printed
    image = read_png(tmp_path / "inspect" / "dev-0007_masks.png")
    assert image.shape[0] > 500
    assert np.ptp(image[..., :3]) > 0.5, "something is drawn"


def test_other_models_show_their_own_heads(tmp_path, capsys):
    words = [*WORDS, "model=tapas", "attention=sdpa", f"paths.outputs={tmp_path}"]
    assert main(words) == 0
    assert len(list((tmp_path / "inspect").glob("*.png"))) == 1


def test_an_example_is_found_by_id_by_place_or_is_the_first(examples):
    assert find_example(examples, None, "dev") is examples[0]
    assert find_example(examples, 3, "dev") is examples[3]
    assert find_example(examples, "3", "dev") is examples[3]
    assert find_example(examples, "dev-0003", "dev") is examples[3]
    for wanted in ("nobody", 150, "-1"):
        with pytest.raises(DataError, match=re.escape(f"no example {wanted}") + r".*from 0 to 149"):
            find_example(examples, wanted, "dev")


@pytest.mark.parametrize("options", [{}, {"sentences": 0}, {"whole_passages": True}, {"max_tokens": 64}])
def test_the_lengths_of_cells_are_those_of_the_encoding(examples, options):
    serializer = TapasSerializer(load_tokenizer("sample"), **options)
    for example in examples[::30]:
        (encoding,) = serializer.encode([example])
        lengths = cell_lengths(example, encoding, serializer, linked_texts(example, serializer))
        assert sum(kept for kept, _ in lengths.values()) == (encoding.row_ids > 0).sum()
        if not options.get("max_tokens"):
            assert all(kept == whole for kept, whole in lengths.values())
        else:
            assert any(kept < whole for kept, whole in lengths.values())


def test_an_encoding_without_words_is_refused(tmp_path, capsys):
    assert main([*WORDS, "encoding=lexical", f"paths.outputs={tmp_path}"]) == 2
    assert "Use encoding=table" in capsys.readouterr().err
