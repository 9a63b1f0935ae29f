from __future__ import annotations

import json

import pytest

from mate_cli.errors import RunError
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.runs.load import find_base_folder, load_runs
from mate_cli.reports.sections.curves import load_log
from tests.reports.runs import build_demo, build_run


def test_every_run_is_found_once_with_its_config(tmp_path):
    build_demo(tmp_path / "outputs")
    loaded = load_runs([tmp_path / "outputs", tmp_path / "outputs" / "train"])
    assert len(loaded.runs) == 13
    assert loaded.warnings == ()
    assert {run.config["optimizer.lr"] for run in loaded.runs} == {"5e-05"}


def test_links_to_runs_are_followed_and_no_run_counts_twice(tmp_path):
    build_run(tmp_path / "outputs" / "a")
    build_run(tmp_path / "outputs" / "b", seed=2)
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    (chosen / "first").symlink_to(tmp_path / "outputs" / "a")
    (chosen / "again").symlink_to(tmp_path / "outputs" / "a")
    (chosen / "round").symlink_to(chosen)
    assert [run.name for run in load_runs([chosen]).runs] == [str(chosen / "again")]
    assert len(load_runs([chosen, tmp_path / "outputs"]).runs) == 2
    (tmp_path / "outputs" / "above").symlink_to(tmp_path)
    names = [run.name for run in load_runs([tmp_path / "outputs"]).runs]
    assert names == [str(tmp_path / "outputs" / name) for name in "ab"]  # by their own names


def test_a_link_to_what_is_around_the_folder_is_not_followed(tmp_path):
    build_run(tmp_path / "mine")
    build_run(tmp_path / "outputs" / "foreign", seed=2)
    for number, around in enumerate((tmp_path, "/")):
        (tmp_path / "outputs" / "foreign" / f"link{number}").symlink_to(around)
    (run,) = load_runs([tmp_path / "outputs"]).runs
    assert run.folder.name == "foreign"


def test_a_folder_that_is_a_run_counts(tmp_path):
    run = build_run(tmp_path / "run")
    assert [found.folder for found in load_runs([run]).runs] == [run]


def test_stages_know_their_pipeline(tmp_path):
    pipeline = build_run(tmp_path / "pipeline", task="pointr")
    build_run(pipeline / "cell_selection")
    build_run(pipeline / "row_ranking")  # a selector too, told apart by its name
    tasks = [run.setting("task") for run in load_runs([tmp_path]).runs]
    assert tasks == ["pointr", "cell_selection in pointr", "row_ranking in pointr"]


def test_a_pattern_finds_folders_and_no_run_twice(tmp_path):
    for name in ("hybridqa_mate", "hybridqa_sat", "quickstart"):
        build_run(tmp_path / "train" / name / "1")
    loaded = load_runs([f"{tmp_path}/train/hybridqa_*", tmp_path / "train" / "hybridqa_sat"])
    assert [run.folder.parent.name for run in loaded.runs] == ["hybridqa_mate", "hybridqa_sat"]
    assert len(load_runs([f"{tmp_path}/**/1"]).runs) == 3
    assert loaded.folders[0] == tmp_path / "train" / "hybridqa_mate"


def test_a_pattern_that_matches_nothing_is_an_error_that_says_where_to_look(tmp_path):
    build_run(tmp_path / "train" / "mate")
    with pytest.raises(RunError, match=rf"{tmp_path}/train/sat_\*.* {tmp_path}/train/ "):
        load_runs([tmp_path, f"{tmp_path}/train/sat_*"])


def test_files_among_folders_are_left_out(tmp_path):
    build_run(tmp_path / "run")
    (tmp_path / "compare.html").write_text("")
    loaded = load_runs([tmp_path / "compare.html", tmp_path / "run"])
    assert (len(loaded.runs), loaded.warnings) == (1, (f"{tmp_path}/compare.html: left out, it is not a folder",))
    with pytest.raises(RunError, match=r"compare.html: left out"):
        load_runs([tmp_path / "compare.html"])


