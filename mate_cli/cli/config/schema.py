"""Pydantic schemas of the command configurations: keys, types and bounds.

There is one class per command, with one field per top-level key. Nodes with a `_target_` are validated against the
constructor of their class instead.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt

from mate_cli.pipelines.run_spec import After
from mate_cli.runs.configuration import Hardware, Node, Nodes, Paths, RunConfig, Section, Seed


def as_list(value: Any) -> Any:  # noqa: ANN401 - any value
    """Convert a single text to a list, and None to an empty list.

    Other values are unchanged.
    """
    return [] if value is None else [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str] | None)]
"""Type of a list of texts. A single text and null are also valid."""
TextKey = Annotated[str, BeforeValidator(str)]
"""Type of a mapping key that YAML may read as a number, and that is converted to text."""
SomeTexts = Annotated[Texts, Field(min_length=1)]
"""Type of a list of at least one text. A single text is also valid."""


Seeds = Annotated[list[Seed], BeforeValidator(lambda value: value if isinstance(value, list) else [value])]
"""Type of a list of seeds. A single seed is also valid."""


class StageOptions(Section):
    """Options of one training stage in the config section `stages`.

    A stage is trained as a run of a separate experiment.

    Args:
        experiment: experiment from which the stage is composed.
        overrides: overrides of the experiment for this stage.
        run: finished run that replaces this stage, or an experiment whose newest run replaces it.
        after: output that later stages use: weights, rows or predictions. Default: predictions with a system, else
            weights.
        keeps: config groups and keys that overrides without a stage prefix do not change in this stage.
        shared: whether to train the stage once for all runs with an equal stage, as a separate run next to them.
    """

    experiment: str
    overrides: list[str] = Field(default_factory=list)
    run: str | None = None
    after: After | None = None
    keeps: list[str] = Field(default_factory=list)
    shared: bool = False


class Train(RunConfig):
    """Configuration of `mate train`."""

    name: str | int | None
    resume: str | None
    trust: Texts
    stages: dict[str, Node | None] | None
    system: Node | None


class OfRuns(Section):
    """Configuration keys that all commands on finished runs share."""

    hardware: Hardware
    paths: Paths
    trust: Texts


class Prompt(Section):
    """A prompt of `conf/prompt` for a language model: instructions and a question template."""

    instructions: str
    question: str


class Evaluate(OfRuns):
    """Configuration of `mate evaluate`."""

    run: Texts
    checkpoint: Texts
    answers: str | None
    system: Node | None
    prompt: Prompt | None
    dry: bool
    name: str | None
    partial: bool
    split: SomeTexts
    whole: bool
    data: Node
    analysis: Node | None
    perturb: Texts
    perturb_seed: Seeds


class TableLimits(Section):
    """Maximum size of a table that `mate predict` reads.

    The fields are those of `Limits` in `tables/read_options.py`.
    """

    rows: PositiveInt
    columns: PositiveInt
    cells: PositiveInt
    megabytes: PositiveInt


class Predict(OfRuns):
    """Configuration of `mate predict`."""

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
    """Configuration of `mate compare`."""

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
    labels: dict[TextKey, str] | None


class Diff(Section):
    """Configuration of `mate diff`."""

    paths: Paths
    runs: Texts
    questions: NonNegativeInt
    html: str | None


class Benchmark(Section):
    """Configuration of `mate benchmark`."""

    benchmark: Node
    show: str | None
    paths: Paths
    seed: Seed


class Data(Section):
    """Configuration of `mate data`."""

    data: Node
    paths: Paths
    action: Literal["list", "check", "download", "export", "prune"]
    split: str
    to: str | None
    answers: bool
    encoding: Node | None
    days: Annotated[float, Field(ge=0)]
    perturb: Texts
    perturb_seed: Seeds
    report: str | None
    tokenizer: str | None


class Export(OfRuns):
    """Configuration of `mate export`."""

    run: str
    to: str
    overwrite: bool
    license: str | None
    push: str | None
    private: bool


class Inspect(Train):
    """Configuration of `mate inspect`."""

    split: str
    example: str | int | None
    tokens: PositiveInt
    run: str | None
    checkpoint: str | None
    dump: list[Literal["states", "attention"]] | None
    layers: list[int] | None
    part_megabytes: PositiveInt


SCHEMAS: dict[str, type[Section]] = {
    schema.__name__.lower(): schema
    for schema in (Train, Evaluate, Predict, Compare, Diff, Benchmark, Data, Inspect, Export)
}
"""Schema by command, which is also the name of its primary configuration in `conf/`."""
