"""Run folders as training leaves them, without the training: random weights, made-up metrics."""

from pathlib import Path

import torch
from configurations import run_config
from safetensors.torch import load_file

from mate_cli.data.loading.table_data_module import NoDataset
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.runs.checkpoints import save_module
from mate_cli.runs.record import RunFolder, RunRecord

SMALL = ["data=sample", "model.size=tiny", "init.tokenizer=sample", "encoding.max_tokens=96", "hardware.threads=1"]


def here(cache: Path) -> RuntimeOverrides:
    """This machine, with a cache of its own, and outputs in it."""
    config = run_config(SMALL)
    paths = config.paths.model_copy(update={"cache": str(cache), "outputs": str(cache / "outputs")})
    return RuntimeOverrides(config.hardware, paths)


def finished_run(folder: Path, words: list[str], **record) -> Path:
    """A finished run of this configuration; weights are far from their start, so that no two heads agree."""
    typed = [*SMALL, *words]
    config = run_config(typed).on_machine(here(folder / "cache").hardware, here(folder / "cache").paths)
    task = assemble(config, NoDataset()).task
    generator = torch.Generator().manual_seed(1)
    for parameter in task.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    run = RunFolder(folder)
    save_module(task, run.checkpoints / "best.safetensors")
    run.write_text("config.yaml", to_yaml(config.model_dump()))
    chosen = dict(word.split("=") for word in words)
    names = {"dataset": "sample", "model": "mate", "task": "cell_selection", "attention": "auto", "init": "random"}
    names |= {name: chosen[name] for name in ("model", "task") if name in chosen}
    facts = {"metrics": {"dev/hits@1": 0.25, "test/hits@1": 0.5, "baseline/tfidf/test/hits@1": 0.125}}
    facts |= {"status": "finished", "data": {"train": 8, "failures": 1}, "total_steps": 2, "parameters": 1234}
    facts |= {"command": "train", "experiment": "made_up", "overrides": typed, "seed": 1}
    run.write_record(RunRecord(**names | facts | record))
    return folder


def only_run(outputs: Path) -> Path:
    """The one run below a folder of outputs."""
    (folder,) = outputs.glob("train/*/*")
    return folder


def assert_same_weights(ours: Path, theirs: Path) -> None:
    """Compare the weights that two run folders end with, as far as processes that add in another order allow.

    The bias of a score that all cells share is left out: it changes no probability, so its gradient is rounding alone,
    which Adam makes as large as any other.
    """
    for name in ("final", "best"):
        first, second = (load_file(path / f"checkpoints/{name}.safetensors") for path in (ours, theirs))
        for weights in (first, second):
            weights.pop("head.score.bias", None)
        torch.testing.assert_close(first, second, rtol=0, atol=2e-5)
