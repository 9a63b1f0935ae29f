"""Run folders as training leaves them, without the training: random weights, made-up metrics."""

from pathlib import Path

import torch
from configurations import composed
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config_dir import config_dir
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.checkpoint import NoDataset
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.weights import save_module

SMALL = ["data=sample", "model.size=tiny", "init.tokenizer=sample", "encoding.max_tokens=96", "hardware.threads=1"]


def hardware_and_paths(folder: Path) -> DictConfig:
    """What opening a checkpoint asks of the machine."""
    config = export_config("x", "y")
    config.paths.cache = str(folder)
    return OmegaConf.masked_copy(config, ["hardware", "paths"])


def export_config(run: Path | str, to: Path | str) -> DictConfig:
    """What `mate export run=... to=...` is run with."""
    config = composed(config_dir(), "export", ["run=x", "to=y", "hardware.threads=1"])
    config.run, config.to = str(run), str(to)
    return config


def finished_run(folder: Path, words: list[str], **record) -> Path:
    """A finished run of this configuration; weights are far from their start, so that no two heads agree."""
    typed = [*SMALL, *words]
    config = composed(config_dir(), "train", typed)
    config.paths.cache = str(folder / "cache")
    task = assemble(config, NoDataset()).task
    generator = torch.Generator().manual_seed(1)
    for parameter in task.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    run = RunFolder(folder)
    save_module(task, run.checkpoints / "best.safetensors")
    run.write_text("config.yaml", OmegaConf.to_yaml(config, resolve=True))
    chosen = dict(word.split("=") for word in words)
    names = {"dataset": "sample", "model": "mate", "task": "cell_selection", "attention": "auto", "init": "random"}
    names |= {name: chosen[name] for name in ("model", "task") if name in chosen}
    facts = {"metrics": {"dev/hits@1": 0.25, "test/hits@1": 0.5, "baseline/tfidf/test/hits@1": 0.125}}
    facts |= {"status": "finished", "data": {"train": 8, "failures": 1}, "total_steps": 2, "parameters": 1234}
    facts |= {"command": "train", "experiment": "made_up", "overrides": typed, "seed": 1}
    run.write_record(RunRecord(**names | facts | record))
    return folder
