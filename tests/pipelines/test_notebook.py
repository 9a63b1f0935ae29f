"""The notebook of the documents does what it shows."""

import contextlib
import io
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "start" / "mate_in_a_notebook.ipynb"


def cells():
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["metadata"]["language_info"]["name"]) == (4, "python")
    return [cell for cell in found["cells"] if cell["cell_type"] == "code"]


def test_it_is_kept_without_what_it_printed():
    for cell in cells():
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        compile("".join(cell["source"]), "cell", "exec")


@pytest.mark.long
def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for cell in cells():
            exec("".join(cell["source"]), names)
    assert "torch.Size([9, 128])" in out.getvalue()
    shares = names["heads"]
    assert shares["own row"].iloc[0] > shares["own row"].iloc[-1]
    assert shares["own column"].iloc[-1] > shares["own column"].iloc[0]
    assert [set(one) >= {"answer", "coordinates", "confidence"} for one in names["found"]] == [True, True]


@pytest.mark.parametrize("in_colab", [False, True])
def test_it_installs_the_package_in_colab_alone(monkeypatch, in_colab):
    started = []
    monkeypatch.setattr("subprocess.run", lambda words, check: started.append(words[1:]))
    if in_colab:
        monkeypatch.setitem(sys.modules, "google.colab", ModuleType("google.colab"))
    exec("".join(cells()[0]["source"]), {})
    assert started == ([["-m", "pip", "install", "--quiet", "mate-cli"]] if in_colab else [])
