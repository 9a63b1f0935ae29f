import importlib
import io
import json
import re
import warnings

import numpy as np
import pytest
from finished_runs import finished_run, here
from rich.console import Console
from table_releases import WRITERS

from mate_cli.cli.app import main
from mate_cli.cli.commands import inspect
from mate_cli.cli.commands.inspect import cell_lengths, find_example
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.errors import DataError, RunError
from mate_cli.pipelines.evaluation.evaluate_run import evaluate_run
from mate_cli.reports.example import print_example, print_tokens
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import SUMMARY_ROW
from mate_cli.tokenization.serializers.sat import SatSerializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

WORDS = ("inspect", "data=sample", "model.size=tiny", "init.tokenizer=sample")


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
    assert "cut       nothing; at most 512 tokens" in printed
    assert "[CLS]" in printed
    image = read_png(tmp_path / "inspect" / "dev-0007_masks.png")
    assert image.shape[0] > 500
    assert np.ptp(image[..., :3]) > 0.5, "something is drawn"


def test_without_a_choice_it_shows_what_comes_with_the_package(tmp_path, capsys, monkeypatch, examples):
    monkeypatch.setattr("mate_cli.files.hub.hub_file", lambda *_: pytest.fail("the hub is asked"))
    assert main(["inspect", "example=1", f"paths.outputs={tmp_path}"]) == 0
    assert examples[1].question in capsys.readouterr().out
    assert main(["inspect", "data=hybridqa", f"data.root={tmp_path}", "data.download=false"]) == 2
    assert f"{tmp_path}" in capsys.readouterr().err, "nothing stands in for data that are named"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [WORDS, ("data", "export", "data=sample", "split=dev", "to=questions.jsonl")])
def test_the_examples_of_a_dataset_may_be_a_generator(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Sample, "examples", lambda self, split: iter(self.read(split, [])))
    assert main([*words]) == 0


def test_says_what_was_cut(tmp_path, capsys):
    assert main([*WORDS, "encoding.max_tokens=40", "encoding.sentences=0", f"paths.outputs={tmp_path}"]) == 0
    assert re.search(r"cut       .*rows dropped: \d.*; at most 40 tokens", capsys.readouterr().out)


