"""Rows that papers print in their tables of results, beside what the documented commands of these tables train."""

import re
import shlex

import pytest
from configurations import sweep_jobs
from test_papers_page import ROWS

from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import config_dir

LETTERS = {"mini": "mini", "small": "s", "medium": "m", "large": "l"}
LOSSES = {"pruning": "P-", "both": "PJ-", "joint": ""}
NETWORKS = {"sat": "SAT", "tapas": "Tapas", "etc": "TableEtc", "linformer": "Linformer", "mate": "Mate"}
WHOLE_CHAINS = {"table_only": "Table-Only", "passage_only": "Passage-Only", "hybrider": "Hybrider"}
SCHEMES = {"standard": "", "dt_fixup": " + DT-Fixup", "t_fixup": " + T-Fixup"}


def name_of_parser(plan):
    """Row of tables 4 and 8 of the MATE paper."""
    with_statements = any(stage.name == "cs" for stage in plan.stages)
    return f"{plan.last.data['name']} {NETWORKS[plan.last.names.model]}{' + CS' * with_statements}"


def name_of_reader(plan):
    """Row of tables 5 and 6 of the MATE paper, or the slots of Linformer."""
    whole = WHOLE_CHAINS.get(plan.names.experiment.removeprefix("hybridqa_"))
    if whole:
        return whole
    pretrained, selector = plan.stages[:2]
    assert (pretrained.name, selector.name) == ("masked_lm", "cell_selection")
    name, ratio = NETWORKS[selector.names.model], selector.model.get("row_head_ratio")
    if name == "Linformer":
        slots = {stage.model["slots"] for stage in (pretrained, selector)}
        return name if slots == {256} else f"{name} {slots}"
    changes = {
        "- row heads": ratio == 0,
        "- col heads": ratio == 1,
        "- sparse pretrain": pretrained.names.model != selector.names.model,
        "- ambiguous": selector.task["drop_ambiguous"],
    }
    return next((change for change, made in changes.items() if made), name)


def name_of_pruned(plan):
    """Row of the tables of the DoT paper."""
    model, encoding = plan.last.model, plan.last.encoding
    cut = {"cell_concatenation": "CC", "hem": "HEM"}[encoding["truncation"]]
    begin = f"{plan.last.data['name']}: {cut}-{encoding['max_tokens']}"
    size = LETTERS[model["size"]]
    if "pruner" not in model:
        return f"{begin} TAPAS({size})"
    columns = "C-" * (model["select"] == "columns")
    sizes = f"{LETTERS[model['pruner']['size']]}-{model['keep']} {size}"
    return f"{begin} {LOSSES[model['learn']]}{columns}DoT({sizes})"


def name_of_deep(plan):
    """Row of the tables of the DT-Fixup paper."""
    config = plan.last
    data = config.data["name"]
    if not config.model["extra"]:
        return f"{data}: none"
    long = ", 100 epochs" * (config.trainer.max_epochs == 100)
    batch = config.trainer.batch_size
    size = "" if batch in (16, 24) else f", {batch}"
    return f"{data}: {config.model['extra']['layers']}{SCHEMES[config.model['extra']['scheme']]}{long}{size}"


DATA = ["wikisql", "tabfact", "wtq"]


def by_data(rows):
    """Rows of each data set of the DoT paper."""
    return [f"{data}: {row}" for data in DATA for row in rows]


def by_best(rows):
    """Likewise; on WikiTQ the tables with one kind of DoT select columns (section 3)."""
    return [row.replace("DoT", "C-DoT") if row.startswith("wtq") else row for row in by_data(rows)]


