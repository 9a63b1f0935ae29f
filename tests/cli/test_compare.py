from __future__ import annotations

import json

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands import compare
from tests.reports.runs import build_demo, build_run


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["outputs/"], ["runs=['outputs/']"]),
        (["a", "by=[model]", "b c"], ["by=[model]", "runs=['a','b c']"]),
        (["it's"], ["runs=['it\\'s']"]),
        (["--cfg", "job"], ["--cfg", "job"]),
        (["--cfg", "job", "a"], ["--cfg", "job", "runs=['a']"]),
        (["-m", "~metric", "+x=1"], ["-m", "~metric", "+x=1"]),
        (["against=mate · lr=1e-05"], ["against='mate · lr=1e-05'"]),
        (["against='it'", "against=null", "+against=a b"], ["against='it'", "against=null", "+against='a b'"]),
    ],
)
def test_plain_words_are_folders(words, expected):
    assert compare.convert_arguments(words) == expected


def test_a_folder_with_an_equals_sign_is_a_folder_if_it_exists(tmp_path):
    folder = tmp_path / "lr=1"
    folder.mkdir()
    assert compare.convert_arguments([str(folder)]) == [f"runs=['{folder}']"]


def test_the_command_prints_tables_and_writes_the_page(tmp_path, monkeypatch, capsys):
    build_demo(tmp_path / "out puts")
    monkeypatch.chdir(tmp_path)
    assert (
        main(["compare", "out puts", "json=r/x.json", "csv=r/x.csv", "figures=r", "by=model", "status=finished"]) == 0
    )
    text = capsys.readouterr().out
    assert "Cell selection on hybridqa" in text
    assert "page: out puts/compare.html" in text
    assert (tmp_path / "out puts" / "compare.html").read_text().startswith("<!DOCTYPE html>")
    assert len(json.loads((tmp_path / "r" / "x.json").read_text())["runs"]) == 11
    assert (tmp_path / "r" / "x.csv").read_text().count("\n") == 12
    assert (tmp_path / "r" / "bars_dev_hits_at_1.png").is_file()


def test_the_page_can_be_left_out_or_put_elsewhere(tmp_path, monkeypatch):
    build_run(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "run", "html=null"]) == 0
    assert not (tmp_path / "run" / "compare.html").exists()
    assert main(["compare", "run", "html=pages/a.html", "metric=dev/hits@3"]) == 0
    assert 'href="../run/"' in (tmp_path / "pages" / "a.html").read_text()


def test_all_sections_are_printed_where_they_are_asked_for(tmp_path, monkeypatch, capsys):
    build_run(tmp_path / "run", task="pointr")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "run"]) == 0
    brief = capsys.readouterr().out
    assert len(brief.splitlines()) <= 25
    assert brief.splitlines()[-1] == "page: run/compare.html"
    assert main(["compare", "run", "sections=all"]) == 0
    everything = capsys.readouterr().out
    assert "Question answering on hybridqa · test" in everything
    assert "Question answering on hybridqa · test" not in brief
    for word in ("sections=some", "statistic=mode"):
        assert main(["compare", "run", word]) == 2
        assert f"{word.partition('=')[0]}: must be " in capsys.readouterr().err


def test_nothing_to_compare_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys):
    (tmp_path / "outputs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "outputs/"]) == 2
    assert capsys.readouterr().err.startswith("error: no runs below outputs/. ")
    assert main(["compare", "absent"]) == 2
    assert "no such folder: absent. " in capsys.readouterr().err


def test_patterns_choose_runs_and_the_page_goes_above_them(tmp_path, monkeypatch, capsys):
    for model in ("mate", "sat"):
        build_run(tmp_path / "outputs" / f"hybridqa_{model}" / "1", model=model)
    build_run(tmp_path / "outputs" / "quickstart" / "1", model="tapas")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "outputs/hybridqa_*", "published=false"]) == 0
    text = capsys.readouterr().out
    assert "page: outputs/compare.html" in text
    assert "tapas" not in text
    assert main(["compare", "outputs/sqa_*"]) == 2
    assert capsys.readouterr().err.startswith("error: no folder matches outputs/sqa_*. See outputs/ ")


def test_tables_for_papers_are_written(tmp_path, monkeypatch, capsys):
    for seed in (1, 2, 3):
        build_run(tmp_path / "outputs" / str(seed), seed=seed)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "outputs", "html=null", "statistic=mean", "latex=p/t.tex", "markdown=p/t.md"]) == 0
    assert "Mean ± sample standard deviation over n finished seeds." in capsys.readouterr().out
    assert r"\begin{tabular}" in (tmp_path / "p" / "t.tex").read_text()
    assert (tmp_path / "p" / "t.md").read_text().startswith("### Cell selection on hybridqa")
