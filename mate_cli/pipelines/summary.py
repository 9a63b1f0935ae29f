"""What a run prints: its parts at the start, its figures at the end."""

from collections.abc import Mapping
from itertools import groupby

from rich.table import Table
from rich.text import Text

from mate_cli.metrics.specs.names import MetricName, subset_rank
from mate_cli.pipelines.run_spec import RunSpec
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.terminal.console import Console


def taken_table(spec: RunSpec) -> Table:
    """A table of what was typed and the stages that it holds for."""
    table = Table(title="What was typed, and which stage took it", title_justify="left", title_style="bold", box=None)
    table.add_column("typed", header_style="bold", overflow="fold")
    for stage in spec.stages:
        table.add_column(stage.name.replace("_", " "), header_style="bold", justify="center")
    for word, names in spec.taken.items():
        table.add_row(Text(word), *("✓" if stage.name in names else "-" for stage in spec.stages))
    return table


def print_results(console: Console, folder: RunFolder, record: RunRecord) -> None:
    """Print the metrics by split, with the baselines below, and where everything lies."""
    console.print(results_table(record.metrics, f"{record.experiment}: {record.model}, seed {record.seed}"))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}")
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str) -> Table:
    """A table like the MATE paper's: a row per split and subset of the questions, a column per metric."""
    known = [name for name in map(MetricName.parse, metrics) if not (name.baseline and name.part)]
    specs = sorted({name.spec for name in known}, key=lambda spec: (spec.order, spec.name))
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    table.add_column("split")
    table.add_column("questions")
    for spec in specs:
        table.add_column(spec.title, justify="right")
    for owner, names in groupby(sorted(known, key=_place), key=_owner):
        rows = [list(same) for _, same in groupby(names, key=lambda name: name.part)]
        for place, same in enumerate(rows):
            texts = {name.spec: name.spec.text(metrics[name.full]) for name in same}
            cells = [texts.get(spec, "-") for spec in specs]
            style = "dim" if same[0].baseline else None
            table.add_row(
                "" if place else owner, same[0].part_title, *cells, style=style, end_section=place == len(rows) - 1
            )
    return table


def _owner(name: MetricName) -> str:
    """The split, and the baseline before it: `dev` or `tfidf/dev`."""
    return "/".join(filter(None, [name.baseline, name.split]))


def _place(name: MetricName) -> tuple[bool, str, bool, int, str]:
    """Baselines below, splits in order, all questions before their subsets."""
    return bool(name.baseline), _owner(name), bool(name.part), subset_rank(name.part), name.part