SHOWN = {
    "sqa": ("1", "train", ["before    1. who plays?", "question  who scored 4?", "Bob Stone ● ◂", "Ann Lee ◂"]),
    "wtq": ("3", "train", ["answer    2", "learnt    the number 2"]),
    "tabfact": ("0", "test", ["(complex, small)", "statement rome be first", "answer    refuted", "cities"]),
    "wikisql": ("1", "train", ["answer    2.0", "learnt    the count of 2 cells = the number 2", "Ann Lee ●"]),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in ("sqa", "wtq") else []) for name in SHOWN]
)
def test_every_dataset_about_tables_alone_is_shown(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "118")
    place, split, expected = SHOWN[name]
    words = [f"data={name}", f"data.root={WRITERS[name](tmp_path / name)}", f"split={split}", f"example={place}"]
    words += ["data.supervision=full"] * (name == "wikisql") + ["tokens=12", f"paths.outputs={tmp_path}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a question of WikiSQL is left out
        assert main([WORDS[0], *WORDS[2:], *words]) == 0
    printed = capsys.readouterr().out
    for text in expected:
        assert text in printed
    assert ("before" in printed) == (name == "sqa"), "the label of the answer before, and the question itself"


def test_long_tables_are_shown_in_part():
    table = Table("t", (Cell("name"),), tuple((Cell(f"row {n}"),) for n in range(100)))
    example = TableExample("q", "who?", table, Answer(("row 70",), ((70, 0),)), previous_cells=((72, 0),))
    console = Console(file=io.StringIO(), width=80)
    print_example(example, {(r, 0) for r in range(100)}, console)
    printed = console.file.getvalue()
    for text in ("row 39", "30 more rows", "row 70 ●", "1 more row ", "row 72 ◂", "26 more rows", "row 99"):
        assert text in printed
    assert "row 40" not in printed
    assert "✂" not in printed


@pytest.mark.long
def test_the_input_of_sat_shows_what_was_dropped_and_both_kinds_of_layers(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    drawn = {}
    module = "mate_cli.reports.plots.attention_masks.attention_masks_figure"
    figure = importlib.import_module(module.rpartition(".")[0]).attention_masks_figure
    monkeypatch.setattr(module, lambda masks, *rest: drawn.update(masks) or figure(masks, *rest))
    words = ["model=sat", "model.variant=original", "encoding=sat", "encoding.rows=3", f"paths.outputs={tmp_path}"]
    assert main([*WORDS, *words]) == 0
    example, printed = Sample().examples("dev")[0], capsys.readouterr().out
    (encoding,) = SatSerializer(load_tokenizer("sample"), rows=3).encode([example])
    dropped = len(example.table.rows) - len(set(encoding.row_ids) - {0, SUMMARY_ROW})
    assert dropped >= len(example.table.rows) - 3
    assert printed.count("✂") == 1 + dropped * len(example.table.header), "the legend and the dropped cells"
    assert list(drawn) == ["layer 1, all heads", "layer 2, all heads"]
    lower, upper = drawn.values()
    assert (upper & lower == lower).all()
    assert upper.sum() > lower.sum()


def test_counts_of_values_are_shown_as_such():
    row = tuple(Cell(text) for text in ("7", "7"))
    example = TableExample("q", "7", Table("t", row, (row,)))
    serializer = SatSerializer(load_tokenizer("sample"))
    (encoding,) = serializer.encode([example])
    assert encoding.kinds.count("counts") == (encoding.row_ids == SUMMARY_ROW).sum() > 0
    console = Console(file=io.StringIO(), width=120)
    pieces = [serializer.tokenizer.tokens[piece] for piece in encoding.input_ids]
    print_tokens(vars(encoding), encoding.kinds, pieces, 60, console)
    assert console.file.getvalue().count("counts") == encoding.kinds.count("counts")
    assert set(cell_lengths(example, encoding, serializer, {})) == {(0, 0), (0, 1)}


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
        additions = {link: " ".join(texts) for link, texts in serializer.find_additions(example).items()}
        lengths = cell_lengths(example, encoding, serializer, additions)
        assert sum(kept for kept, _ in lengths.values()) == (encoding.row_ids > 0).sum()
        if not options.get("max_tokens"):
            assert all(kept == whole for kept, whole in lengths.values())
        else:
            assert any(kept < whole for kept, whole in lengths.values())


def test_an_encoding_without_words_is_refused(tmp_path, capsys):
    assert main([*WORDS, "encoding=lexical", f"paths.outputs={tmp_path}"]) == 2
    assert "Use encoding=table" in capsys.readouterr().err


@pytest.mark.parametrize("width", [40, 80, 118])
def test_wide_tables_are_shown_in_parts_that_fit(width):
    header = tuple(Cell(f"head {n}") for n in range(21))
    table = Table("t", header, (tuple(Cell(f"c{n}") for n in range(21)),), title="Wide")
    example = TableExample("q", "who?", table, Answer(("c20",), ((0, 20),)))
    console = Console(file=io.StringIO(), width=width)
    print_example(example, {(0, n) for n in range(21)}, console)
    printed = console.file.getvalue()
    assert max(map(len, printed.splitlines())) <= width
    assert "of 21" in printed
    for n in range(21):
        assert f" c{n} " in printed
    assert printed.count("●") == 2, "in the legend and in the cell"


@pytest.mark.long
def test_masked_examples_show_what_was_there(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "118")
    words = ["inspect", "experiment=pretrain_mate", "data.sources=[sample]", "data.exclude=[]", "split=dev"]
    words += ["init=random", "model.size=tiny", "init.tokenizer=sample", "tokens=128"]
    assert main([*words, f"paths.cache={tmp_path}", f"paths.outputs={tmp_path}"]) == 0
    assert "[MASK] for " in capsys.readouterr().out


@pytest.fixture(scope="module")
def pruning_run(tmp_path_factory):
    words = ["model=dot", "model.pruner.size=tiny:1", "model.keep=30", "trainer.limit_dev=6", "encoding.sentences=1"]
    return finished_run(tmp_path_factory.mktemp("dot") / "run", words, model="dot")


@pytest.fixture
def undrawn(monkeypatch):
    """Masks take seconds to draw."""
    monkeypatch.setattr(inspect, "draw_masks", lambda *_: None)
    monkeypatch.setattr(inspect, "save_figure", lambda *_: "nowhere")


def test_a_run_shows_which_tokens_it_keeps(pruning_run, tmp_path, capsys, monkeypatch, examples):
    monkeypatch.setenv("COLUMNS", "118")
    assert main(["inspect", f"run={pruning_run}", "example=dev-0003", "tokens=20", f"paths.outputs={tmp_path}"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"kept      30 of \d+ tokens; of the answer \d+ of \d+\n", printed)
    assert re.search(r"scores    log P in the table -\d.*; mean of kept tokens -\d.*, of the rest -\d", printed)
    question = " ".join(["[CLS]", *examples[3].question.split(), "[SEP]"])
    assert re.search(rf"question  {re.escape(question)} *\n", printed)
    assert "[-" in printed
    assert "┃ score ┃" in printed
    assert "at most 96 tokens" in printed, "as it was trained"


def test_what_it_shows_is_what_evaluation_counts(pruning_run, tmp_path, capsys, undrawn):
    evaluate_run(str(pruning_run), ["dev"], here(tmp_path))
    rows = json.loads((pruning_run / "predictions" / "dev.json").read_text())
    assert {row["scores"]["kept_tokens"] for row in rows} == {30.0}
    kept = [row["scores"]["kept"] for row in rows if "kept" in row["scores"]]
    assert set(kept) <= {0.0, 1.0}
    metrics = json.loads((pruning_run / "evaluation" / "dev.json").read_text())
    assert metrics["dev/kept"] == pytest.approx(sum(kept) / len(kept))
    assert metrics["dev/score_margin"] == pytest.approx(np.mean([row["scores"]["score_margin"] for row in rows]))
    capsys.readouterr()
    row = rows[3]
    assert main(["inspect", f"run={pruning_run}", f"example={row['question_id']}"]) == 0
    left = re.search(r"of the answer (\d+) of", capsys.readouterr().out)
    assert (int(left[1]) > 0) == row["scores"]["kept"]


def test_a_run_that_keeps_all_tokens_is_shown_as_ever(tmp_path, capsys, undrawn):
    run = finished_run(tmp_path / "run", ["model=tapas"])
    assert main(["inspect", f"run={run}"]) == 0
    printed = capsys.readouterr().out
    assert "Tokens (the first" in printed
    assert "kept  " not in printed
    assert "score" not in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run=somewhere", "encoding.max_tokens=64"], "encoding.max_tokens: was fixed in training"),
        (["checkpoint=somewhere", "data=sample", "model=dot"], "model: was fixed in training"),
        (["run=somewhere"], "somewhere: this is not a run folder"),
        (["run=a", "checkpoint=b"], "run: cannot be combined with checkpoint"),
    ],
)
def test_what_a_run_would_not_hear_is_refused(words, message, capsys):
    assert main(["inspect", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_an_exported_network_is_shown_with_any_data(pruning_run, tmp_path, capsys, undrawn):
    to = tmp_path / "exported"
    assert main(["export", f"run={pruning_run}", f"to={to}", f"paths.cache={tmp_path}"]) == 0
    assert main(["inspect", f"checkpoint={to}", "data=sample", "example=3"]) == 0
    assert "kept      30 of" in capsys.readouterr().out


def test_a_picture_is_written_through_no_link(tmp_path):
    outputs, elsewhere = tmp_path / "outputs", tmp_path / "elsewhere"
    outputs.mkdir()
    elsewhere.mkdir()
    (outputs / "inspect").symlink_to(elsewhere)
    with pytest.raises(RunError, match="is a link that leads out"):
        inspect.save_figure(None, outputs, "masks")
    assert not list(elsewhere.iterdir())
