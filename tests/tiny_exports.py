"""Small exports of each type of task, and their inputs."""

from pathlib import Path

import torch
from finished_runs import finished_run, here

from mate_cli.pipelines.export.export import export_run
from mate_cli.tokenization.layout import TOKEN_TYPES

FRAME = {"Region": ["North", "South", "East", "West"], "Sold": ["5", "7", "11", "2"], "Year": ["1", "2", "3", "4"]}
QUESTIONS = ["which region sold most?", "how much did the south sell?", "which year was the north in?"]
WORDS = {
    "cells": [],
    "tapas": ["model=tapas"],
    "answers": ["task=table_qa", "task.aggregation=weak"],
    "dot": ["model=dot", "model.keep=40", "model.pruner.size=tiny:1"],
    "statements": ["task=entailment"],
    "pieces": ["task=masked_lm", "encoding=masked"],
    "reader": ["task=span_reading", "encoding=cell"],
    "dot_reader": ["task=span_reading", "encoding=cell", "model=dot", "model.keep=40", "model.pruner.size=tiny:1"],
    "lexical": ["model=lexical", "encoding=lexical"],
    "features": ["model.lexical_features=true", "encoding.lexical_features=true"],
    "feature_statements": ["task=entailment", "model.lexical_features=true", "encoding.lexical_features=true"],
}


def export_tiny(name: str, folder: Path) -> Path:
    """Export a finished run of a type of task."""
    run = finished_run(folder / "run", WORDS[name])
    return export_run(str(run), str(folder / "exported"), here(folder / "cache"))


def model_inputs(batch) -> dict[str, torch.Tensor]:
    """Return a batch as inputs of transformers' models."""
    types = torch.stack([getattr(batch, name) for name in TOKEN_TYPES], -1)
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "token_type_ids": types}
