"""Folders of finished runs without training, with random weights and invented metrics."""

from dataclasses import replace
from pathlib import Path

import torch
from configurations import run_config
from safetensors.torch import load_file

from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.runs.checkpoints import save_module
from mate_cli.runs.record import RunFolder, RunRecord

SMALL = ["data=sample", "model.size=tiny", "init.tokenizer=sample", "encoding.max_tokens=96", "hardware.threads=1"]


def here(cache: Path) -> RuntimeOverrides:
    """Return settings of this machine, with a separate cache that contains the outputs."""
    config = run_config(SMALL)
    paths = config.paths.model_copy(update={"cache": str(cache), "outputs": str(cache / "outputs")})
    return RuntimeOverrides(config.hardware, paths)


def finished_run(folder: Path, words: list[str], **record) -> Path:
    """Write the folder of a finished run without training.

    Noise is added to the weights, so that attention heads differ.

    Args:
        folder: run folder.
        words: overrides of the configuration.
        **record: values of the record that replace the defaults.
    """
    typed = [*SMALL, *words]
    config = run_config(typed).on_machine(here(folder / "cache").hardware, here(folder / "cache").paths)
    task = assemble(config, EmptyDataset()).task
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
    """Return the only run below a folder of outputs."""
    (folder,) = outputs.glob("train/*/*")
    return folder


def assert_same_weights(ours: Path, theirs: Path) -> None:
    """Compare the final and best weights of two runs, up to rounding errors of summation.

    The shared bias of all cell logits is excluded. It affects no probability, so its gradient is only rounding error,
    which Adam scales to the size of other updates.
    """
    for name in ("final", "best"):
        first, second = (load_file(path / f"checkpoints/{name}.safetensors") for path in (ours, theirs))
        for weights in (first, second):
            weights.pop("head.score.bias", None)
        torch.testing.assert_close(first, second, rtol=0, atol=2e-5)


def finish_jobs(monkeypatch, started, end=lambda overrides: {"status": "finished"}):
    """End the jobs of sweeps at once, with the entries of their records that `end` returns for their overrides."""

    def follow(folder, command, overrides, begun):
        assert command[command.index("run") + 1] == str(folder.path)
        started.append((command, list(overrides)))
        record = replace(folder.read_record(), **end(overrides))
        folder.write_record(record)
        return record, ""

    monkeypatch.setattr("mate_cli.cli.sweeps.jobs.follow_job", follow)