def test_a_folder_whose_name_looks_like_a_pattern_is_that_folder(tmp_path):
    build_run(tmp_path / "lr=[1]" / "run")
    assert len(load_runs([f"{tmp_path}/lr=[1]"]).runs) == 1
    assert find_base_folder(f"{tmp_path}/lr=[1]/r*") == tmp_path / "lr=[1]"


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"", b'{"hello":[1,2]}'])
def test_a_broken_record_is_one_warning_and_the_rest_works(tmp_path, content):
    build_run(tmp_path / "good")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "record.json").write_bytes(content)
    loaded = load_runs([tmp_path])
    assert [run.folder.name for run in loaded.runs] == ["good"]
    assert len(loaded.warnings) == 1
    assert str(tmp_path / "bad" / "record.json") in loaded.warnings[0]
    assert "\n" not in loaded.warnings[0]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"model": "m" * 1_000_000}, "model has 1,000,000 letters"),
        ({"settings": ["x=1"] * 600}, "settings has 600 parts"),
        ({"metrics": {"m" * 300: 1.0, "dev/em": 0.5}}, "metrics has names that are too long"),
    ],
)
def test_what_no_run_writes_is_named_and_the_rest_shown(tmp_path, entries, said):
    build_run(tmp_path / "run", **entries)
    loaded = load_runs([tmp_path])
    assert said in loaded.warnings[0]
    assert len(loaded.runs[0].text("model")) < 600


def test_a_name_that_no_file_can_have_is_a_dataset_without_published_figures(tmp_path):
    build_run(tmp_path / "run", dataset="x" * 251)
    assert build_report([tmp_path]).runs[0].setting("dataset") == "x" * 251


@pytest.mark.parametrize("name", ["metrics.jsonl", "predictions/dev.json"])
def test_files_beside_the_record_that_cannot_be_read_are_named(tmp_path, name):
    file = build_run(tmp_path / "run") / name
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    with file.open("wb") as sparse:
        sparse.truncate(585_000_000)
    (warning,) = load_runs([tmp_path]).warnings
    assert warning == f"{file}: left out, it has more than 64 MB"


def test_a_broken_config_is_a_warning(tmp_path):
    run = build_run(tmp_path / "run")
    (run / "config.yaml").write_text("a: [1")
    loaded = load_runs([tmp_path])
    assert loaded.runs[0].config == {}
    assert "config.yaml" in loaded.warnings[0]


def test_nothing_to_read_is_an_error_that_says_where(tmp_path):
    with pytest.raises(RunError, match=rf"no runs below {tmp_path}/"):
        load_runs([tmp_path])
    with pytest.raises(RunError, match="no such folder"):
        load_runs([tmp_path / "absent"])


def test_only_damaged_runs_are_an_error_that_names_one(tmp_path):
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(RunError, match=r"1 damaged: .*record\.json"):
        load_runs([tmp_path])


def test_strange_entries_do_no_harm(tmp_path):
    build_run(tmp_path / "run", metrics={"dev/em": True, "dev/f1": "x", "dev/hits@1": 0.5}, status="odd", versions=3)
    (run,) = load_runs([tmp_path]).runs
    assert (run.metrics, run.status, run.part("versions")) == ({"dev/hits@1": 0.5}, "unknown", {})


def test_control_characters_never_reach_a_terminal(tmp_path):
    build_run(tmp_path / "run", reason="\x1b[31mred\nline", status="failed")
    assert load_runs([tmp_path]).runs[0].text("reason") == "[31mred line"


def test_curves_skip_lines_cut_short_and_are_thinned(tmp_path):
    lines = [json.dumps({"step": step, "epoch": 0, "train/loss": 1.0 / step}) for step in range(1, 1001)]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 5, "dev/em": NaN}', '{"step": 9']))
    curves = load_log(tmp_path, points=100).curves
    assert list(curves) == ["train/loss"]
    assert len(curves["train/loss"]) == 100
    assert curves["train/loss"][0][0] == pytest.approx(5.5)


def test_config_values_read_as_yaml_writes_them(tmp_path):
    build_run(tmp_path / "run", config={"a": {"b": None, "c": True, "d": ["x", None], "e": {}, "f": 1}})
    config = load_runs([tmp_path]).runs[0].config
    assert {key[2:]: value for key, value in config.items() if key[:2] == "a."} == {
        "b": "null",
        "c": "true",
        "d": "[x,null]",
        "f": "1",
    }
