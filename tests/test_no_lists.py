"""Parts that are added outside the package are found wherever such parts appear, and nothing else is edited.

`added/` holds one of each kind and its configuration. Metrics are in `test_new_metric.py`, datasets in
`data/test_datasets.py`.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from batches import batch_from
from configurations import files, problem
from matplotlib.figure import Figure

from mate_cli import Mate
from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.data.check import count_examples
from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.metrics.specs import MetricName, result_of
from mate_cli.models.base.costs import attention_flops, dense_flops, encoder_flops
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.pipelines.assembly import assemble
from mate_cli.reports.plots import attention_masks
from mate_cli.runs.configuration import load_config

ADDED = Path(__file__).with_name("added")
FILES = sorted(path.relative_to(ADDED / "conf") for path in ADDED.glob("conf/*/*.yaml"))
TRUST = ["added_parts"]
TYPED = ["trust=added_parts"]
"""What lets a run from a folder be made of parts that are not of the package."""
HERE = ["logger=none", "hardware.threads=1"]


@pytest.fixture(scope="module", autouse=True)
def clone(tmp_path_factory):
    """A folder with the parts, in which all commands are typed."""
    folder = shutil.copytree(ADDED, tmp_path_factory.mktemp("clone") / "own", ignore=shutil.ignore_patterns("__*__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        patch.setenv("COLUMNS", "150")
        yield folder


def train(*words: str, debug: Sequence[str] = ("debug=fast",)) -> Path:
    """Train as typed; return the newest folder."""
    assert main(["train", *words, *debug, *HERE]) == 0
    return max(Path("outputs/train").glob("*/*"), key=lambda folder: folder.stat().st_mtime)


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())


@pytest.fixture(scope="module")
def run(clone):
    """Trained with a network, pattern, backend, task, initializer, optimizer and schedule of one's own."""
    return train("experiment=added")


@pytest.fixture(scope="module")
def ordinary(clone):
    """Trained from weights and by an optimizer of one's own; all that an export needs is the package's."""
    return train("experiment=added", "model=tapas", "model.size=tiny", "attention=auto", "task=cell_selection")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", FILES, ids=str)
def test_every_choice_is_offered(file, capsys):
    assert main(["completion", "query", f"mate train {file.parent}={file.stem[:3]}"]) == 0
    assert f"{file.parent}={file.stem}" in capsys.readouterr().out.split()
    assert main(["train", "--help"]) == 0
    unbroken = re.sub(r"\n {3,}", " ", capsys.readouterr().out)
    (line,) = (line for line in unbroken.split("\n  ") if line.startswith(f"{file.parent} "))
    assert file.stem in line.replace(",", "").split()


@pytest.mark.long
def test_the_checks_of_conf_take_them_up(tmp_path):
    tree = shutil.copytree(config_dir(), tmp_path / "conf")
    shutil.copytree(ADDED / "conf", tree, dirs_exist_ok=True)
    assert {str(file) for file in FILES} <= set(files(tree))
    assert {str(file): problem(tree, str(file)) for file in FILES} == dict.fromkeys(map(str, FILES))


TITLES = {"ranking_error": "Ranking error", "answer_length": "Letters"}


def test_a_run_records_them(run):
    ours = record(run)
    names = {"model": "nearby", "attention": "counting", "task": "guess", "init": "faint", "dataset": "sample"}
    assert {name: ours[name] for name in names} == names
    assert (ours["status"], ours["total_steps"], ours["monitor"]) == ("finished", 2, "dev/ranking_error")
    assert ours["facts"]["faint"] == "after 8 examples"
    assert int(ours["facts"]["counting"].split()[0]) > 2
    assert 0 <= result_of(ours["monitor"], ours["metrics"]).value == ours["metrics"]["dev/ranking_error"] <= 1
    assert {name: spec["title"] for name, spec in ours["specs"].items()} == TITLES
    predicted = json.loads((run / "predictions" / "dev.json").read_text())
    letters = [len(row["pred"]) for row in predicted if "scores" in row]
    assert ours["metrics"]["dev/answer_length"] == pytest.approx(sum(letters) / len(letters))
    assert [row["scores"]["answer_length"] for row in predicted if "scores" in row] == letters
    assert (run / "checkpoints" / "best.safetensors").is_file()


def test_a_schedule_of_torch_lasts_as_long_as_the_run(run):
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["train/lr"] for row in rows if "train/lr" in row] == pytest.approx([0.01, 0.005])


def test_flops_are_counted_as_the_backend_says(run):
    task = assemble(load_config(run, TRUST), EmptyDataset()).task
    ids = torch.tensor([[0, 1, 1, 2]])
    batch = batch_from(ids, ids, ids.clamp(max=1), torch.ones_like(ids))
    size = task.encoder.size
    attention = size.num_layers * attention_flops(1000, size.head_size, backward=True)
    assert encoder_flops(task.encoder, batch, backward=True) == attention + dense_flops(size, 4, backward=True)
    assert record(run)["throughput"]["training_flops_per_example"] > attention


