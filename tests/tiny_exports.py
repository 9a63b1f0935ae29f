"""Small exports of each type of task, and their inputs."""

from pathlib import Path

import torch
from finished_runs import finished_run, here
from transformers import AutoModelForMaskedLM, AutoModelForQuestionAnswering, AutoModelForSequenceClassification
from transformers import AutoModelForTableQuestionAnswering as ForTables

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


CLASSES = {
    **dict.fromkeys(("cells", "answers", "dot"), ForTables),
    "statements": AutoModelForSequenceClassification,
    "pieces": AutoModelForMaskedLM,
    "reader": AutoModelForQuestionAnswering,
}
"""Class of transformers for each export with a head."""


def export_tiny(name: str, folder: Path) -> Path:
    """Export a finished run of a type of task."""
    run = finished_run(folder / "run", WORDS[name])
    return export_run(str(run), str(folder / "exported"), here(folder / "cache"))


def model_inputs(batch) -> dict[str, torch.Tensor]:
    """Return a batch as inputs of transformers' models."""
    types = torch.stack([getattr(batch, name) for name in TOKEN_TYPES], -1)
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "token_type_ids": types}


def labels_for(name: str, given: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return labels of three inputs for the class of an export."""
    types, ids = given["token_type_ids"], given["input_ids"]
    if name == "statements":
        return {"labels": torch.tensor([0, 1, -100])}
    if name == "pieces":
        return {"labels": torch.where(torch.arange(ids.shape[1]) % 3 == 0, ids, -100)}
    if name == "reader":
        first = ((types[..., 1] == 1) & (types[..., 2] == 1)).long().argmax(1)
        return {"start_positions": first, "end_positions": first}
    return {"labels": (types[..., 1] == 1).long()}