CHAINS = ["SAT", "Tapas", "TableEtc", "Linformer", "Mate"]
BY_CELLS, BY_WORDS = ([f"{cut}-{n} TAPAS(l)" for n in (256, 512, 1024)] for cut in ("CC", "HEM"))
PARSERS = [
    f"{data} {row}" for data in ("sqa", "wtq", "tabfact") for row in ("Tapas", "Mate", "Tapas + CS", "Mate + CS")
]
PRUNED = [
    f"{cut}-1024 {kind}({size}-256 l)"
    for kind in ("DoT", "C-DoT")
    for cut in ("CC", "HEM")
    for size in ("mini", "s", "m")
]
FIXED = " + DT-Fixup"
PRINTED = {
    ("MATE", "table 4"): (name_of_parser, PARSERS),
    ("MATE", "table 5"): (name_of_reader, [*WHOLE_CHAINS.values(), *CHAINS]),
    ("MATE", "table 6"): (
        name_of_reader,
        ["Hybrider", *CHAINS, "- row heads", "- col heads", "- sparse pretrain", "- ambiguous"],
    ),
    ("MATE", "section 5.1"): (name_of_reader, ["Linformer {128}", "Linformer", "Linformer {512}"]),
    ("DoT", "table 1"): (name_of_pruned, by_data([*BY_CELLS, *BY_WORDS, *PRUNED])),
    ("DoT", "table 2"): (name_of_pruned, by_best(["CC-1024 DoT(m-256 l)", "CC-256 TAPAS(l)", "CC-1024 TAPAS(m)"])),
    ("DoT", "table 10"): (name_of_pruned, by_best([f"CC-1024 {loss}DoT(m-256 l)" for loss in ("P-", "PJ-", "")])),
    ("DoT", "table 11"): (
        name_of_pruned,
        by_data(["CC-1024 TAPAS(s)", "CC-1024 TAPAS(m)", *BY_CELLS, *BY_WORDS, *PRUNED]),
    ),
    ("DT-Fixup", "table 2"): (
        name_of_deep,
        [f"spider: {row}" for row in ("8", "8, 100 epochs", f"8{FIXED}", f"24{FIXED}", "24 + T-Fixup")],
    ),
    ("DT-Fixup", "table 4"): (name_of_deep, [f"reclor: {row}" for row in ("none", "4", f"4{FIXED}")]),
    ("DT-Fixup", "table 5"): (
        name_of_deep,
        [
            f"{data}: {depth}{scheme}"
            for data, depths in (("spider", (2, 4, 8, 16, 24, 32)), ("reclor", (4, 8, 16)))
            for scheme in ("", FIXED)
            for depth in depths
        ],
    ),
    ("DT-Fixup", "table 7"): (name_of_deep, [f"spider: {row}" for row in ("8", f"8{FIXED}", f"8{FIXED}, 120")]),
}
"""By paper and table, how a configuration is called there, and the rows in order."""
SHOWN = {
    ("MATE", "table 8"): ("table 4", PARSERS),
    ("DoT", "table 3"): ("tables 1 and 2", by_best(["CC-512 TAPAS(l)", "CC-256 TAPAS(l)", "CC-1024 DoT(m-256 l)"])),
    ("DoT", "table 9"): ("tables 1 and 2", by_best([*reversed(BY_CELLS), "CC-1024 DoT(m-256 l)"])),
    ("DT-Fixup", "table 3"): ("table 2", [f"spider: 24{FIXED}"]),
    ("DT-Fixup", "table 6"): ("table 5", ["spider: 4", f"spider: 4{FIXED}", f"spider: 24{FIXED}"]),
}
"""Tables that need no training but that of others."""
COMMANDS = {(paper, what): cell for paper, what, _, cell in ROWS}


def trained_by(cell, name_of):
    """Rows that the sweeps of a cell train, each once, in their order."""
    jobs = [
        tuple(word for word in job if not word.startswith("seed="))
        for command in re.findall(r"`mate train -m (sweep=[^`]+)`", cell)
        for sweep, *typed in [shlex.split(command.replace("sweep=", "sweep/"))]
        for job in sweep_jobs(config_dir() / f"{sweep}.yaml", typed)
    ]
    jobs = [[word for word in job if not re.match(r"stages\.\w+\.run=", word)] for job in dict.fromkeys(jobs)]
    return list(dict.fromkeys(map(name_of, map(resolve, jobs))))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("table", PRINTED, ids=" ".join)
def test_the_command_of_a_table_trains_the_rows_that_it_prints(table):
    name_of, printed = PRINTED[table]
    trained = trained_by(COMMANDS[table], name_of)
    if name_of is name_of_pruned:
        trained.sort(key=lambda row: DATA.index(row.partition(":")[0]))  # the paper goes through the rows by data set
    assert trained == printed


@pytest.mark.parametrize("table", SHOWN, ids=" ".join)
def test_tables_of_other_runs_name_those_that_train_their_rows(table):
    others, printed = SHOWN[table]
    assert f"after {others}" in COMMANDS[table]
    trained = {row for number in re.findall(r"\d+", others) for row in PRINTED[table[0], f"table {number}"][1]}
    assert set(printed) <= trained


@pytest.mark.parametrize("sweep", ["table4", "hybridqa_table5", "hybridqa_table6", "spider_depth", "dot_table11"])
def test_rows_are_trained_as_often_as_papers_say(sweep):
    seeds = {word for job in sweep_jobs(config_dir() / "sweep" / f"{sweep}.yaml") for word in job if "seed=" in word}
    assert len(seeds) == (
        3 if sweep.startswith("dot") else 5
    )  # DoT, appendix B; MATE, section 5; DT-Fixup, section 5.1
