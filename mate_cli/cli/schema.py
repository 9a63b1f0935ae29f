"""The parts of the configuration that no class of ours reads by itself: their keys, types and bounds.

One class per command, one field per top-level key. A part with a `_target_` is checked against its class instead.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

Node = dict[str, Any]
"""A part with a `_target_`."""


class Section(BaseModel):
    """A part of the configuration: no unknown keys, no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Init(Section):
    """`conf/init`: which weights and tokenizer to start from."""

    kind: Literal["random", "bert", "tapas", "path", "minilm"]
    checkpoint: str | None = None
    tokenizer: str
    new_token_types: Literal["zero", "normal"] = "normal"
    heads: bool | Literal["auto"] = "auto"


class Trainer(Section):
    """`conf/trainer`: how long to train, how often to look, when to save."""

    batch_size: PositiveInt
    max_epochs: PositiveFloat | None
    max_steps: PositiveInt | None
    val_every: PositiveFloat
    gradient_clip: PositiveFloat | None
    early_stopping: PositiveInt | None
    checkpoint_every: PositiveInt
    log_every: PositiveInt
    limit_train: PositiveInt | None
    limit_dev: PositiveInt | None


class Hardware(Section):
    """`conf/hardware`: the machine."""

    accelerator: Literal["cpu", "gpu", "mps", "auto"]
    devices: PositiveInt = 1
    nodes: PositiveInt = 1
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    precision: Literal["32-true", "16-mixed", "bf16-mixed"]
    micro_batch: PositiveInt
    workers: NonNegativeInt
    threads: PositiveInt | None


class Logger(Section):
    """`conf/logger`: where curves go beside the run's own files."""

    kind: Literal["wandb", "none"]
    mode: Literal["offline", "online", "disabled"] = "offline"
    project: str = "mate"
    entity: str | None = None
    group: str | None = None
    tags: list[str] = []
    timeout: PositiveFloat = 20.0


class Paths(Section):
    """`conf/paths`: folders."""

    outputs: str
    cache: str
    data: str
    shared: str


class Stage(Section):
    """One of `stages`: a run of its own, from its own experiment."""

    experiment: str
    overrides: list[str] = []
    run: str | None = None


class Train(Section):
    """`mate train`."""

    data: Node
    encoding: Node
    init: Init
    model: Node
    attention: Node
    task: Node
    optimizer: Node
    scheduler: Node
    trainer: Trainer
    hardware: Hardware
    logger: Logger
    paths: Paths
    seed: NonNegativeInt
    resume: str | None
    deterministic: bool
    stages: dict[str, Stage | None] | None
    chain: str | None


class Evaluate(Section):
    """`mate evaluate`."""

    hardware: Hardware
    paths: Paths
    run: str
    split: str
    whole: bool
    data_root: str | None


class Predict(Section):
    """`mate predict`."""

    hardware: Hardware
    paths: Paths
    run: str | None
    checkpoint: str | None
    table: str | list[str] | None
    question: str | list[str] | None
    questions: str | None
    sheet: str | int | None
    conversation: bool
    abstain: float | None = Field(ge=0, le=1)
    input: str | None
    output: str | None
    data_root: str | None


class Compare(Section):
    """`mate compare`."""

    paths: Paths
    runs: list[str] | str
    metric: str | None
    by: list[str] | str
    status: list[str] | str
    ignore: list[str] | str
    statistic: str
    published: bool
    against: str | None
    watch: bool
    watch_seconds: PositiveFloat
    wandb: bool
    logger: Logger
    html: str | None
    figures: str | None
    json_: str | None = Field(alias="json")
    csv: str | None
    markdown: str | None
    latex: str | None


class Benchmark(Section):
    """`mate benchmark`."""

    benchmark: Node
    show: str | None
    paths: Paths
    seed: NonNegativeInt


class Data(Section):
    """`mate data`."""

    data: Node
    paths: Paths
    action: Literal["list", "check", "download"]
    report: str | None


class Export(Section):
    """`mate export`."""

    hardware: Hardware
    paths: Paths
    run: str
    to: str
    overwrite: bool
    license: str | None


class Inspect(Train):
    """`mate inspect`."""

    split: str
    example: str | int | None
    tokens: PositiveInt


SCHEMAS: dict[str, type[Section]] = {
    schema.__name__.lower(): schema for schema in (Train, Evaluate, Predict, Compare, Benchmark, Data, Inspect, Export)
}
"""The schema of each primary configuration in `conf/`."""
