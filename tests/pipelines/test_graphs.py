"""MATE with attention over all pairs is compiled and exported as one graph, which reads tables of any length."""

import re
import shutil
from pathlib import Path

import pytest
import torch
from tiny_exports import FRAME, QUESTIONS
from torch.export import Dim, export
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer
from transformers import AutoModelForTableQuestionAnswering as ForTables

import mate_cli.models.auto_classes  # noqa: F401 - makes our networks known
from mate_cli.errors import ConfigError

pandas = pytest.importorskip("pandas")
ROWS = (2, 4, 6)
LOAD = {"cells": AutoModel, "statements": AutoModelForSequenceClassification}


def inputs(exports, rows):
    """Two questions of different lengths about a table, so that there is padding."""
    frame = pandas.DataFrame({name: (cells * 2)[:rows] for name, cells in FRAME.items()})
    tokenizer = AutoTokenizer.from_pretrained(exports("cells"))
    made = dict(tokenizer(table=frame, queries=QUESTIONS[:2], return_tensors="pt", padding=True))
    assert (made["attention_mask"] == 0).any()
    return made


def any_length(given):
    return {name: {0: Dim.AUTO, 1: Dim.AUTO} for name in given}


def check_equal(exports, graph, model):
    """The same scores or states, pooled states among them, for three lengths."""
    lengths = set()
    for rows in ROWS:
        given = inputs(exports, rows)
        lengths.add(given["input_ids"].shape)
        found, wanted = (list(one(**given).values()) for one in (graph, model))
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    assert len(lengths) == len(ROWS)


@pytest.mark.long
@torch.no_grad()
@pytest.mark.parametrize("is_exported", [False, True])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["cells", "statements"])
def test_compiled_and_exported_in_one_graph(exports, name, attention, is_exported):
    model = LOAD[name].from_pretrained(exports(name), attn_implementation=attention)
    torch._dynamo.reset()
    graph = torch.compile(model, fullgraph=True, backend="eager")
    if is_exported:
        given = inputs(exports, ROWS[1])
        graph = export(model, (), given, dynamic_shapes=any_length(given), strict=False).module()
    check_equal(exports, graph, model)


@pytest.mark.long
@torch.no_grad()
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["cells", "tapas"])
def test_traced_without_padding_it_masks_padding(exports, name):
    model = AutoModel.from_pretrained(exports(name), attn_implementation="sdpa", return_dict=False)
    names, given = ("input_ids", "attention_mask", "token_type_ids"), inputs(exports, ROWS[1])
    length = int(given["attention_mask"][0].sum())
    graph = torch.jit.trace(model, tuple(given[key][:1, :length] for key in names))
    for one, other in zip(graph(*(given[key] for key in names)), model(**given), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.long
@torch.no_grad()
def test_layers_are_exported_too(exports):
    model = AutoModel.from_pretrained(
        exports("cells"), attn_implementation="sdpa", output_hidden_states=True, output_attentions=True
    )
    given = inputs(exports, ROWS[1])
    graph = export(model, (), given, dynamic_shapes=any_length(given), strict=False).module()
    other = inputs(exports, ROWS[0])
    found, wanted = graph(**other), model(**other)
    for one, two in zip(
        (*found.hidden_states, *found.attentions), (*wanted.hidden_states, *wanted.attentions), strict=True
    ):
        torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


@pytest.mark.long
@torch.no_grad()
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_onnx(exports, tmp_path, attention):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    model = AutoModel.from_pretrained(exports("cells"), attn_implementation=attention)
    given = inputs(exports, ROWS[1])
    path = tmp_path / "mate.onnx"
    torch.onnx.export(model, (), path, kwargs=given, dynamic_shapes=any_length(given), dynamo=True, verbose=False)
    session = runtime.InferenceSession(path)
    for rows in ROWS:
        read = inputs(exports, rows)
        found = session.run(None, {one.name: read[one.name].numpy() for one in session.get_inputs()})
        torch.testing.assert_close(torch.from_numpy(found[0]), model(**read)[0], atol=1e-4, rtol=1e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "load", "attention", "reason"),
    [
        ("cells", AutoModel, None, "MateEncoder with Auto attention cannot be exported. Load it with attn_"),
        ("dot", AutoModel, "sdpa", "Dot cannot be exported: its computation depends on the data"),
        ("cells", ForTables, "sdpa", "the head of CellSelection cannot be exported: its computation depends"),
    ],
)
def test_what_cannot_be_exported_says_so(exports, name, load, attention, reason):
    model = load.from_pretrained(exports(name), attn_implementation=attention)
    given = inputs(exports, ROWS[1])
    with pytest.raises(ConfigError, match=reason) as caught:
        export(model, (), given, dynamic_shapes=any_length(given), strict=False)
    assert "\n" not in str(caught.value)


@pytest.mark.long
def test_the_page_makes_graphs(exports, monkeypatch, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use_with_transformers.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page.partition("## One graph")[2].partition("\n## ")[0], re.DOTALL)
    shutil.copytree(exports("cells"), tmp_path / "exported")
    monkeypatch.chdir(tmp_path)
    tokenizer, frame = AutoTokenizer.from_pretrained(exports("cells")), pandas.DataFrame(FRAME)
    names = {"AutoModel": AutoModel, "tokenizer": tokenizer, "table": frame}
    exec(program, names)
    alone = dict(tokenizer(table=frame, queries=QUESTIONS[:1], return_tensors="pt"))
    for other in (inputs(exports, 2), alone):
        torch.testing.assert_close(names["graph"](**other)[0], names["model"](**other)[0], atol=1e-5, rtol=1e-5)
