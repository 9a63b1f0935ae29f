from __future__ import annotations

import pytest

from mate_cli.reports.compare.configuration import Options
from mate_cli.reports.compare.grouping import group_runs
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.runs.load import load_runs
from mate_cli.runs.identity import configuration_name
from tests.reports.runs import build_demo, build_run


def groups_of(folder, **options):
    return group_runs(load_runs([folder]).runs, Options(**options))


def test_seeds_share_a_row_and_only_finished_ones_count(tmp_path):
    groups = {group.label: group for group in groups_of(build_demo(tmp_path))}
    sat = groups["sat"]
    assert (len(sat.runs), len(sat.counted)) == (3, 2)
    assert sat.summary("test/hits@1").count == 2
    assert len(groups) == 6


def test_another_setting_is_another_row_named_by_it(tmp_path):
    build_run(tmp_path / "a", seed=1)
    build_run(tmp_path / "b", seed=2, config={"optimizer": {"lr": 1e-5, "weight_decay": 0.01}})
    assert [group.label for group in groups_of(tmp_path)] == ["mate", "mate · lr=1e-05"]
    assert len(groups_of(tmp_path, ignore=["optimizer."])) == 1


def test_what_users_chose_names_configurations_where_it_tells_them_apart(tmp_path):
    def run(name, *settings, **model):
        build_run(tmp_path / name, settings=["trainer.max_steps=9", *settings], config={"model": model})

    run("a", freeze=None, compile=False)
    run("b", "model.freeze=head", freeze="head", compile=False)
    run("c", "model.compile=true", "model=mate", freeze=None, compile=True)
    named = [
        "mate · trainer.max_steps=9",
        "mate · model.freeze=head · trainer.max_steps=9",
        "mate · model=mate · model.compile=true · trainer.max_steps=9",
    ]
    assert [group.label for group in groups_of(tmp_path)] == named
    run("d", freeze=None, compile="later")
    assert [group.label for group in groups_of(tmp_path)] == [*named, "mate · trainer.max_steps=9 · compile=later"]


def test_settings_that_cannot_change_a_result_name_nothing(tmp_path):
    build_run(tmp_path / "a", settings=["experiment=stage", "logger=none", "hardware.threads=1"])
    build_run(tmp_path / "b", settings=["optimizer.lr=1e-05"], config={"optimizer": {"lr": 1e-5}})
    assert [group.label for group in groups_of(tmp_path)] == ["mate", "mate · optimizer.lr=1e-05"]


def test_what_a_recipe_sets_is_said_once_and_a_run_by_its_name(tmp_path):
    for name, rate in (("a", 1), ("b", 2)):
        stages = {"masked_lm": {"run": f"/far/away/{name}"}}
        build_run(tmp_path / name, config={"stages": stages, "init": {"lr": rate}, "optimizer": {"lr": rate}})
    assert [group.label for group in groups_of(tmp_path)] == ["mate", "mate · lr=2 · masked_lm=b"]


def test_first_weights_are_told_by_their_run_and_what_is_not_there_is_not_told(tmp_path):
    inner = {
        "_target_": "some.Weights",
        "kind": "path",
        "checkpoint": "/far/away/runs/first/checkpoints/best.safetensors",
    }
    build_run(tmp_path / "a", config={"init": {"inner": {"pruner": inner}}, "model": {"first": False}})
    build_run(tmp_path / "b", config={"init": {"inner": None}, "model": {"first": False}})
    build_run(tmp_path / "c", config={"init": {"inner": None}, "model": {"first": True}})
    assert [group.label for group in groups_of(tmp_path)] == [
        *("mate", "mate · inner=null", "mate · first=true · inner=null")
    ]


@pytest.mark.parametrize("status", ["failed", "interrupted", "running"])
def test_runs_without_a_result_rename_none_that_have_one(tmp_path, status):
    build_run(tmp_path / "a", config={"optimizer": {"lr": 1}})
    build_run(tmp_path / "b", model="sat", config={"optimizer": {"lr": 1}})
    labels = [group.label for group in groups_of(tmp_path)]
    build_run(tmp_path / "c", status=status, config={"optimizer": {"lr": 2}, "extra": {"depth": 3}})
    build_run(tmp_path / "d", status=status, attention="eager", init="random", dataset="sqa")
    build_run(tmp_path / "e", seed=2, status=status, config={"optimizer": {"lr": 1}})
    groups = groups_of(tmp_path)
    assert labels == ["mate", "sat"] == [group.label for group in groups if group.counted]
    assert [len(group.runs) for group in groups if group.counted] == [2, 1], "one with the same settings joins its row"
    others = [group.label for group in groups if not group.counted]
    assert len({*labels, *others}) == 4
    assert any("lr=2" in label for label in others)


