"""Checkpoints that come without a run: TAPAS of transformers answers as there, and what is wrong is said plainly."""

import json
import re
import shutil

import pytest
import torch
from finished_runs import finished_run, here
from safetensors.torch import load_file, save_file
from transformers import TapasConfig, TapasForQuestionAnswering, TapasForSequenceClassification, TapasTokenizer

from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT
from mate_cli.errors import CheckpointError, ConfigError, TrustError
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.tables.example import AGGREGATIONS, TableExample
from mate_cli.tables.table import Cell, Table

COLUMNS = ["colour", "count", "left"]
ROWS = [["red", "3", "5"], ["blue", "7", "1"], ["green ball", "12", "2"], ["?", "4", "0"]]
QUESTIONS = ["which colour has the most?", "how many are left?", "what is the count of blue?", "red", "all of them"]
AGGREGATING = {"num_aggregation_labels": 4, "use_answer_as_supervision": True, "cell_selection_preference": 0.2}
MODELS = {
    "questions": (TapasForQuestionAnswering, {"temperature": 0.05}),
    "aggregations": (TapasForQuestionAnswering, {**AGGREGATING, "temperature": 0.1}),
    "absolute": (TapasForQuestionAnswering, {**AGGREGATING, "reset_position_index_per_cell": False}),
    "statements": (TapasForSequenceClassification, {}),
}


def saved(folder, network, **options):
    """A small random TAPAS as transformers saves it, with its tokenizer."""
    torch.manual_seed(3)
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = TapasConfig(vocab_size=2281, max_position_embeddings=80, **size, **options)
    model = network(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    folder.mkdir()
    words = (SAMPLE_ROOT / "vocab.txt").read_text(encoding="utf-8").replace("[unused0]", "[EMPTY]", 1)
    (folder / "own.txt").write_text(words, encoding="utf-8")
    TapasTokenizer(str(folder / "own.txt"), model_max_length=80).save_pretrained(folder)
    if network is TapasForQuestionAnswering:
        balance(model, folder)
    model.save_pretrained(folder)
    return model


def balance(model, folder):
    """Let about half of the cells of the chosen columns be answers, none of them by a hair, so that answers differ."""
    logits = torch.cat([output.logits[0] for _, _, output, _ in in_transformers(folder, model)])
    ordered = logits[logits > -1000].sort().values
    middle = ordered[len(ordered) // 4 : -(len(ordered) // 4)]
    widest = int(middle.diff().argmax())
    model.output_bias.data -= middle[widest : widest + 2].mean() * model.config.temperature


def opened(folder, tmp_path):
    """Our predictions of all questions, by question."""
    parts, config = open_checkpoint(str(folder), here(tmp_path / "cache"))
    table = Table("t", tuple(map(Cell, COLUMNS)), tuple(tuple(map(Cell, row)) for row in ROWS))
    examples = [TableExample(question, question, table, None) for question in QUESTIONS]
    predictions = predict(parts.task, parts.data.build_eval_loader(examples, "questions"), config)
    return {str(prediction.example_id): prediction for prediction in predictions}


@torch.no_grad()
def in_transformers(folder, model):
    """What transformers makes of each question by itself, tokenizer and all."""
    pandas = pytest.importorskip("pandas")
    tokenizer = TapasTokenizer.from_pretrained(folder)
    frame = pandas.DataFrame(ROWS, columns=COLUMNS)
    for question in QUESTIONS:
        inputs = tokenizer(table=frame, queries=[question], return_tensors="pt")
        yield question, inputs, model(**inputs), tokenizer


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["questions", "aggregations", "absolute"])
def test_answers_are_those_of_transformers(tmp_path, name):
    network, options = MODELS[name]
    model = saved(tmp_path / "tapas", network, **options)
    ours = opened(tmp_path / "tapas", tmp_path)
    seen = set()
    for question, inputs, output, tokenizer in in_transformers(tmp_path / "tapas", model):
        scores = output.logits_aggregation
        cells, *found = tokenizer.convert_logits_to_predictions(inputs, output.logits, scores)
        aggregation = AGGREGATIONS[found[0][0]] if found else "none"
        assert sorted(ours[question].cells) == sorted(cells[0])
        assert ours[question].aggregation == aggregation
        seen.add((tuple(cells[0]), aggregation))
    assert len(seen) > 1
    assert any(cells for cells, _ in seen)


def test_verdicts_are_those_of_transformers(tmp_path):
    model = saved(tmp_path / "tapas", TapasForSequenceClassification)
    ours = opened(tmp_path / "tapas", tmp_path)
    for question, _, output, _ in in_transformers(tmp_path / "tapas", model):
        shares = output.logits[0].softmax(-1)
        assert ours[question].label == int(shares.argmax())
        assert ours[question].probability == pytest.approx(float(shares.max()), abs=1e-5)


def test_weights_may_be_a_pickle_of_tensors(tmp_path):
    saved(tmp_path / "tapas", TapasForSequenceClassification)
    before = opened(tmp_path / "tapas", tmp_path)
    weights = tmp_path / "tapas" / "model.safetensors"
    torch.save(load_file(weights), tmp_path / "tapas" / "pytorch_model.bin")
    weights.unlink()
    assert opened(tmp_path / "tapas", tmp_path) == before


def test_a_checkpoint_of_the_hub(tmp_path, monkeypatch):
    saved(tmp_path / "tapas", TapasForSequenceClassification)
    asked = []

    def hub_file(name, file):
        asked.append((name, file))
        return path if (path := tmp_path / "tapas" / file).is_file() else None

    monkeypatch.setattr("mate_cli.pipelines.inference.checkpoint.hub_file", hub_file)
    monkeypatch.chdir(tmp_path)
    open_checkpoint("google/tapas-base-finetuned-tabfact@no_reset", here(tmp_path))
    assert {name for name, _ in asked} == {"google/tapas-base-finetuned-tabfact@no_reset"}
    assert {"config.json", "vocab.txt", "model.safetensors"} <= {file for _, file in asked}
    assert "pytorch_model.bin" not in {file for _, file in asked}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs") / "tapas"
    saved(folder, TapasForQuestionAnswering, **AGGREGATING)
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    from mate_cli.pipelines.export.export import export_run

    folder = tmp_path_factory.mktemp("ours")
    return export_run(str(finished_run(folder / "run", [])), str(folder / "exported"), here(folder / "cache"))


def cut(folder):
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:999])