def test_evaluate_and_compare_know_them(run, ordinary, capsys):
    assert main(["evaluate", f"run={run}", "split=dev", "hardware.threads=1", *TYPED]) == 0
    again = json.loads((run / "evaluation" / "dev.json").read_text())
    for name in ("dev/ranking_error", "dev/answer_length"):
        assert again[name] == record(run)["metrics"][name]
    capsys.readouterr()
    assert main(["compare", f"runs=[{run},{ordinary}]", "html=null", "debug_runs=true"]) == 0
    shown = capsys.readouterr().out
    assert "model=tapas" in shown
    assert "\n2 configurations, 2 runs: 2 finished" in shown


@pytest.fixture(scope="module")
def sides(clone):
    """Trained on examples of a kind of one's own, whose label and metric are one's own too."""
    return train("experiment=sides")


def test_an_example_a_label_and_a_metric_of_a_new_kind_train(sides):
    ours = record(sides)
    assert (ours["status"], ours["dataset"], ours["task"]) == ("finished", "sides", "side_choice")
    assert (ours["data"]["train"], ours["data"]["train/unusable"]) == (8, 0)  # 8 of debug=fast
    assert (ours["monitor"], MetricName.parse(ours["monitor"]).spec.direction) == ("dev/side_error", -1)
    found = {name: value for name, value in ours["metrics"].items() if name.endswith("side_error")}
    assert {"dev/side_error", "test/side_error"} == found.keys()
    assert all(0 <= error <= 1 for error in found.values())


def test_a_kind_of_example_says_what_can_be_learnt_from_it(clone):
    from added_parts import Sides

    counts = count_examples(Sides("sides").examples("dev"), lambda _: "")
    assert (counts["questions"], counts["usable"], counts["side"]) == (64, 64, 64)


def test_a_new_label_needs_an_encoding_that_has_it(clone, capsys):
    assert main(["train", "experiment=sides", "encoding=table", *HERE]) == 2
    says = "SideChoice needs labels of side, but this encoding marks cells. Use encoding=sides."
    assert says in capsys.readouterr().err
    assert main(["train", "experiment=sides", "task=cell_selection", *HERE]) == 2
    assert "Use encoding=table" in capsys.readouterr().err


def test_new_kinds_are_predicted_evaluated_and_compared(sides, ordinary, clone, capsys):
    (clone / "halves.csv").write_text("north,south\n90,3\n80,12\n")
    words = ["table=halves.csv", "question=which side is larger?", "hardware.threads=1", *TYPED]
    assert main(["predict", f"run={sides}", *words]) == 0
    assert {"left", "right"} & set(re.findall(r"[a-z]+", capsys.readouterr().out))
    assert main(["evaluate", f"run={sides}", "split=test", "hardware.threads=1", *TYPED]) == 0
    again = json.loads((sides / "evaluation" / "test.json").read_text())
    assert again["test/side_error"] == record(sides)["metrics"]["test/side_error"]
    capsys.readouterr()
    assert main(["compare", f"runs=[{sides},{ordinary}]", "html=null"]) == 0
    assert "side error" in capsys.readouterr().out.lower()


