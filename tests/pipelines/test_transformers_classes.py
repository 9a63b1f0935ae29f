"""Exports are models of transformers: its common model tests as far as they apply, its pipelines, and ours."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from finished_runs import here
from tiny_exports import FRAME, QUESTIONS, model_inputs
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, pipeline
from transformers import AutoModelForQuestionAnswering as ForReading
from transformers import AutoModelForTableQuestionAnswering as ForTables

import mate_cli.models.auto_classes  # noqa: F401 - makes our networks known
from mate_cli import Mate
from mate_cli.errors import DataError, RunError
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.pipelines.inference.pretrained_encoder import link_passages
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table

PASSAGE = "Castle College was founded by Karin Rossi in 1912. It stands on a hill above the river, near the old mill."
READING = [
    {"question": "who founded it?", "passages": PASSAGE, "cell": "Castle College"},
    {"question": "when was it founded?", "passages": [PASSAGE, "The mill burnt down in 1930."], "cell": "Castle"},
    {"question": "what is it called?", "passages": (), "cell": "Castle College"},
]


def reading_batch(reader, index):
    """A question with its passages, encoded."""
    asked = READING[index]
    return reader.batch(link_passages(asked["passages"], asked["cell"]), asked["question"])


def predicted(folder, tmp_path):
    """What `mate predict` chooses, cell by cell."""
    pandas = pytest.importorskip("pandas")
    parts, config = open_checkpoint(folder, here(tmp_path))
    table = Table.from_pandas(pandas.DataFrame(FRAME))
    examples = [TableExample(str(place), text, table) for place, text in enumerate(QUESTIONS)]
    found = predict(parts.task, parts.data.build_eval_loader(examples, "questions"), config)
    texts = parts.task.answers(found, {example.example_id: example for example in examples})
    in_order = sorted(found, key=lambda one: int(one.example_id))
    return [(parts.task.selection(one), texts.get(one.example_id, "")) for one in in_order]


@pytest.mark.parametrize(
    "name", ["cells", pytest.param("answers", marks=pytest.mark.long), pytest.param("dot", marks=pytest.mark.long)]
)
def test_the_pipeline_of_transformers_answers_as_mate_does(exports, tmp_path, name, caplog):
    folder = exports(name)
    wanted = predicted(folder, tmp_path)
    theirs = pipeline("table-question-answering", model=folder)
    assert "not supported" not in caplog.text
    answers = Mate.from_pretrained(folder).predict(FRAME, QUESTIONS)
    for question, answer, (selection, _) in zip(QUESTIONS, answers, wanted, strict=True):
        assert answer.cells == selection.cells
        assert answer.confidence == pytest.approx(selection.share_right(None), rel=1e-5)
        same = theirs(table=FRAME, query=question)
        assert sorted(same["coordinates"]) == sorted(selection.cells)
        assert same.get("aggregator", "NONE") == answer.aggregation.upper()
    assert name == "answers" or len({selection.cells for selection, _ in wanted}) > 1


@torch.no_grad()
def test_heads_score_as_the_task_does(exports, given):
    words = AutoModelForMaskedLM.from_pretrained(exports("pieces"))(**given).logits
    assert words.shape == (*given["input_ids"].shape, AutoConfig.from_pretrained(exports("pieces")).vocab_size)
    model = AutoModelForSequenceClassification.from_pretrained(exports("statements"))
    assert model.config.id2label == {0: "refuted", 1: "entailed"}
    output = model(**given, labels=torch.tensor([0, 1, 1]))
    own = torch.nn.functional.cross_entropy(output.logits, torch.tensor([0, 1, 1]))
    torch.testing.assert_close(output.loss, own)


@torch.no_grad()
def test_one_cell_is_above_zero_and_the_shares_of_cells_stay(exports, given):
    model = ForTables.from_pretrained(exports("cells"))
    logits, types = model(**given).logits, given["token_type_ids"]
    batch = replace(model.batch_of(**given, position_ids=None, cell_features=None), example_ids=("a", "b", "c"))
    for row, ranking in enumerate(model.task.predictions(model.encoder(batch), batch)):
        cells = {}
        for logit, (_, column, line, *_) in zip(logits[row].tolist(), types[row].tolist(), strict=True):
            if line and column:
                cells[line - 1, column - 1] = logit
        assert [cell for cell, logit in cells.items() if logit > 0] == [ranking.cells[0]]
        shares = torch.tensor([cells[cell] for cell in cells]).softmax(0).tolist()
        by_cell = dict(zip(cells, shares, strict=True))
        assert by_cell[ranking.cells[3]] == pytest.approx(ranking.probabilities[3], abs=1e-5)
        assert (logits[row][types[row][:, 2] == 0] < -1000).all()


@torch.no_grad()
@pytest.mark.parametrize("name", ["cells", pytest.param("answers", marks=pytest.mark.long)])
def test_saved_and_loaded_again_it_is_the_same(exports, given, tmp_path, name):
    model = ForTables.from_pretrained(exports(name))
    model.save_pretrained(tmp_path)
    again = ForTables.from_pretrained(tmp_path)
    weights, others = model.state_dict(), again.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(tensor, others[key]) for key, tensor in weights.items())
    assert torch.equal(model(**given).logits, again(**given).logits)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [type(model).__name__]
    model.save_pretrained(tmp_path / "parts", max_shard_size="1MB")
    assert len(list((tmp_path / "parts").glob("model-*.safetensors"))) > 1
    assert torch.equal(ForTables.from_pretrained(tmp_path / "parts")(**given).logits, model(**given).logits)
    half = ForTables.from_pretrained(exports(name), dtype="bfloat16")
    half.save_pretrained(tmp_path / "half")
    assert ForTables.from_pretrained(tmp_path / "half").dtype == torch.bfloat16
    assert torch.isfinite(half(**given).logits).all()


@torch.no_grad()
@pytest.mark.parametrize("name", ["cells", "dot"])
def test_states_and_attention_weights_on_request(exports, given, name):
    model = AutoModel.from_pretrained(exports(name), device_map="auto")
    output = model(**given, output_hidden_states=True, output_attentions=True)
    layers = model.config.num_hidden_layers
    assert [states.shape for states in output.hidden_states] == [output.last_hidden_state.shape] * (layers + 1)
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert len(output.attentions) == layers
    assert output.attentions[0].shape[1] == model.config.num_attention_heads
    shares = output.attentions[0].sum(-1)
    assert ((shares - 1).abs() < 1e-5).any()
    as_tuple = model(**given, output_hidden_states=True, output_attentions=True, return_dict=False)
    assert torch.equal(as_tuple[0], output.last_hidden_state)
    assert len(as_tuple) == len(output.to_tuple()) == 4
    told = AutoModel.from_pretrained(exports(name), output_hidden_states=True)
    assert len(told(**given).hidden_states) == layers + 1
    assert told(**given).attentions is None


def test_word_pieces_can_be_added(exports, given, tmp_path):
    model = ForTables.from_pretrained(exports("cells"))
    before = model(**given).logits
    size = model.config.vocab_size
    model.resize_token_embeddings(size + 7)
    assert model.get_input_embeddings().weight.shape[0] == model.config.vocab_size == size + 7
    torch.testing.assert_close(model(**given).logits, before)
    model(**given | {"input_ids": torch.full_like(given["input_ids"], size + 6)})
    model.save_pretrained(tmp_path)
    assert ForTables.from_pretrained(tmp_path).config.vocab_size == size + 7


@pytest.mark.parametrize(
    ("name", "load", "reason"),
    [
        ("dot", AutoModel, "several word embeddings"),
        ("pieces", AutoModelForMaskedLM, "several word embeddings"),
        ("lexical", AutoModel, "Lexical does not read word pieces"),
    ],
)
def test_a_vocabulary_that_cannot_grow_stays_as_it_was(exports, name, load, reason):
    model = load.from_pretrained(exports(name))
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    size = model.config.vocab_size
    for options in ({"new_num_tokens": size + 7}, {"pad_to_multiple_of": 64}, {"new_num_tokens": size - 7}):
        with pytest.raises(ValueError, match=reason):
            model.resize_token_embeddings(**options)
    after = model.state_dict()
    assert model.config.vocab_size == size
    assert all(torch.equal(tensor, after[key]) for key, tensor in before.items())


@torch.no_grad()
def test_a_batch_gives_what_its_examples_give(exports, given):
    model = ForTables.from_pretrained(exports("cells"))
    together = model(**given).logits
    for row, length in enumerate(given["attention_mask"].sum(1).tolist()):
        alone = model(**{name: one[row : row + 1, :length] for name, one in given.items()}).logits
        torch.testing.assert_close(alone[0], together[row, :length], atol=1e-5, rtol=1e-5)
    assert torch.equal(together, model(**given).logits)


@torch.no_grad()
def test_a_reader_scores_the_ends_of_spans_and_reads_as_it_did_in_mate(exports, tmp_path):
    model = ForReading.from_pretrained(exports("reader"))
    reader = Mate.from_pretrained(exports("reader"))
    batch = reading_batch(reader, 0)
    inputs = model_inputs(batch)
    output = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert output.start_logits.shape == output.end_logits.shape == batch.input_ids.shape
    assert len(output.hidden_states) == len(output.attentions) + 1 == model.config.num_hidden_layers + 1
    spans = output.span_logits[0].flatten().softmax(0).view(output.span_logits.shape[1:])
    torch.testing.assert_close(output.start_logits[0].softmax(0), spans.sum(-1))
    start, more = divmod(int(spans.argmax()), spans.shape[1])
    ending = sum(spans[start + more - back, back] for back in range(min(spans.shape[1], start + more + 1)))
    torch.testing.assert_close(output.end_logits[0].softmax(0)[start + more], ending)
    told = model(**inputs, start_positions=torch.tensor([start]), end_positions=torch.tensor([start + more]))
    torch.testing.assert_close(told.loss, -spans[start, more].log())
    model.save_pretrained(tmp_path)
    again = ForReading.from_pretrained(tmp_path)
    assert torch.equal(again(**inputs).span_logits, output.span_logits)
    answers = [reader.read(**asked) for asked in READING]
    assert all(answer.answer for answer in answers)
    assert answers[0].confidence == pytest.approx(float(spans.max()))
    with pytest.raises(DataError, match="a passage or a cell are needed"):
        reader.read("who?")
    with pytest.raises(RunError, match="CellSelection does not read passages"):
        Mate.from_pretrained(exports("cells")).read(**READING[0])


@pytest.mark.long
def test_a_reader_is_a_model_of_transformers(exports):
    model = ForReading.from_pretrained(exports("reader"))
    inputs = model_inputs(reading_batch(Mate.from_pretrained(exports("reader")), 1))
    before = model(**inputs)
    gradients = []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(**inputs, start_positions=torch.tensor([5]), end_positions=torch.tensor([6])).loss.backward()
        gradients.append({name: one.grad for name, one in model.named_parameters() if one.grad is not None})
    assert all(torch.equal(one, gradients[1][name]) for name, one in gradients[0].items())
    assert any(name.startswith("head.") for name in gradients[0])
    size = model.config.vocab_size
    model.resize_token_embeddings(size + 3)
    torch.testing.assert_close(model(**inputs).span_logits, before.span_logits)
    as_tuple = model(**inputs, return_dict=False)
    torch.testing.assert_close(as_tuple[0], before.start_logits)


@pytest.mark.long
@torch.no_grad()
def test_a_reader_of_kept_tokens_says_where_they_stood(exports):
    model = ForReading.from_pretrained(exports("dot_reader"))
    reader = Mate.from_pretrained(exports("dot_reader"))
    batch = reading_batch(reader, 0)
    inputs = model_inputs(batch)
    output = model(**inputs)
    assert output.span_logits.shape[1] < output.start_logits.shape[1] == batch.input_ids.shape[1]
    (prediction,) = reader.task.predict(batch)
    best = int(output.span_logits[0].max(-1).values.argmax())
    places = model.encoder(batch).batch.places[0]
    assert int(places[best]) == prediction.start
    assert output.start_logits[0, prediction.start] > -9000
    assert output.end_logits[0, prediction.end] > -9000


@pytest.mark.long
def test_the_page_does_what_it_says(exports, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use_with_transformers.md").read_text(encoding="utf-8")
    section = page.partition("## Answers and scores")[2].partition("\n## ")[0]
    ours, theirs, scores, reads = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    shutil.copytree(exports("cells"), tmp_path / "exported")
    shutil.copytree(exports("reader"), tmp_path / "reader")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(ours, names)
    exec(theirs, names)
    capsys.readouterr()
    exec(scores, names)
    assert capsys.readouterr().out in section
    exec(reads, {})
    assert capsys.readouterr().out.split()
