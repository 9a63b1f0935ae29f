"""What `mate export` writes: anyone can load it, and it predicts as the run did."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from batches import one_table, pad
from configurations import composed, run_config
from finished_runs import SMALL, finished_run, here
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer, TapasForQuestionAnswering, TapasForSequenceClassification

import mate_cli.models.auto_encoder
from mate_cli.cli.config.continued import expand_continued
from mate_cli.cli.config_dir import config_dir
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import ConfigError, MateError, RunError
from mate_cli.lit_modules.entailment import class_logits
from mate_cli.models.auto_classes import auto_name
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.export import export
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.serializers.lexical import FEATURES

RUNS = {
    "mate": [],
    "mate_reset": ["encoding.reset_positions=true", "attention=segments"],
    "bucketed": ["attention=bucketed", "attention.first_section=32", "attention.bucket_size=16"],
    "tapas": ["model=tapas"],
    "sat": ["model=sat", "model.variant=original"],
    "linformer": ["model=linformer"],
    "etc": ["model=etc"],
    "dot": ["model=dot", "model.keep=20", "model.pruner.size=tiny:1"],
    "dot_both": ["model=dot", "model.keep=20", "model.pruner.size=tiny:1", "model.learn=both", "model.select=columns"],
    "features": ["model=tapas", "model.lexical_features=true", "task=table_qa"],
    "lexical": ["model=lexical", "encoding=lexical"],
    "candidates": ["model=candidates", "encoding=ranking", "task=node_ranking"],
    "reader": ["task=span_reading", "encoding=cell"],
    "answers": ["task=table_qa", "task.aggregation=weak"],
    "statements": ["task=entailment"],
}
"""One of every network, and of every kind of task."""
HEADS = {
    "cells": [],
    "weak": ["task.aggregation=weak", "task.temperature=0.3", "task.huber_delta=0.7", "task.max_columns=9"],
    "supervised": ["task.aggregation=supervised", "encoding.reset_positions=true"],
    "free": ["task.select_one_column=false", "task.temperature=0.5"],
    "no_column": ["task.allow_empty_column_selection=true", "task.average_logits_per_cell=true"],
}


def exported(tmp_path, words, **record):
    run = finished_run(tmp_path / "run", words, **record)
    return export_to(run, tmp_path / "exported")


def export_to(run, folder, **options):
    return export.export_run(str(run), str(folder), here(folder.parent / "cache"), **options)


def batch():
    random = np.random.default_rng(0)
    made = pad([one_table(random, *table) for table in ((4, 3, 3, 2), (2, 5, 2, 3), (6, 1, 4, 4))])
    words = torch.from_numpy(random.integers(6, 90, made.input_ids.shape)) * made.attention_mask
    ranks = torch.from_numpy(random.integers(0, 5, made.input_ids.shape)) * made.attention_mask
    features = torch.from_numpy(random.random((*words.shape, len(FEATURES)), np.float32))
    return replace(made, input_ids=words, column_ranks=ranks, cell_features=features)


def inputs(made):
    types = torch.stack([getattr(made, name) for name in TOKEN_TYPES], dim=-1)
    return {"input_ids": made.input_ids, "attention_mask": made.attention_mask, "token_type_ids": types}


def one_by_one(made):
    """Each example without padding."""
    for row, length in enumerate(made.attention_mask.sum(1).tolist()):
        yield replace(made, **{name: tensor[row : row + 1, :length] for name, tensor in made.tensors().items()})


def in_place(parts, made):
    """The batch with the positions that a run of these parts reads."""
    from mate_cli.tokenization.layout import cell_position_ids

    count = torch.arange(made.input_ids.shape[1]).expand_as(made.input_ids)
    cells = cell_position_ids(made.row_ids, made.column_ids, parts.task.encoder.size.max_positions)
    return replace(made, position_ids=cells if parts.serializer.reset_positions else count)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", RUNS)
@torch.no_grad()
def test_every_run_loads_with_automodel_and_as_our_parts(tmp_path, name):
    folder = exported(tmp_path, RUNS[name])
    parts, config = open_checkpoint(str(folder), here(tmp_path))
    run = load_file(tmp_path / "run" / "checkpoints" / "best.safetensors")
    assert all(torch.equal(tensor, run[key]) for key, tensor in parts.task.state_dict().items())
    assert parts.task.state_dict().keys() == run.keys()
    model = AutoModel.from_pretrained(folder)
    made = batch()
    own = {"cell_features": made.cell_features} if model.config.model_type == "mate_cli" else {}
    theirs, ours = model(**inputs(made), **own), parts.task.eval().encoder(in_place(parts, made))
    real = made.attention_mask == 1
    states = ours.spread(made.input_ids.shape[1])[real]
    torch.testing.assert_close(theirs.last_hidden_state[real], states, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(theirs.pooler_output, ours.pooled, atol=1e-5, rtol=1e-5)
    assert states.std() > 0.1
    assert config.attention["_target_"].endswith("Bucketed" if name == "bucketed" else "Auto")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if place else []) for place, name in enumerate(HEADS)]
)
@torch.no_grad()
def test_questions_are_scored_alike_by_transformers(tmp_path, name):
    folder = exported(tmp_path, ["model=tapas", "task=table_qa", *HEADS[name]])
    theirs = TapasForQuestionAnswering.from_pretrained(folder)
    parts, _ = open_checkpoint(str(folder), here(tmp_path))
    task = parts.task.eval()
    for made in one_by_one(batch()):  # padding changes what transformers makes of choosing no column
        given = {"labels": torch.zeros(made.input_ids.shape)} if name == "free" else {}  # it needs them
        output, scores = theirs(**inputs(made), **given), task.head(task.encoder(in_place(parts, made)))
        final = scores.final()
        # Far below zero, outside the chosen column, 32 bits are too few for more.
        close = final > -1000
        torch.testing.assert_close(output.logits[close], final[close], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(output.logits[~close], final[~close], atol=1e-2, rtol=0)
        assert (scores.aggregation is None) == (output.logits_aggregation is None)
        if scores.aggregation is not None:
            torch.testing.assert_close(output.logits_aggregation, scores.aggregation, atol=1e-5, rtol=1e-5)


def test_all_options_of_the_heads_are_passed_on(tmp_path):
    options = {
        "aggregation": "weak",
        "temperature": 0.5,
        "select_one_column": "false",
        "allow_empty_column_selection": "true",
        "average_logits_per_cell": "true",
        "zero_cell_head": "true",
        "cell_selection_preference": 0.25,
        "huber_delta": 0.125,
        "answer_loss_cutoff": 3.5,
        "normalise_answer_loss": "true",
        "average_approximation": "second_order",
        "aggregation_temperature": 0.75,
        "aggregation_importance": 2.0,
        "answer_importance": 3.0,
        "positive_weight": 4.0,
        "max_rows": 20,
        "max_columns": 10,
    }
    words = [f"task.{name}={value}" for name, value in options.items()]
    folder = exported(tmp_path, ["model=tapas", "task=table_qa", *words])
    config = json.loads((folder / "config.json").read_text())
    assert config["aggregation_labels"] == {"0": "NONE", "1": "SUM", "2": "AVERAGE", "3": "COUNT"}
    assert config["model_type"] == "tapas"
    assert config["architectures"] == ["TapasForQuestionAnswering"]
    assert config["use_answer_as_supervision"] is True
    assert config["huber_loss_delta"] == 0.125
    assert TapasForQuestionAnswering.from_pretrained(folder).config.num_aggregation_labels == 4
    (folder / "mate.yaml").unlink()  # what is left is all that transformers would have written
    parts, _ = open_checkpoint(str(folder), here(tmp_path))
    read = {**vars(parts.task.options), **vars(parts.task.criterion)}
    assert {name: read[name] for name in options if name in read} == {
        name: yaml.safe_load(str(value)) for name, value in options.items() if name in read
    }
    assert len(read.keys() & options.keys()) == len(options)


@torch.no_grad()
def test_statements_are_judged_alike_by_transformers(tmp_path):
    folder = exported(tmp_path, ["model=tapas", "task=entailment"])
    theirs = TapasForSequenceClassification.from_pretrained(folder)
    assert theirs.config.id2label == {0: "refuted", 1: "entailed"}
    parts, _ = open_checkpoint(str(folder), here(tmp_path))
    made, task = batch(), parts.task.eval()
    ours = class_logits(task.encoder(in_place(parts, made)), task.head)
    torch.testing.assert_close(theirs(**inputs(made)).logits, ours, atol=1e-5, rtol=1e-5)


def test_the_tokenizers_of_transformers_read_the_folder(tmp_path):
    pandas = pytest.importorskip("pandas")
    folder = exported(tmp_path, ["model=tapas", "task=table_qa"])
    rows = [["red", "3"], ["?", "7"], ["blue", "12"]]  # transformers loses a cell without any text
    table = Table("t", (Cell("colour"), Cell("count")), tuple(tuple(map(Cell, row)) for row in rows))
    parts, _ = open_checkpoint(str(folder), here(tmp_path))
    (ours,) = parts.serializer.encode([TableExample("q", "which colour is most?", table, None)])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    frame = pandas.DataFrame(rows, columns=["colour", "count"])
    theirs = tokenizer(table=frame, queries=["which colour is most?"], return_tensors="np")
    assert theirs["input_ids"][0].tolist() == ours.input_ids.tolist()
    for place, name in enumerate(TOKEN_TYPES):
        assert theirs["token_type_ids"][0, :, place].tolist() == getattr(ours, name).tolist(), name
    plain = AutoTokenizer.from_pretrained(exported(tmp_path / "plain", ["encoding=plain"]))
    assert plain("which colour")["input_ids"][1:-1] == ours.input_ids[1:3].tolist()


def test_predictions_are_those_of_the_run(tmp_path):
    run = finished_run(tmp_path / "run", [])
    folder = export_to(run, tmp_path / "x")
    examples = Sample().examples("test")[:6]
    parts, config = open_checkpoint(str(folder), here(tmp_path))
    ours = predict(parts.task, parts.data.build_eval_loader(examples, "questions"), config)
    whole = run_config([*SMALL, f"paths.cache={tmp_path}"])
    trained = assemble(whole, EmptyDataset())
    trained.task.load_state_dict(load_file(run / "checkpoints" / "best.safetensors"))
    theirs = predict(trained.task, trained.data.build_eval_loader(examples, "questions"), whole)
    assert [ranking.cells for ranking in ours] == [ranking.cells for ranking in theirs]
    assert len({ranking.cells[0] for ranking in ours}) > 1


@pytest.mark.parametrize("overrides", [[], ["model=tapas", "task=table_qa"]])
def test_training_can_begin_with_it(tmp_path, overrides):
    folder = exported(tmp_path, overrides)
    parts, _ = open_checkpoint(str(folder), here(tmp_path))
    fresh = assemble(run_config([*SMALL, *overrides]), EmptyDataset()).task.encoder
    report = InitialWeights("path", str(folder)).load(fresh)
    assert report.new == ()
    wanted = parts.task.encoder.state_dict()
    assert all(torch.equal(tensor, wanted[name]) for name, tensor in fresh.state_dict().items())


def test_the_card_says_what_it_is(tmp_path):
    typed = ["data=sample", "paths.outputs=/home/me/outputs", "optimizer.lr=1e-3", "logger=none"]
    folder = exported(tmp_path, [], dataset="wtq", metrics={"dev/denotation_accuracy": 0.5}, overrides=typed)
    card = (folder / "README.md").read_text()
    _, front, text = card.split("---\n", 2)
    matter = yaml.safe_load(front)
    assert matter["license"] == "cc-by-sa-4.0"
    assert matter["datasets"] == ["stanfordnlp/wikitablequestions"]
    assert matter["metrics"] == ["accuracy"]
    assert matter["pipeline_tag"] == "table-question-answering"
    assert "mate train data=sample optimizer.lr=1e-3\n" in text
    assert "| Denotation accuracy (`denotation_accuracy`) | 50.0 |" in text
    assert "CC BY-SA 4.0" in text
    assert "train 8, failures 1" in text
    for file in ("README.md", "mate.yaml", "config.json", "tokenizer_config.json"):
        assert "/home/me" not in (folder / file).read_text()
        assert str(tmp_path) not in (folder / file).read_text()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    [
        "mate",
        "candidates",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("tapas", "features", "answers", "statements", "reader")
        ),
    ],
)
def test_what_the_card_shows_can_be_done(tmp_path, name, monkeypatch):
    exported(tmp_path, ["model=tapas", *RUNS[name]] if name in ("answers", "statements") else RUNS[name])
    monkeypatch.chdir(tmp_path)
    card = (tmp_path / "exported" / "README.md").read_text()
    shell, python = (re.search(rf"```{kind}\n(.*?)```", card, re.DOTALL)[1] for kind in ("bash", "python"))
    made = {}
    exec(python, made)
    assert ("outputs" in made) == (name not in ("features", "candidates", "reader"))
    if name not in ("features", "reader"):  # Mate answers for these, and chooses the class
        found = type(made["model"]).__name__
        assert auto_name(found) in python or found in python
    for line in shell.splitlines():
        command, *words = shlex.split(line, comments=True)[1:]
        composed(config_dir(), command, expand_continued(words))


def test_what_cannot_be_exported(tmp_path):
    finished_run(tmp_path / "run", [], status="interrupted")
    with pytest.raises(RunError, match="this run is interrupted"):
        export_to(tmp_path / "run", tmp_path / "x")
    finished_run(tmp_path / "run", [], stages={"cell_selection": "elsewhere"})
    with pytest.raises(RunError, match=f"Export run={tmp_path / 'run' / 'cell_selection'}"):
        export_to(tmp_path / "run", tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_is_replaced_only_when_asked_and_only_by_what_is_whole(tmp_path, monkeypatch):
    folder = exported(tmp_path, [])
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    run = tmp_path / "run"
    with pytest.raises(ConfigError, match=r"already exists. Choose a new folder, or add overwrite=true"):
        export_to(run, folder)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(export, "write_tensors", full)
        with pytest.raises(ConfigError, match=r"cannot be written: no space left"):
            export_to(run, folder, overwrite=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    (folder / "merges.txt").touch()  # of an earlier export, with another vocabulary
    (folder / "mine.txt").write_text("mine")
    export_to(run, folder, overwrite=True)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {**before, "mine.txt": b"mine"}
    (folder / "mate.yaml").unlink()
    with pytest.raises(ConfigError, match="is not an exported model, and is not replaced"):
        export_to(run, folder, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exported", "run"]


LATE = "${oc.create:{_target_:os.getcwd}}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("_target_", "os.getcwd"),
        ("size", {"_target_": "os.getcwd"}),
        ("size", LATE),
        ("vocab_size", {"_target_": "os.getcwd"}),
        ("vocab_size", LATE),
    ],
)
def test_automodel_builds_nothing_but_our_classes(tmp_path, place, value):
    folder = exported(tmp_path, [])
    config = json.loads((folder / "config.json").read_text())
    (config if place in config else config["model"])[place] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(MateError, match=r"os\.getcwd.* is (not a class of mate|an interpolation)"):
        AutoModel.from_pretrained(folder)


def test_a_network_can_be_made_from_its_configuration_alone(tmp_path):
    config = mate_cli.models.auto_encoder.MateConfig.from_pretrained(exported(tmp_path, []))
    again = AutoModel.from_config(config)
    again.save_pretrained(tmp_path / "again")
    loaded = AutoModel.from_pretrained(tmp_path / "again", dtype=torch.bfloat16)
    assert loaded.dtype == torch.bfloat16
