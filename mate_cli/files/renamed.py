"""Classes that have moved, as run folders and exports that were written before still name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

FORMER_MODULES: Mapping[str, str] = {
    "data.datasets.document_readers": "transformer_xh.datasets.document_readers",
    "data.datasets.option_questions": "dt_fixup.datasets.option_questions",
    "data.datasets.spider.reader": "dt_fixup.datasets.spider_questions",
    "lit_modules.evidence.evidence_entailment": "transformer_xh.tasks",
    "lit_modules.evidence.evidence_ranking": "transformer_xh.tasks",
    "lit_modules.evidence.evidence_reading": "transformer_xh.tasks",
    "lit_modules.hybrider.node_ranking": "hybrider.tasks",
    "lit_modules.hybrider.page_reading": "hybrider.tasks",
    "lit_modules.hybrider.row_hopping": "hybrider.tasks",
    "lit_modules.option_choice": "dt_fixup.option_choice",
    "lit_modules.sql_parsing": "dt_fixup.sql_parsing",
    "models.layers.extra": "dt_fixup.models.extra",
    "models.relation_aware": "dt_fixup.models.relation_aware",
    "models.transformer_xh": "transformer_xh.models.transformer_xh",
    "models.transformer_xl": "transformer_xh.models.transformer_xl",
    "papers.dt_fixup.datasets.spider.reader": "dt_fixup.datasets.spider_questions",
    "papers.hybrider.node_ranking": "hybrider.tasks",
    "papers.hybrider.page_reading": "hybrider.tasks",
    "papers.hybrider.row_hopping": "hybrider.tasks",
    "papers.hybrider.passage_only": "hybrider.system",
    "papers.transformer_xh.evidence_entailment": "transformer_xh.tasks",
    "papers.transformer_xh.evidence_ranking": "transformer_xh.tasks",
    "papers.transformer_xh.evidence_reading": "transformer_xh.tasks",
    "pipelines.systems.hybrider": "hybrider.system",
    "pipelines.systems.passage_only": "hybrider.system",
    "tokenization.evidence.serializer": "transformer_xh.serializer",
    "tokenization.hybrider.candidates": "hybrider.serializers",
    "tokenization.schema.serializer": "dt_fixup.schema.serializer",
    "tokenization.serializers.options": "dt_fixup.options",
}
"""Modules by their names in `mate_cli`, and what they are called in `mate_cli.papers`."""
FORMER_CLASSES: Mapping[str, str] = {"mate_cli.models.mate.Mate": "mate_cli.models.mate.MateEncoder"}
"""Classes that have another name in the same module."""
QUERIES = {"_target_": "mate_cli.papers.dt_fixup.databases.row_databases.RowDatabases", "_partial_": True}
"""What `data.queries` of files and of the hub is where they say nothing."""

WITHDRAWN: Mapping[str, object] = {"runnable": False, "more_training": [], "fold": None, "relation_bias": False}
"""Options of papers' classes that are gone, by the values that runs have where they were not used."""

Value = TypeVar("Value")


def rename_targets(value: Value) -> Value:
    """Return a configuration whose `_target_`s, at any depth, have the names of today."""
    return _renamed(value)  # type: ignore[return-value]


def _renamed(value: object) -> object:
    if isinstance(value, Mapping):
        renamed = {key: _name(part) if key == "_target_" else _renamed(part) for key, part in value.items()}
        if str(renamed.get("_target_", "")).startswith("mate_cli.data.datasets.labelled."):
            renamed.setdefault("queries", QUERIES)
        if str(renamed.get("_target_", "")).startswith("mate_cli.papers."):
            renamed = {key: part for key, part in renamed.items() if key not in WITHDRAWN or part != WITHDRAWN[key]}
        return renamed
    return [_renamed(part) for part in value] if isinstance(value, list) else value


def _name(target: object) -> object:
    if isinstance(target, str) and target in FORMER_CLASSES:
        return FORMER_CLASSES[target]
    module, _, name = str(target).removeprefix("mate_cli.").rpartition(".")
    known = isinstance(target, str) and target.startswith("mate_cli.") and module in FORMER_MODULES
    return f"mate_cli.papers.{FORMER_MODULES[module]}.{name}" if known else target
