"""Tables that a run prints: its parts at the start, its figures at the end."""

from collections.abc import Mapping
from itertools import groupby

from rich.table import Table
from rich.text import Text
from torch import nn

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import TrainingSet
from mate_cli.metrics.specs.names import MetricName, subset_rank
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.run import Run
from mate_cli.pipelines.run_spec import RunSpec
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.terminal.console import Console
from mate_cli.tokenization.fitting.truncation import describe_cuts


def reused_runs_table(spec: RunSpec) -> Table:
    """Build a table of overrides and the stages that they hold for."""
    table = Table(title="What was typed, and which stage took it", title_justify="left", title_style="bold", box=None)
    table.add_column("typed", header_style="bold", overflow="fold")
    for stage in spec.stages:
        table.add_column(stage.name.replace("_", " "), header_style="bold", justify="center")
    for word, names in spec.taken.items():
        table.add_row(Text(word), *("✓" if stage.name in names else "-" for stage in spec.stages))
    return table


def print_start(run: Run, parts: Parts, schedule: Schedule, training: TrainingSet, done: int) -> None:
    """Print the parameter table, where the weights come from, the schedule, what was cut and the run's folder."""
    console = run.console
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, justify in (("module", "left"), ("parameters", "right"), ("trainable", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for name, module in [*parts.task.encoder.named_children(), ("head", parts.task.head)]:
        table.add_row(str(name), *(f"{count:,}" for count in count_parameters(module)))
    table.add_row("all", *(f"{count:,}" for count in count_parameters(parts.task)), style="bold")
    console.print(table)
    console.print(parts.report.summary() if parts.report.loaded else "weights: random")
    for note in parts.report.notes:
        console.print(Text("note:", style="yellow") + Text(f" {note}", style="default"))
    console.print(
        f"{len(training):,} training examples, {training.lengths.mean():.0f} tokens on average; "
        f"{schedule.total_steps:,} steps of {schedule.batch_size} = {schedule.accumulate} x {schedule.micro_batch}"
        + (f" x {schedule.ranks} processes" if schedule.ranks > 1 else "")
    )
    if len(training.cuts):
        tokens = f"{parts.serializer.max_tokens:,} tokens"
        whole = f"all {len(training.cuts):,} tables fit into {tokens}, none is cut"
        console.print(f"to fit {tokens}: {describe_cuts(training.cuts)}" if training.cuts.any() else whole)
    for name in ("left out, train", "not trained on", "not encoded, train"):
        if name in run.record.facts:
            console.print(f"{name}: {run.record.facts[name]}")
    for name, reason in list(training.failures.items())[:3]:
        console.print(Text("not encoded:", style="yellow") + Text(f" {name}: {reason}", style="default"))
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {run.folder.path}", soft_wrap=True)


def print_results(console: Console, folder: RunFolder, record: RunRecord) -> None:
    """Print the metrics by split, with the baselines below, and where everything lies."""
    console.print(results_table(record.metrics, f"{record.experiment}: {record.model}, seed {record.seed}"))
    for name, fact in record.facts.items():
        console.print(f"{name}: {fact}")
    console.print(f"run folder: {folder.path}", soft_wrap=True)


def results_table(metrics: Mapping[str, float], title: str) -> Table:
    """Build a table like the MATE paper's: a row per split and subset of the questions, a column per metric."""
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
    """Return the split, and the baseline before it: `dev` or `tfidf/dev`."""
    return "/".join(filter(None, [name.baseline, name.split]))


def _place(name: MetricName) -> tuple[bool, str, bool, int, str]:
    """Return the sort key: baselines below, splits in order, all questions before their subsets."""
    return bool(name.baseline), _owner(name), bool(name.part), subset_rank(name.part), name.part


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """Count all parameters of a module, and those that are trained."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained)
