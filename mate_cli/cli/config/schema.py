"""The parts of the configuration that no class of ours reads by itself: their keys, types and bounds.

One class per command, one field per top-level key. A part with a `_target_` is checked against its class instead.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from mate_cli.pipelines.run_spec import After
from mate_cli.runs.configuration import Hardware, Node, Nodes, Paths, RunConfig, Section, Seed


def as_list(value: Any) -> Any:  # noqa: ANN401 - whatever is typed
    """Return one text, or null, as a list; anything else as it is."""
    return [] if value is None else [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str] | None)]
"""One text, a list of them, or null."""
SomeTexts = Annotated[Texts, Field(min_length=1)]
"""One text, or a list of them."""


class StageOptions(Section):
    """One of `stages`: a run of its own, from its own experiment.

    Args:
        experiment: what it is composed from.
        overrides: what it sets otherwise.
        run: a finished run to take in its place, or an experiment for its newest one.
        after: what it hands on; predictions where there is a system, else nothing.
        keeps: groups whose choice it keeps, and keys whose value, whatever is typed for all.
        shared: train it once for all runs that have such a stage, in a run of its own beside them.
    """

    experiment: str
    overrides: list[str] = Field(default_factory=list)
    run: str | None = None
    after: After | None = None
    keeps: list[str] = Field(default_factory=list)
    shared: bool = False


class Train(RunConfig):
    """`mate train`, as far as one stage is concerned."""

    name: str | int | None
    resume: str | None
    trust: Texts
    stages: dict[str, Node | None] | None
    system: Node | None


class OfRuns(Section):
    """Options of all commands that use finished runs."""

    hardware: Hardware
    paths: Paths
    trust: Texts


class Evaluate(OfRuns):
    """`mate evaluate`."""

    run: Texts
    checkpoint: Texts
    answers: str | None
    name: str | None
    partial: bool
    split: SomeTexts
    whole: bool
    data: Node
    analysis: Node | None


class TableLimits(Section):
    """The largest table that is read; see `Limits` of `tables/read_options.py`."""

    rows: PositiveInt
    columns: PositiveInt
    cells: PositiveInt
    megabytes: PositiveInt


class Predict(OfRuns):
    """`mate predict`."""

    run: str | None
    checkpoint: str | None
    table: Texts
    database: str | None
    schema_: str | None = Field(alias="schema")
    execution_guided: bool
    question: Texts
    questions: str | None
    sheet: str | int | None
    hidden: bool
    text_encoding: str | None
    locale: str | None
    decimal: str | None
    header: str | int | None
    delimiter: str | None
    quote: str | None
    conversation: bool
    abstain: float | None = Field(ge=0, le=1)
    input: str | None
    output: str | None
    limits: TableLimits
    data: Node
    sources: Nodes


class Compare(Section):
    """`mate compare`."""

    paths: Paths
    runs: SomeTexts
    metric: str | None
    by: Texts
    status: Texts
    ignore: Texts
    debug_runs: bool
    statistic: Literal["median", "mean", "median_dev"]
    published: bool
    against: str | None
    sections: Literal["brief", "all", "wrong"]
    added_sections: Nodes
    wandb: bool
    workspace: bool
    logger: Nodes
    html: str | None
    figures: str | None
    json_: str | None = Field(alias="json")
    csv: str | None
    markdown: str | None
    latex: str | None
    labels: dict[str, str] | None


class Diff(Section):
    """`mate diff`."""

    paths: Paths
    runs: Texts
    questions: NonNegativeInt
    html: str | None


class Benchmark(Section):
    """`mate benchmark`."""

    benchmark: Node
    show: str | None
    paths: Paths
    seed: Seed


class Data(Section):
    """`mate data`."""

    data: Node
    paths: Paths
    action: Literal["list", "check", "download", "export", "prune"]
    split: str
    to: str | None
    answers: bool
    encoding: Node | None
    days: Annotated[float, Field(ge=0)]
    report: str | None
    tokenizer: str | None


class Export(OfRuns):
    """`mate export`."""

    run: str
    to: str
    overwrite: bool
    license: str | None
    push: str | None
    private: bool


class Inspect(Train):
    """`mate inspect`."""

    split: str
    example: str | int | None
    tokens: PositiveInt
    run: str | None
    checkpoint: str | None


SCHEMAS: dict[str, type[Section]] = {
    schema.__name__.lower(): schema
    for schema in (Train, Evaluate, Predict, Compare, Diff, Benchmark, Data, Inspect, Export)
}
"""The schema of each primary configuration in `conf/`."""
