"""`mate export`, as typed."""

import json
from pathlib import Path

import pytest
from finished_runs import finished_run

from mate_cli.cli.app import main


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return finished_run(tmp_path_factory.mktemp("runs") / "run", [])


def test_a_run_becomes_a_folder(run, tmp_path, capsys):
    words = ["export", f"run={run}", f"to={tmp_path / 'exported'}", "license=mit", "hardware.threads=1"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    files = {file.name for file in (tmp_path / "exported").iterdir()}
    assert files == {
        *("README.md", "mate.yaml", "config.json", "model.safetensors", "vocab.txt"),
        *("tokenizer_config.json", "special_tokens_map.json"),
    }
    assert all(name in printed for name in files)
    assert "license: mit\n" in (tmp_path / "exported" / "README.md").read_text()
    assert json.loads((tmp_path / "exported" / "config.json").read_text())["architectures"] == [
        "MateForTableQuestionAnswering"
    ]
    assert main(words) == 2
    assert main([*words, "overwrite=true"]) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run={run}"], "to: needs a value"),
        (["run=nowhere", "to=x"], "this is not a run folder"),
        (["run={run}", "to={run}"], "already exists"),
        (["run={run}", "to={run}", "overwrite=true"], "is not an exported model, and is not replaced"),
        (["run={run}", "to=x", "push=a/b/c"], "push=a/b/c: "),
        (["run={run}", "to=x", "push='no spaces/x'"], "Type push=USER/NAME."),
        (["run={run}", "to=x", "push=name"], "push=name: lacks the user name. Type push=USER/name."),
        (["run={run}", "to=x", "push=me/name"], "no Hugging Face token found. Log in with hf auth"),
    ],
)
def test_mistakes_are_told_in_one_line(run, words, said, capsys, monkeypatch):
    monkeypatch.setattr("mate_cli.pipelines.export.export.get_token", lambda: None)
    assert main(["export", *(word.format(run=run) for word in words)]) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1
    assert not Path("x").exists()


def test_the_card_of_what_transformers_cannot_read_shows_how_to_answer(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = finished_run(tmp_path / "run", ["model.lexical_features=true", "encoding.lexical_features=true"])
    assert main(["export", f"run={run}", "to=exported", "hardware.threads=1"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("note: the table pipeline of transformers does not read tables as this network does")
    code = Path("exported/README.md").read_text().partition("```python\n")[2].partition("```")[0]
    assert "Mate.from_pretrained" in code
    exec(code, {})
    assert capsys.readouterr().out.strip()


def test_what_transformers_reads_has_no_such_note(run, tmp_path, capsys):
    assert main(["export", f"run={run}", f"to={tmp_path / 'plain'}", "hardware.threads=1"]) == 0
    assert "note:" not in capsys.readouterr().out
    assert "TapasTokenizer" in (tmp_path / "plain" / "README.md").read_text()
