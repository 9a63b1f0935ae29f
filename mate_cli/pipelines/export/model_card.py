"""README.md of an exported model: what it is, where it comes from, how good it is, how to load it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from mate_cli.data.datasets.catalogue import DatasetInfo, dataset_names, find_dataset
from mate_cli.lit_modules.base import AboutTables
from mate_cli.metrics.specs.names import MetricName, subset_rank
from mate_cli.models.auto_classes import MateForQuestionAnswering, auto_name
from mate_cli.runs.record import RunRecord

BASE_MODELS = {"minilm": "sentence-transformers/all-MiniLM-L6-v2"}
"""By kind of initial weights, where these do not name it themselves."""
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
READER = MateForQuestionAnswering.__name__
UNSAID = ("paths.", "logger", "resume=", "hardware.threads", "hardware.workers")
"""What was typed for the machine, and not for the result."""
UNKNOWN = DatasetInfo(
    "", "a dataset of its user", "other", "not known to mate-cli", splits=(), evaluation=(), reader=""
)


@dataclass(frozen=True)
class Exported:
    """What the card is about.

    Args:
        record: of the run.
        settings: what mate.yaml holds.
        init: the weights that training began with: `kind` and `checkpoint`.
        transformers_class: the class of transformers that loads it.
        about_tables: how it answers about any table; None where it does not.
        licence: of the weights, by its name on the Hugging Face hub; None for that of the training data.
        hub: the repository that the folder is uploaded to.
    """

    record: RunRecord
    settings: Mapping[str, Any]
    init: Mapping[str, Any]
    transformers_class: str
    about_tables: AboutTables | None
    licence: str | None = None
    hub: str | None = None

    @property
    def own_pipeline(self) -> bool:
        """True where it answers about tables, and the pipeline of transformers does not read them as it does."""
        if self.about_tables is None or self.transformers_class.startswith("Tapas"):
            return False
        as_tapas = self.settings["encoding"]["_target_"].endswith(".TapasSerializer")
        return bool(self.settings["model"].get("lexical_features")) or not as_tapas

    @property
    def dataset(self) -> DatasetInfo:
        """The training data."""
        return find_dataset(self.record.dataset) if self.record.dataset in dataset_names() else UNKNOWN

    @property
    def gives_verdicts(self) -> bool:
        """Whether its answers are verdicts on a table."""
        return self.about_tables is not None and self.about_tables.verdict

    @property
    def base_model(self) -> str | None:
        """What the training began with, by its name on the Hugging Face hub."""
        kind = str(self.init.get("kind"))
        named = str(self.init.get("checkpoint")) if kind in ("bert", "tapas") else ""
        is_name = HUB_NAME.fullmatch(named) and not Path(named).exists()
        return BASE_MODELS.get(kind, named if is_name else None)

    @property
    def began_with(self) -> str:
        """The same in words, whatever it was."""
        if "kind" not in self.init:
            return f"weights by {self.init['_target_']}"
        return self.base_model or ("random weights" if self.init["kind"] == "random" else "weights of an earlier run")


def model_card(model: Exported, folder: str) -> str:
    """The whole text.

    Args:
        model: what it is about.
        folder: the name of the folder, for the examples.
    """
    record = model.record
    parts = [
        f"---\n{yaml.safe_dump(front_matter(model), sort_keys=False, allow_unicode=True)}---",
        f"# {record.experiment}",
        _about(model),
        "## How to load it",
        _loading(model, folder),
        "## How good it is",
        _results(record.metrics),
        "## Data",
        _data(model),
        "## How it was made",
        _making(model),
        "## Limits",
        _limits(model),
    ]
    return "\n\n".join(parts) + "\n"


def front_matter(model: Exported) -> dict[str, Any]:
    """What the Hugging Face hub reads."""
    record, dataset = model.record, model.dataset
    licence = model.licence or dataset.licence
    own = [name.spec for name in map(MetricName.parse, record.metrics) if not name.baseline]
    metrics = dict.fromkeys(spec.hub_name for spec in sorted(own, key=lambda spec: spec.order) if spec.hub_name)
    matter = {
        "language": "en",
        "license": licence,
        "license_name": f"terms-of-{record.dataset}" if licence == "other" else None,
        "library_name": "transformers",
        "pipeline_tag": _pipeline_tag(model),
        "tags": ["mate-cli", record.model, record.task, "tables"],
        "datasets": [dataset.hub_name] if dataset.hub_name else None,
        "metrics": list(metrics) or None,
        "base_model": model.base_model,
    }
    return {name: value for name, value in matter.items() if value is not None}


def _pipeline_tag(model: Exported) -> str:
    if model.transformers_class == READER:
        return "question-answering"
    return "text-classification" if model.gives_verdicts else "table-question-answering"


def _about(model: Exported) -> str:
    record, encoding = model.record, model.settings["encoding"]
    return (
        f"A table encoder of mate-cli: network `{record.model}`, task `{record.task}`, {record.parameters:,} "
        f"parameters. It was trained on {model.dataset.title} from {model.began_with}, and reads a question and its "
        f"table together, up to {encoding['max_tokens']:,} word pieces."
    )


def _loading(model: Exported, folder: str) -> str:
    network = model.settings["model"]
    pruner = (
        f"model={model.record.model} model.pruner.size={network['pruner'].get('size')} " if "pruner" in network else ""
    )
    lines = [
        f"mate train init=path init.checkpoint={folder} init.tokenizer={folder} {pruner}model.size={network['size']} "
        f"model.activation={network['activation']}  # trains on"
    ]
    if model.about_tables:
        lines.insert(0, f'mate predict checkpoint={folder} table=sales.csv question="{model.about_tables.question}"')
    if model.settings["encoding"]["_target_"].endswith(".SchemaSerializer"):
        lines.insert(0, f'mate predict checkpoint={folder} database=shop.sqlite question="who paid more than 10?"')
    if model.hub:
        lines.insert(0, f"hf download {model.hub} --local-dir {folder}")
    shell = "\n".join(lines)
    return f"```bash\n{shell}\n```\n\n```python\n{_in_python(model, folder)}\n```"


def _in_python(model: Exported, folder: str) -> str:
    name = model.transformers_class
    ours = not name.startswith("Tapas")
    known = auto_name(name) if ours else name
    if name == READER:
        return _reading(known, folder)
    if model.own_pipeline:
        return _answering(model, folder)
    if ours and not model.settings["encoding"]["_target_"].endswith(".TapasSerializer"):
        return "\n".join([*_imports(known, ours), "", f'model = {known}.from_pretrained("{folder}")'])
    lines = [
        "import pandas as pd",
        *_imports(f"{known}, TapasTokenizer", ours),
        "",
        f'tokenizer = TapasTokenizer.from_pretrained("{folder}")',
        f'model = {known}.from_pretrained("{folder}")',
        'table = pd.DataFrame({"Region": ["North", "South"], "Sold": ["5", "7"]})',
        f'inputs = tokenizer(table=table, queries=["{AboutTables().question}"], return_tensors="pt")',
    ]
    return "\n".join([*lines, "outputs = model(**inputs)"])


def _answering(model: Exported, folder: str) -> str:
    lines = [
        "from mate_cli.pipelines.inference.table_answering import TableAnswering",
        "from transformers import pipeline",
        "",
        f'answers = pipeline("{_pipeline_tag(model)}", model="{folder}", pipeline_class=TableAnswering)',
        'table = {"Region": ["North", "South"], "Sold": ["5", "7"]}',
        f'print(answers(table, "{AboutTables().question}"))',
    ]
    return "\n".join(lines)


def _reading(known: str, folder: str) -> str:
    lines = [
        f"from transformers import {known}",
        "from mate_cli.pipelines.inference.table_answering import CellReading",
        "",
        f'reader = CellReading(model={known}.from_pretrained("{folder}"))',
        'passage = "Castle College was founded by Karin Rossi in 1912."',
        'print(reader(question="who founded it?", cell="Castle College", context=passage))',
    ]
    return "\n".join(lines)


def _imports(names: str, ours: bool) -> list[str]:
    known = ["import mate_cli.models.auto_classes  # makes the network known to transformers"] if ours else []
    return [*known, f"from transformers import {names}"]


def _results(metrics: Mapping[str, float]) -> str:
    """A table of all metrics, shares in percent: a row each, a column per split and per baseline."""
    if not metrics:
        return "The run recorded no metrics."
    names = [MetricName.parse(name) for name in metrics]
    texts = {(_row(name), _column(name)): name.spec.text(metrics[name.full]) for name in names}
    rows = dict.fromkeys(
        map(_row, sorted(names, key=lambda name: (bool(name.part), subset_rank(name.part), name.spec.order)))
    )
    columns = dict.fromkeys(map(_column, names))
    cells = [[row, *(texts.get((row, column), "-") for column in columns)] for row in rows]
    table = [["shares in percent", *columns], ["---", *(["---:"] * len(columns))], *cells]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _row(name: MetricName) -> str:
    """The metric and the subset, with the name it is logged under: `EM, In-Table (em/table)`."""
    logged = "/".join(filter(None, [name.score, name.part]))
    return f"{name.short}, {name.part_title} (`{logged}`)" if name.part else f"{name.short} (`{logged}`)"


def _column(name: MetricName) -> str:
    return f"{name.split}, {name.baseline}" if name.baseline else name.split


def _data(model: Exported) -> str:
    dataset, counts = model.dataset, model.record.data
    told = ", ".join(f"{re.sub('[_/]', ' ', name)} {count:,}" for name, count in counts.items() if count)
    home = f" ([source]({dataset.homepage}))" if dataset.homepage else ""
    return f"{dataset.title[:1].upper()}{dataset.title[1:]}{home}. Licence: {dataset.terms}.\n\nExamples: {told}."


def _making(model: Exported) -> str:
    record = model.record
    facts = {
        "seed": record.seed,
        "steps": f"{record.total_steps:,}",
        "time": f"{record.wall_seconds:,.0f} s on {record.device}",
        "versions": ", ".join(f"{name} {version}" for name, version in record.versions.items()),
        "code": record.code_version,
    }
    listed = "\n".join(f"- {name}: {fact}" for name, fact in facts.items() if fact not in (None, ""))
    typed = command_line(record.command, record.overrides)
    return f"```bash\n{typed}\n```\n\n{listed}\n\nEvery setting is in `mate.yaml`."


def command_line(command: str, overrides: Sequence[str]) -> str:
    """What was typed, without what concerns the machine alone."""
    typed = [word for word in overrides if not word.lstrip("+~").startswith(UNSAID)]
    return shlex.join(["mate", command, *typed])


def _limits(model: Exported) -> str:
    encoding = model.settings["encoding"]
    limits = [
        f"Longer tables are cut to fit {encoding['max_tokens']:,} word pieces; what is cut cannot be found.",
        "It learnt from English tables of this kind alone; elsewhere expect less than the figures above.",
        "A confident answer can be wrong, and a table need not hold an answer at all.",
        "The figures are of one run; repeat it with other seeds before comparing.",
    ]
    if model.transformers_class.startswith("Tapas"):
        limits.append(
            "The tokenizer of transformers does not shorten cells as ours does: long tables read differently."
        )
    if model.settings["task"].get("select_one_column") is False and model.transformers_class.startswith("Tapas"):
        limits.append(
            "Without a column to choose, transformers computes scores only when it is given float `labels`, too."
        )
    return "\n".join(f"- {limit}" for limit in limits)