def test_machines_folders_and_loggers_do_not_part_repeats(tmp_path):
    build_run(tmp_path / "a", seed=1, config={"hardware": {"threads": 2}, "paths": {"outputs": "x"}})
    build_run(tmp_path / "b", seed=2, config={"hardware": {"threads": 8}, "paths": {"outputs": "y"}})
    assert len(groups_of(tmp_path)) == 1


def test_options_that_nobody_set_do_not_part_repeats(tmp_path):
    build_run(tmp_path / "a", seed=1, config={"trainer": {}, "logger": {"kind": "wandb"}})
    build_run(tmp_path / "b", seed=2, config={"trainer": {"options": {}}, "callbacks": {}, "logger": {}})
    assert len(groups_of(tmp_path)) == 1
    stopping = {"early_stopping": {"_target_": "pytorch_lightning.callbacks.EarlyStopping", "patience": 2}}
    build_run(tmp_path / "c", seed=3, config={"trainer": {"options": {}}, "callbacks": stopping})
    assert len(groups_of(tmp_path)) == 2


def test_without_a_config_overrides_part_runs(tmp_path):
    for name, override in (("a", "optimizer.lr=1"), ("b", "+optimizer.lr=2")):
        (build_run(tmp_path / name, overrides=[override, "seed=3"]) / "config.yaml").unlink()
    assert [group.label for group in groups_of(tmp_path)] == ["mate · optimizer.lr=1", "mate · +optimizer.lr=2"]


def test_of_two_runs_with_one_seed_the_later_counts(tmp_path):
    build_run(tmp_path / "a", metrics={"test/em": 0.1}, started="2025-01-02")
    build_run(tmp_path / "b", metrics={"test/em": 0.2}, started="2025-01-03")
    (group,) = groups_of(tmp_path)
    assert group.summary("test/em").mean == pytest.approx(0.2)
    assert group.summary("test/em").count == 1


def test_grouping_by_keys_mixes_the_rest(tmp_path):
    build_demo(tmp_path)
    assert [group.label for group in groups_of(tmp_path, by=["model"])] == ["mate", "sat", "tapas"]
    assert len(groups_of(tmp_path, by=["trainer.batch_size"])) == 1


def test_no_row_is_of_two_datasets(tmp_path):
    for dataset in ("sqa", "wtq"):
        for seed in (1, 2):
            build_run(tmp_path / f"{dataset}{seed}", dataset=dataset, seed=seed)
    groups = groups_of(tmp_path, by=["model"])
    assert [(group.label, len(group.counted)) for group in groups] == [("mate", 2), ("mate · wtq", 2)]


def test_a_command_is_named_only_where_it_tells_rows_apart(tmp_path):
    build_run(tmp_path / "a", command="train")
    build_run(tmp_path / "b", command="evaluate")
    assert [group.label for group in groups_of(tmp_path)] == ["mate", "mate · evaluate"]


def test_chains_whose_finished_stages_differ_by_their_seed_are_repeats(tmp_path):
    for name, seed, rate in (("a", 1, 1), ("b", 2, 1), ("c", 1, 2)):
        stage = build_run(tmp_path / "stages" / name, seed=seed, config={"optimizer": {"lr": rate}})
        stages = {"cell_selection": {"run": str(stage)}}
        build_run(tmp_path / "chains" / name, task="pointr", metrics={"test/em": seed / 10}, config={"stages": stages})
    found = groups_of(tmp_path / "chains")
    assert [group.label for group in found] == ["mate", "mate · cell_selection=c"]
    assert (found[0].summary("test/em").count, found[0].summary("test/em").high) == (2, 0.2)
    (tmp_path / "stages" / "b" / "config.yaml").unlink()  # nothing is known of it any more
    assert len(groups_of(tmp_path / "chains")) == 3


