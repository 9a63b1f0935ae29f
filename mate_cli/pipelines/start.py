"""What a training prints before its first step: its parts, where weights come from, the schedule, what was cut."""

from rich.table import Table
from rich.text import Text
from torch import nn

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.table_data_module import TrainingSet
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.run import Run
from mate_cli.tokenization.fitting.truncation import describe_cuts


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
    for name in ("left out, train", "not learnt from", "not encoded, train"):
        if name in run.record.facts:
            console.print(f"{name}: {run.record.facts[name]}")
    for name, reason in list(training.failures.items())[:3]:
        console.print(Text("not encoded:", style="yellow") + Text(f" {name}: {reason}", style="default"))
    if done:
        console.print(f"resuming after step {done:,}")
    console.print(f"run folder: {run.folder.path}", soft_wrap=True)


def count_parameters(module: nn.Module) -> tuple[int, int]:
    """Count all parameters of a module, and those that are trained."""
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in module.parameters()]
    return sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained)
