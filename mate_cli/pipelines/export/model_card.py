"""Model card (README.md) of an exported model: contents, training, metrics and loading."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from jinja2 import ChainableUndefined, Environment, PackageLoader

from mate_cli.data.datasets.catalogue import DatasetInfo, dataset_names, find_dataset
from mate_cli.lit_modules.base import TableAnswerSpec
from mate_cli.metrics.specs import MetricName, subset_rank
from mate_cli.models.auto_classes import MateForQuestionAnswering, auto_name
from mate_cli.quoting import format_command, format_setting
from mate_cli.runs.record import RunRecord

BASE_MODELS = {"minilm": "sentence-transformers/all-MiniLM-L6-v2"}
"""Hub names of base models by `init.kind`, if `init.checkpoint` does not contain the name."""
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
OMITTED_KEYS = ("paths.", "logger", "resume=", "hardware.threads", "hardware.workers", "hardware.prepare_workers")
"""Prefixes of overrides that concern the machine and do not affect the result."""
UNKNOWN = DatasetInfo("", "a dataset of its user", "other", "not known to mate", splits=(), evaluation=(), reader="")


@dataclass(frozen=True)
class ExportedModel:
    """A model to export, with the facts about its training that the model card contains.

    Args:
        record: record of the run.
        settings: content of mate.yaml.
        init: section `init` of the run, with `kind` and `checkpoint` of the initial weights.
        transformers_class: class of transformers that loads the model.
        table_answers: type of the model's answers about tables. None if the model does not answer about tables.
        licence: license of the weights, by its name on the Hugging Face Hub. None: license of the training data.
        hub: repository to which the folder is uploaded. None: no repository.
    """

    record: RunRecord
    settings: Mapping[str, Any]
    init: Mapping[str, Any]
    transformers_class: str
    table_answers: TableAnswerSpec | None
    licence: str | None = None
    hub: str | None = None

    @property
    def needs_mate(self) -> bool:
        """True if transformers' table pipeline would encode tables in another way than the model.

        Such a model is used with `Mate`.
        """
        if self.table_answers is None or self.transformers_class.startswith("Tapas"):
            return False
        as_tapas = self.settings["encoding"]["_target_"].endswith(".TapasSerializer")
        return bool(self.settings["model"].get("lexical_features")) or not as_tapas

    @property
    def dataset(self) -> DatasetInfo:
        """Description of the training data, with name and license.

        `UNKNOWN` if the dataset is user-defined.
        """
        return find_dataset(self.record.dataset) if self.record.dataset in dataset_names() else UNKNOWN

    @property
    def is_reader(self) -> bool:
        """True if the model extracts answers from text passages."""
        return self.transformers_class == MateForQuestionAnswering.__name__

    @property
    def pipeline(self) -> str:
        """Pipeline tag of the model on the Hugging Face Hub, such as "table-question-answering"."""
        if self.is_reader:
            return "question-answering"
        is_judge = self.table_answers is not None and self.table_answers.verdict
        return "text-classification" if is_judge else "table-question-answering"

    @property
    def base_model(self) -> str | None:
        """Name of the pre-trained checkpoint on the Hugging Face Hub, None if unknown."""
        kind = str(self.init.get("kind"))
        name = str(self.init.get("checkpoint")) if kind in ("bert", "tapas") else ""
        is_name = HUB_NAME.fullmatch(name) and not Path(name).exists()
        return BASE_MODELS.get(kind, name if is_name else None)

    @property
    def began_with(self) -> str:
        """Description of the initial weights, such as a checkpoint name or "random weights"."""
        if "kind" not in self.init:
            return f"weights by {self.init['_target_']}"
        return self.base_model or ("random weights" if self.init["kind"] == "random" else "weights of an earlier run")


def model_card(model: ExportedModel, folder: str) -> str:
    """Return the Markdown text of the model card of an exported model.

    Args:
        model: exported model.
        folder: name of the export folder, for the examples.
    """
    record, settings, name = model.record, model.settings, model.transformers_class
    network, counts = settings["model"], record.data
    details = {
        "seed": record.seed,
        "steps": f"{record.total_steps:,}",
        "time": f"{record.wall_seconds:,.0f} s on {record.device}",
        "versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
        "code": record.code_version,
    }
    unscored = [
        f"{name.capitalize()}: {fact}."
        for name, fact in record.facts.items()
        if name.startswith(("not scored, ", "unanswerable, "))
    ]
    environment = Environment(
        loader=PackageLoader("mate_cli.pipelines.export"),
        undefined=ChainableUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("model_card.md").render(
        model=model,
        record=record,
        dataset=model.dataset,
        encoding=settings["encoding"],
        network=network,
        task=settings["task"],
        front_matter=yaml.safe_dump(front_matter(model), sort_keys=False, allow_unicode=True),
        tokens=f"{settings['encoding']['max_tokens']:,}",
        folder=folder,
        folder_text=json.dumps(folder, ensure_ascii=False),  # JSON strings are valid Python literals.
        setting=format_setting,
        command=format_command,
        data_overrides=[override for override in record.overrides if override.startswith("data")],
        auto_class=name if name.startswith("Tapas") else auto_name(name),
        question=TableAnswerSpec().question,
        results="\n\n".join([_results(record.metrics, record.counts), *unscored]),
        counts=", ".join(f"{re.sub('[_/]', ' ', name)} {count:,}" for name, count in counts.items() if count),
        typed=command_line(record.command, record.overrides),
        facts=details,
    )


def front_matter(model: ExportedModel) -> dict[str, Any]:
    """Return the YAML front matter of the model card, which the Hugging Face Hub reads."""
    record, dataset = model.record, model.dataset
    licence = model.licence or dataset.licence
    specs = [name.spec for name in map(MetricName.parse, record.metrics) if not name.baseline]
    metrics = dict.fromkeys(spec.hub_name for spec in sorted(specs, key=lambda spec: spec.order) if spec.hub_name)
    matter = {
        "language": "en",
        "license": licence,
        "license_name": f"terms-of-{record.dataset}" if licence == "other" else None,
        "library_name": "transformers",
        "pipeline_tag": model.pipeline,
        "tags": ["mate-tables", record.model, record.task, "tables"],
        "datasets": [dataset.hub_name] if dataset.hub_name else None,
        "metrics": list(metrics) or None,
        "base_model": model.base_model,
    }
    return {name: value for name, value in matter.items() if value is not None}


def _results(metrics: Mapping[str, float], counts: Mapping[str, int]) -> str:
    """Format metrics as a Markdown table, with a column per split and baseline.

    Shares are in percent. The header of a column contains the largest number of questions of its metrics, which
    excludes questions with unknown answers.
    """
    if not metrics:
        return "The run recorded no metrics."
    names = [MetricName.parse(name) for name in metrics]
    texts = {(_row(name), _column(name)): name.spec.text(metrics[name.full]) for name in names}
    ordered_names = sorted(names, key=lambda name: (bool(name.part), subset_rank(name.part), name.spec.order))
    rows = dict.fromkeys(map(_row, ordered_names))
    columns = {_column(name): 0 for name in names}
    for name in names:
        columns[_column(name)] = max(columns[_column(name)], counts.get(name.full, 0))
    heads = [f"{column} ({count:,} questions)" if count else column for column, count in columns.items()]
    cells = [[row, *(texts.get((row, column), "-") for column in columns)] for row in rows]
    table = [["shares in percent", *heads], ["---", *(["---:"] * len(columns))], *cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _row(name: MetricName) -> str:
    """Format the label of a metric in the table of results, as in `EM, In-Table (em/table)`.

    The label consists of title, question subset (if any) and logged name.
    """
    logged = "/".join(filter(None, [name.score, name.part]))
    return f"{name.spec.title}, {name.part_title} (`{logged}`)" if name.part else f"{name.spec.title} (`{logged}`)"


def _column(name: MetricName) -> str:
    return f"{name.split}, {name.baseline}" if name.baseline else name.split


def command_line(command: str, overrides: Sequence[str]) -> str:
    """Return the training command of a run as text, without machine-specific overrides.

    Args:
        command: command of mate, such as "train".
        overrides: overrides of the run.
    """
    options = [override for override in overrides if not override.lstrip("+~").startswith(OMITTED_KEYS)]
    return format_command("mate", command, *options)