def test_what_a_pipeline_repeats_of_its_stage_counts_once(tmp_path):
    for seed, score in ((1, 0.2), (2, 0.4)):
        pipeline = build_run(tmp_path / str(seed), task="pointr", seed=seed, metrics={"dev/hits@1": score})
        build_run(pipeline / "cell_selection", seed=seed, metrics={"dev/hits@1": score, "dev/hits@3": 0.9})
    (group,) = groups_of(tmp_path, by=["model"])
    assert (group.summary("dev/hits@1").count, group.summary("dev/hits@1").high) == (2, 0.4)
    assert group.summary("dev/hits@3").count == 2


def test_a_chain_that_is_a_model_of_its_own_is_named_once(tmp_path):
    build_run(tmp_path / "a", model="hybrider", task="hybrider")
    build_run(tmp_path / "b", model="mate", task="pointr")
    build_run(tmp_path / "c", model="mate", task="cell_answering")
    labels = [group.label for group in group_runs(load_runs([tmp_path]).runs)]
    assert labels == ["hybrider", "mate", "mate · cell answering"]


def test_the_run_with_the_median_dev_score_stands_for_its_row(tmp_path):
    figures = {1: (0.3, 0.9, 0.5), 2: (0.1, 0.7, 0.2), 3: (0.2, 0.8, 0.1), 4: (0.4, 0.6, 0.3)}
    for seed, (hits, em, test) in figures.items():
        scores = {"dev/hits@1": hits, "dev/em": em, "test/em": test}
        build_run(tmp_path / str(seed), seed=seed, metrics=scores, monitor="dev/hits@1")
    (group,) = groups_of(tmp_path, statistic="median_dev")  # of 0.2 and 0.3 in the middle the lower
    assert (group.median_run.text("seed"), group.summary("test/em").center) == ("3", 0.1)
    assert group.summary("dev/em").center == 0.8
    assert group.summary("test/em").spread == pytest.approx(groups_of(tmp_path)[0].summary("test/em").half_range)
    (group,) = groups_of(tmp_path, statistic="median_dev", metric="dev/em")
    assert group.summary("test/em").center == 0.2
    assert groups_of(tmp_path)[0].summary("test/em").center == pytest.approx(0.25)


def test_a_run_without_a_fold_in_its_file_is_a_repeat_of_one_with_none(tmp_path):
    build_run(tmp_path / "a", seed=1)
    build_run(tmp_path / "b", seed=1, config={"data": {"dev_fold": None}})
    assert [len(group.counted) for group in groups_of(tmp_path)] == [1]


def test_another_system_renames_no_row_and_a_name_is_that_of_w_and_b(tmp_path):
    words = ["init=minilm", "optimizer.lr=1e-05"]
    build_run(tmp_path / "a", settings=words, config={"optimizer": {"lr": 1e-5}})
    build_run(tmp_path / "b", settings=[], seed=2)
    before = {group.runs[0].name: group.label for group in groups_of(tmp_path)}
    assert set(before.values()) == {"mate", configuration_name("mate", words)}
    build_run(tmp_path / "c", model="gpt", experiment="gpt", init="not trained here", command="evaluate", seed=3)
    build_run(tmp_path / "d", dataset="sqa", seed=4)
    after = {group.runs[0].name: group.label for group in groups_of(tmp_path)}
    assert before.items() <= after.items()
    assert len(set(after.values())) == 4


def test_a_configuration_has_one_name_in_all_tables_and_sections(tmp_path):
    report = build_report([build_demo(tmp_path)], against="tapas")
    labels = {group.label for group in report.groups}
    shown = {row.label for table in report.tables for row in table.rows}
    shown |= {label for part in report.comparisons for label in part.labels}
    assert shown == labels


def test_debug_runs_are_hidden_and_counted(tmp_path):
    build_run(tmp_path / "debug", overrides=["debug=fast"], settings=["trainer.max_steps=2"])
    assert len(build_report([tmp_path]).runs) == 1, "nothing else is left to show"
    build_run(tmp_path / "a", seed=2, overrides=["debug=null"])
    report = build_report([tmp_path])
    assert [run.folder.name for run in report.runs] == ["a"]
    assert any("1 run with debug= hidden" in note for note in report.notes)
    assert len(build_report([tmp_path], debug_runs=True).runs) == 2


def test_finished_and_unfinished_rows_say_the_same_settings(tmp_path):
    for name, status in (("a", "finished"), ("b", "running")):
        words = ["scale=small", f"optimizer.lr={1 if name == 'a' else 2}"]
        build_run(tmp_path / name, status=status, settings=words, config={"optimizer": {"lr": name}})
    assert all("scale=small" in group.label for group in groups_of(tmp_path))
