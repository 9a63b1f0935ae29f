"""The notebook of the documents does what it shows."""

import contextlib
import io
import json
from pathlib import Path

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
    assert [0 <= result.confidence <= 1 for result in names["results"]] == [True, True]


@pytest.mark.parametrize("missing", [False, True])
def test_it_installs_the_uploaded_wheel_where_the_package_is_missing(tmp_path, monkeypatch, missing):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mate_tables-1.0-py3-none-any.whl").touch()
    started = []
    monkeypatch.setattr("subprocess.run", lambda words, check: started.append(words[1:]))
    if missing:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    exec("".join(cells()[0]["source"]), {})
    assert started == [["-m", "pip", "install", "--quiet", "mate_tables-1.0-py3-none-any.whl"]] * missing
