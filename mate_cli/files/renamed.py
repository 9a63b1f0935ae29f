"""Renaming of moved classes and removed options in configurations of earlier versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMER_MODULES: Mapping[str, str] = {
    "dt_fixup.datasets.spider.reader": "dt_fixup.datasets.spider_questions",
    "hybrider.node_ranking": "hybrider.tasks",
    "hybrider.page_reading": "hybrider.tasks",
    "hybrider.row_hopping": "hybrider.tasks",
    "hybrider.passage_only": "hybrider.system",
    "transformer_xh.evidence_entailment": "transformer_xh.tasks",
    "transformer_xh.evidence_ranking": "transformer_xh.tasks",
    "transformer_xh.evidence_reading": "transformer_xh.tasks",
}
"""Current names of modules of `mate_cli.papers` by their former names."""
PAPERS = "mate_cli.papers."
WITHDRAWN: Mapping[str, object] = {"runnable": False, "more_training": [], "fold": None, "relation_bias": False}
"""Removed options of classes of papers, with the values that disabled them."""


def rename_targets(value: Any) -> Any:  # noqa: ANN401 - any part of a configuration
    """Replace former class names in the `_target_`s of a configuration, at any depth.

    Options that no longer exist are dropped if their value disabled the option.
    """
    if not isinstance(value, Mapping):
        return [rename_targets(part) for part in value] if isinstance(value, list) else value
    renamed = {key: rename_targets(part) for key, part in value.items()}
    target = value.get("_target_")
    if not isinstance(target, str) or not target.startswith(PAPERS):
        return renamed
    module, _, name = target.removeprefix(PAPERS).rpartition(".")
    renamed["_target_"] = f"{PAPERS}{FORMER_MODULES.get(module, module)}.{name}"
    return {key: part for key, part in renamed.items() if key not in WITHDRAWN or part != WITHDRAWN[key]}