def without(name):
    return lambda folder: (folder / name).unlink()


def lacking(tensor):
    def change(folder):
        weights = load_file(folder / "model.safetensors")
        del weights[tensor]
        save_file(weights, folder / "model.safetensors")

    return change


def config(**changed):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return change


def text(name, old, new):
    def change(folder):
        before = (folder / name).read_text()
        assert old in before
        (folder / name).write_text(before.replace(old, new))

    return change


ENCODER, LATE_CODE = "mate_cli.models.mate.MateEncoder", "${oc.create:{_target_:os.getcwd}}"
SWAPPED = {"aggregation_labels": {"0": "SUM", "1": "NONE"}, "num_aggregation_labels": 2}
WRONG = {
    "their weights are cut": ("theirs", cut, r"model\.safetensors: the file cannot be read"),
    "our weights are cut": ("ours", cut, r"model\.safetensors: weights cannot be read.*Download or export it again\.$"),
    "no weights": ("theirs", without("model.safetensors"), r"tapas: no model\.safetensors in it"),
    "no config": ("theirs", without("config.json"), r"tapas: neither mate\.yaml nor config\.json in it"),
    "no vocabulary": ("theirs", without("vocab.txt"), r"no vocab\.txt in it"),
    "no head": ("theirs", lacking("output_weights"), "head.cells.weight of this task is not in it"),
    "no layer": ("theirs", lacking("tapas.encoder.layer.1.output.dense.bias"), r"lacks encoder\.layer\.1\.output"),
    "another model": ("theirs", config(model_type="bert"), "config.json is of 'bert'"),
    "another head": ("theirs", config(architectures=["TapasForMaskedLM"]), "a TapasForMaskedLM cannot answer"),
    "other types": ("theirs", config(type_vocab_sizes=[3, 9]), r"its token types are \[3, 9\]"),
    "other aggregations": ("theirs", config(**SWAPPED), r"its aggregations are \['sum', 'none'\]"),
    "wrong option": ("theirs", config(temperature="hot"), "not a TAPAS configuration"),
    "config is not JSON": ("theirs", text("config.json", "{", "["), "not readable as JSON"),
    "settings are no YAML": ("ours", text("mate.yaml", "seed:", "seed: ["), r"mate\.yaml: cannot be read"),
    "no letters": (
        "ours",
        lambda folder: (folder / "vocab.txt").write_bytes(b"\xff\n"),
        r"vocab\.txt: .* not in UTF-8",
    ),
    "words are cut": ("ours", text("tokenizer_config.json", "}", ""), r"tokenizer_config\.json: not readable as JSON"),
    "unknown option": ("ours", text("mate.yaml", "keep: 10", "kept: 10"), "unexpected keyword argument 'kept'"),
    "another size": ("ours", text("mate.yaml", "size: tiny", "size: mini"), "weights of another network"),
    "foreign code": ("ours", text("mate.yaml", ENCODER, "os.system"), "os.system is not a class of"),
    "imported code": (
        "ours",
        text("mate.yaml", ENCODER, "mate_cli.models.auto_encoder.load_file"),
        "not a class of mate",
    ),
    "their late code": ("theirs", config(hidden_act=LATE_CODE), "is an interpolation"),
    "late code": ("ours", text("mate.yaml", "tiny", LATE_CODE), "getcwd}} is an interpolation"),
    "code behind a backslash": ("ours", text("mate.yaml", "tiny", f"\\{LATE_CODE}"), "getcwd}} is an interpolation"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_folder(name, tmp_path, request):
    source, change, message = WRONG[name]
    folder = tmp_path / request.getfixturevalue(source).name
    shutil.copytree(request.getfixturevalue(source), folder)
    change(folder)
    assert re.search(message, refusal(str(folder), tmp_path))


def test_what_is_no_checkpoint(tmp_path, ours):
    unknown = "is not a folder, and not in the Hugging Face cache"
    assert unknown in refusal("google/tapas-tiny", tmp_path)
    assert "is neither a folder here" in refusal("./no such folder", tmp_path)
    assert "this is a run folder, not a checkpoint. Use run=" in refusal(str(ours.parent / "run"), tmp_path)
    assert f"Try checkpoint={ours}" in refusal(str(ours / "config.json"), tmp_path)


def refusal(name, tmp_path):
    """Why a checkpoint is refused, which is said in one line."""
    with pytest.raises((CheckpointError, ConfigError, TrustError)) as caught:
        open_checkpoint(name, here(tmp_path))
    assert "\n" not in str(caught.value)
    return str(caught.value)
