"""What experiments and sweeps resolve to is what their record says; `tools/record_resolved_values.py` renews it."""

import pytest
from resolved_values import (
    SCALES,
    defaults_record,
    differences,
    experiment_record,
    experiments,
    files_record,
    read_record,
    sweep_record,
    sweeps,
)

QUICK_SWEEPS = ("linformer_slots",)
RENEW = "if this is meant: PYTHONPATH=.:tests python tools/record_resolved_values.py"


def report(where, old, new):
    return "\n".join([f"{where} resolves to something else; {RENEW}", *differences(old, new)])


def test_defaults():
    old, new = read_record("defaults"), defaults_record()
    assert old == new, report("mate train", old, new)


def test_files():
    old, new = read_record("files"), files_record()
    assert old == new, report("conf/", old, new)


@pytest.mark.parametrize("scale", SCALES)
def test_every_experiment_is_recorded(scale):
    assert list(read_record(scale)) == experiments(), RENEW


@pytest.mark.parametrize(
    ("experiment", "scale"),
    [
        pytest.param(name, scale, marks=[] if place % (18 if scale == "paper" else 64) == 0 else pytest.mark.long)
        for scale in SCALES
        for place, name in enumerate(experiments())
    ],
)
def test_experiment(experiment, scale):
    old, new = read_record(scale).get(experiment, {}), experiment_record(experiment, scale)
    assert old == new, report(f"experiment={experiment} scale={scale}", old, new)


def test_every_sweep_is_recorded():
    assert list(read_record("sweeps")) == sweeps(), RENEW


@pytest.mark.parametrize(
    "sweep", [pytest.param(name, marks=[] if name in QUICK_SWEEPS else pytest.mark.long) for name in sweeps()]
)
def test_sweep(sweep):
    old, new = read_record("sweeps").get(sweep, {}), sweep_record(sweep)
    assert old == new, report(f"sweep={sweep}", old, new)
    assert list(old) == list(new), f"the jobs of sweep={sweep} run in another order; {RENEW}"


def test_a_difference_names_the_key_and_both_values():
    old = {"hybridqa_mate": {"names": "mate", "optimizer.lr": 1e-5, "encoding.sentences": 5}}
    new = {"hybridqa_mate": {"names": "mate", "optimizer.lr": 1e-4, "trainer.batch_size": 64}}
    assert differences(old, new) == [
        "hybridqa_mate > optimizer.lr: 1e-05 has become 0.0001",
        "hybridqa_mate > encoding.sentences: 5 has become '(as in the base)'",
        "hybridqa_mate > trainer.batch_size: '(as in the base)' has become 64",
    ]
