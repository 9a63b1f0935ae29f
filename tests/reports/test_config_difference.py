from __future__ import annotations

from mate_cli.reports.compare.names import comparisons, list_labels
from mate_cli.reports.compare.report import build_report
from tests.reports.runs import build_demo, build_run


def only(folder):
    (comparison,) = comparisons(build_report([folder]).groups)
    return comparison


def test_what_all_runs_share_is_said_as_it_is_typed(tmp_path):
    for seed in (1, 2):
        config = {"encoding": {"max_tokens": 512}, "trainer": {"max_epochs": 5.0, "batch_size": 32}}
        build_run(tmp_path / str(seed), seed=seed, config=config)
    comparison = only(tmp_path)
    assert comparison.title == "hybridqa · cell selection"
    assert comparison.common == (
        *("62,613 training examples", "init=minilm", "max_epochs=5", "batch_size=32", "lr=5e-05", "max_tokens=512"),
        *("attention=segments", "device=cpu (16 threads)"),
    )
    assert comparison.differences == ()


def test_differences_name_each_value_and_who_has_it(tmp_path):
    build_run(tmp_path / "a", model="mate")
    build_run(tmp_path / "b", model="tapas", config={"trainer": {"batch_size": 8, "max_epochs": 5}, "x": {"y": 1}})
    build_run(tmp_path / "c", model="sat", config={"trainer": {"batch_size": 8, "max_epochs": 5}})
    comparison = only(tmp_path)
    assert "batch_size=32" not in comparison.common
    assert [(one.key, one.text) for one in comparison.differences] == [
        ("trainer.batch_size", "32: mate; 8: tapas and sat"),
        ("x.y", "absent: mate and sat; 1: tapas"),
    ]


def test_configurations_are_called_by_what_tells_who_has_which_value(tmp_path):
    for number, (model, lr) in enumerate([("mate", 1e-5), ("mate", 5e-5), ("tapas", 1e-5), ("tapas", 5e-5)]):
        config = {"optimizer": {"lr": lr}, "trainer": {"batch_size": 8 if model == "mate" else 4}}
        config["encoding"] = {"max_tokens": 512 if lr == 1e-5 else 256, "sentences": 5 if lr == 1e-5 else 9}
        build_run(tmp_path / str(number), model=model, config=config)
    comparison = only(tmp_path)
    assert [one.key for one in comparison.differences][:2] == ["trainer.batch_size", "optimizer.lr"]
    assert comparison.differences[0].text.startswith("8: mate and mate · ")


def test_what_the_name_says_or_another_class_cannot_have_is_no_difference(tmp_path):
    build_run(tmp_path / "a", config={"model": {"_target_": "m.Mate", "row_head_ratio": 0.5, "size": "minilm"}})
    build_run(
        tmp_path / "b", model="sat", config={"model": {"_target_": "m.Sat", "variant": "tapas", "size": "minilm"}}
    )
    assert only(tmp_path).differences == ()


def test_another_optimizer_is_a_difference_though_no_name_says_it(tmp_path):
    for name, target in (("a", "m.AdamW"), ("b", "m.Lamb")):
        build_run(tmp_path / name, model=name, config={"optimizer": {"_target_": target, "lr": 1e-4}})
    assert [(one.key, one.text) for one in only(tmp_path).differences] == [("optimizer", "AdamW: a; Lamb: b")]


def test_each_dataset_and_task_is_held_against_itself(tmp_path):
    found = comparisons(build_report([build_demo(tmp_path)]).groups)
    assert sorted((one.title, len(one.labels)) for one in found) == [
        ("hybridqa · cell selection", 3),
        ("hybridqa · cell selection in pointr", 1),
        ("hybridqa · pointr", 1),
        ("hybridqa · span reading in pointr", 1),
    ]


def test_a_system_is_not_said_to_train(tmp_path):
    stages = {"reader": {"after": "predictions", "optimizer": {"lr": 1e-5}}}
    build_run(tmp_path / "a", task="pointr", config={"system": {"_target_": "x.PointR"}, "stages": stages})
    assert only(tmp_path).common == ("62,613 training examples", "init=minilm", "device=cpu (16 threads)")


def test_a_run_is_told_apart_by_its_pre_training_and_still_trains(tmp_path):
    stage = {"after": "weights", "optimizer": {"lr": 1e-3}, "init": {"kind": "minilm"}}
    for name, stages in {"mlm": {"a": stage}, "cs": {"a": stage, "b": stage}, "none": {}}.items():
        init = "minilm" + {"mlm": " + a", "cs": " + a + b", "none": ""}[name]
        config = {"optimizer": {"lr": 1e-4}} | ({"stages": stages} if stages else {})
        build_run(tmp_path / name, init=init, config=config)
    found = only(tmp_path)
    assert found.labels == ("mate", "mate · minilm + a", "mate · minilm")
    assert "lr=0.0001" in found.common
    assert found.differences == ()


def test_settings_of_stages_are_compared_where_they_are(tmp_path):
    for name, steps in {"short": 1, "long": None}.items():
        stage = {"trainer": {"max_steps": steps}, "seed": len(name), "model": {"_target_": f"x.{name}"}}
        build_run(tmp_path / name, config={"stages": {"a": stage}})
    (difference,) = only(tmp_path).differences
    assert difference.key == "stages.a.trainer.max_steps"
    assert set(difference.values) == {"1", "null"}


def test_long_lists_of_names_are_cut():
    assert list_labels(["a"]) == "a"
    assert list_labels(["a", "b"]) == "a and b"
    assert list_labels(["a", "b", "c", "d"]) == "a, b, c and d"
    assert list_labels(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