def test_an_encoding_has_a_view_of_its_own(sides, capsys):
    assert main(["inspect", "experiment=sides"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"dev0: (left|right), random weights", printed)
    assert "sides: outputs/inspect/dev0_sides.png" in printed
    assert Path("outputs/inspect/dev0_sides.png").is_file()


def test_a_source_of_a_new_kind_is_asked(sides, capsys):
    source = "+sources.pairs={_target_:added_parts.Pairs,file:'90:3,80:12'}"
    words = [f"run={sides}", "question=which side is larger?", "hardware.threads=1", *TYPED]
    assert main(["predict", source, *words]) == 0
    assert {"left", "right"} & set(re.findall(r"[a-z]+", capsys.readouterr().out))
    assert main(["predict", source, "table=halves.csv", *words]) == 2
    assert "pairs: cannot be combined with table" in capsys.readouterr().err


def test_a_section_of_a_new_kind_is_shown(sides, ordinary, capsys):
    section = "+added_sections.steps={_target_:added_parts.steps_section,_partial_:true}"
    assert main(["compare", f"runs=[{sides},{ordinary}]", section, "sections=all", "html=page.html"]) == 0
    assert re.search(r"^ *Steps *$", capsys.readouterr().out, re.MULTILINE)
    assert "Steps of all runs" in Path("page.html").read_text()


def test_inspect_draws_the_pattern(monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(attention_masks, "attention_masks_figure", lambda masks, *_: drawn.append(masks) or Figure())
    assert main(["inspect", "experiment=added"]) == 0
    assert "attention masks: outputs/inspect/" in capsys.readouterr().out
    ((near, own),) = (masks.values() for masks in drawn)
    assert list(drawn[0]) == ["near rows", "own row"]
    assert own.sum() < near.sum() < near.size


def answers(clone, model: str, capsys) -> str:
    (clone / "sales.csv").write_text("region,sold\nnorth,3\nsouth,12\n")
    words = [model, "table=sales.csv", "question=which region sold most?", "hardware.threads=1", *TYPED]
    assert main(["predict", *words]) == 0
    return capsys.readouterr().out


def test_predict_answers_from_own_tables(run, clone, capsys):
    assert "which region sold most?" in answers(clone, f"run={run}", capsys)


def test_an_export_of_foreign_classes_needs_their_module(run, clone, capsys):
    words = ["export", f"run={run}", "hardware.threads=1"]
    assert main([*words, "to=refused"]) == 2
    assert "is not a class of mate" in capsys.readouterr().err
    assert not Path("refused").exists()
    assert main([*words, "to=own", *TYPED]) == 0
    assert "trust=['added_parts']" in capsys.readouterr().out
    assert "which region sold most?" in answers(clone, "checkpoint=own", capsys)
    assert main(["predict", "checkpoint=own", "table=sales.csv", "question=a"]) == 2
    assert "If you trust its author, allow its module: trust=MODULE." in capsys.readouterr().err
    assert type(Mate.from_pretrained("own", trust="added_parts").encoder).__name__ == "Nearby"


def test_a_module_that_is_not_there_is_named(run, tmp_path, monkeypatch, capsys):
    assert main(["train", "model._target_=nowhere.Net"]) == 2
    assert "there is no module nowhere: put nowhere.py in this folder, or install it" in capsys.readouterr().err
    assert main(["train", "model._target_=added_parts.Net"]) == 2
    assert "added_parts has no Net" in capsys.readouterr().err
    config = (run / "config.yaml").read_text()
    shutil.copytree(run, tmp_path / "moved")
    (tmp_path / "moved" / "config.yaml").write_text(config.replace("added_parts.", "lost_parts."))
    assert main(["evaluate", f"run={tmp_path / 'moved'}", "trust=lost_parts"]) == 2
    assert "there is no module lost_parts: put lost_parts.py in this folder" in capsys.readouterr().err


def test_an_export_may_have_been_trained_with_any(ordinary, clone, capsys):
    assert main(["export", f"run={ordinary}", "to=exported", "hardware.threads=1", *TYPED]) == 0
    assert "added_parts.Faint" in Path("exported/README.md").read_text()
    assert "which region sold most?" in answers(clone, "checkpoint=exported", capsys)


def test_the_head_of_an_earlier_run_is_loaded(run):
    weights = run / "checkpoints" / "final.safetensors"
    task = assemble(load_config(run, TRUST), EmptyDataset()).task
    report = InitialWeights("path", str(weights), tokenizer="sample").load(task.encoder, task)
    assert {"head.hidden.weight", "head.cells.score.weight"} <= set(report.loaded)
    assert (report.new, report.unused) == ((), ())


@pytest.mark.long
def test_a_system_answers_by_stages_and_says_what_counts(run):
    whole = train("experiment=added_system", f"stages.first.run={run}", f"stages.second.run={run}", *TYPED, debug=())
    ours = record(whole)
    assert (ours["status"], ours["task"], ours["monitor"]) == ("finished", "surer", "dev/em")
    assert {"dev/em", "test/f1"} <= ours["metrics"].keys()
    assert list(ours["stages"]) == ["first", "second"]


MEASURED = ["benchmark.real=null", "benchmark.lengths=[64]", "benchmark.batches=[1]", "benchmark.shapes=[square]"]
MEASURED += ["benchmark.rounds=1", "benchmark.seconds=1", "benchmark.threads=1"]


def measured(name: str, *words: str) -> dict:
    assert main(["benchmark", f"benchmark={name}", *MEASURED, *words]) == 0
    (folder,) = Path("outputs/benchmark").glob(f"{name}/*")
    return record(folder)["metrics"]


@pytest.mark.long
def test_attention_is_measured_by_name(clone):
    metrics = measured("attention", "benchmark.backends=[counting]", "benchmark.heads=2", "benchmark.head_size=8")
    assert metrics["attention/counting/square/64/1/forward/ms"] > 0
    assert metrics["attention/counting/square/64/1/forward/max_error"] < 1e-5


@pytest.mark.long
def test_networks_are_measured_by_name(clone):
    variants = ["nearby", "nearby_counting"]
    words = ["benchmark.size=tiny", "benchmark.layers=1", "benchmark.max_tokens=64"]
    metrics = measured("encoder", f"benchmark.variants=[{','.join(variants)}]", *words)
    assert all(metrics[f"encoder/{name}/square/64/1/forward/ms"] > 0 for name in variants)
