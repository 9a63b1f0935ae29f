"""Commands on a disk that is full: one line, and nothing half written is left."""

from itertools import product

import pytest
from finished_runs import finished_run
from full_disks import room

from mate_cli.cli.app import main

QUESTION = ["table={here}/t.csv", "question=which region?", "hardware.threads=1"]
COMMANDS = {
    **{f"predict {kind}": ["predict", "run={run}", *QUESTION, f"output={{to}}.{kind}"] for kind in ("json", "csv")},
    "predict page": ["predict", "run={run}", *QUESTION, "output={to}.html"],
    **{
        f"compare {kind}": ["compare", "{run}", "html=null", f"{kind}={{to}}.{kind}"]
        for kind in ("json", "csv", "markdown", "latex")
    },
    "compare page": ["compare", "{run}", "html={to}.html"],
    "compare figures": ["compare", "{run}", "html=null", "figures={to}.folder"],
    "export": ["export", "run={run}", "to={to}.folder"],
    "evaluate": ["evaluate", "run={run}", "data.limit=4", "paths.outputs={to}.folder"],
}


QUICK = (("predict json", 0), ("compare csv", 0))
FITS = ("predict csv", 300)
"""What needs no more room."""
CASES = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.long)
    for case in product(COMMANDS, (0, 300))
    if case != FITS
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", ["task=table_qa", "encoding=table"])


@pytest.mark.parametrize(("name", "size"), CASES)
def test_a_full_disk_is_said_in_one_line(name, size, run, tmp_path, capsys, monkeypatch):
    (tmp_path / "t.csv").write_text("region,sold\nnorth,1\nsouth,2\n")
    monkeypatch.chdir(tmp_path)
    words = [word.format(run=run, here=tmp_path, to=tmp_path / "made") for word in COMMANDS[name]]
    with room(size):
        code = main(words)
    said = capsys.readouterr()
    assert (code, said.err.count("\n"), said.err[:7]) == (2, 1, "error: "), said.err
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "t.csv"]
    assert not [path for path in left if not path.read_bytes()], left
