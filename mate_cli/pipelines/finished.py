"""What can be done with a finished run: score it again, answer new questions."""

from __future__ import annotations

import json
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from mate_cli.errors import RunError
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.chain import Trained, find_chain, save_answers
from mate_cli.pipelines.evaluation import evaluate, judge, predict, save_result
from mate_cli.pipelines.summary import results_table
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample


def evaluate_run(cfg: DictConfig) -> dict[str, float]:
    """Re-compute the metrics of a finished run on a split, with its best weights.

    Args:
        cfg: `run`, `split`, `whole` (also what `trainer.limit_dev` left out), and the `hardware` to use.

    Returns:
        Metrics named <split>/<metric>, as in the run's record.

    Raises:
        RunError: there is no finished run.
        DataError: the split is missing.
    """
    folder = open_run(cfg.run)
    record = folder.read_record()
    if record.stages:
        metrics = _evaluate_chain(folder, cfg)
    else:
        config = run_config(folder, cfg)
        result = evaluate(load_best(config, folder), config, cfg.split)
        save_result(folder, cfg.split, result)
        metrics = result.metrics
    named = {f"{cfg.split}/{name}": value for name, value in metrics.items()}
    Console(highlight=False).print(results_table(named, f"{record.experiment}, best weights, {folder.path}"))
    folder.write_json(f"evaluation/{cfg.split}.json", named)
    return named


def predict_file(cfg: DictConfig) -> Path:
    """Answer the questions of a file, whether or not their answers are known.

    Args:
        cfg: `run`, `input` (a list of {question_id, question, table_id}), `output`, and the `hardware` to use.

    Returns:
        The file of predictions, [{question_id, pred}].

    Raises:
        RunError: there is no finished run.
        DataError: the file or one of its tables is missing or damaged.
    """
    folder = open_run(cfg.run)
    record = folder.read_record()
    if record.stages:
        stages = _stages(folder, cfg)
        examples = _questions(next(iter(stages.values())).parts, cfg.input)
        answers = find_chain(record.task).answer(stages, examples, "questions").texts
    else:
        parts, config = _single(folder, cfg)
        examples = _questions(parts, cfg.input)
        loader = parts.data.loader_of(examples, "questions")
        answers = judge(parts.task, examples, predict(parts.task, loader, config)).answers
    rows = [{"question_id": example.example_id, "pred": answers.get(example.example_id, "")} for example in examples]
    output = Path(cfg.output)
    RunFolder(output.parent).write_text(output.name, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    Console(highlight=False).print(f"{len(rows)} predictions: {output}", soft_wrap=True)
    return output


def run_config(folder: RunFolder, cfg: DictConfig) -> DictConfig:
    """A run's own configuration, on the hardware and paths of now."""
    config = OmegaConf.load(folder.path / "config.yaml")
    assert isinstance(config, DictConfig)
    config.hardware = {**config.hardware, **{key: cfg.hardware[key] for key in ("accelerator", "workers", "threads")}}
    config.paths = cfg.paths
    if cfg.get("data_root"):
        config.data["datasets" if "datasets" in config.data else "root"] = cfg.data_root
    if cfg.get("whole"):
        config.trainer.limit_dev = None
    return config


def _single(folder: RunFolder, cfg: DictConfig) -> tuple[Parts, DictConfig]:
    config = run_config(folder, cfg)
    return load_best(config, folder), config


def _stages(folder: RunFolder, cfg: DictConfig) -> dict[str, Trained]:
    """The stages of a chain, found also right after the whole run was moved."""
    found = {}
    for name, path in folder.read_record().stages.items():
        below = folder.path / name
        found[name] = Trained(*_single(open_run(str(below) if below.exists() else path), cfg))
    return found


def _questions(parts: Parts, path: str) -> list[TableExample]:
    read = getattr(parts.data.dataset, "examples_from_file", None)
    if read is None:
        raise RunError("this dataset cannot read questions from a file", remedy="Use a run trained on data=hybridqa")
    return list(read(path))


def _evaluate_chain(folder: RunFolder, cfg: DictConfig) -> dict[str, float]:
    stages = _stages(folder, cfg)
    examples = next(iter(stages.values())).parts.data.questions(cfg.split)
    answered = find_chain(folder.read_record().task).answer(stages, examples, cfg.split)
    save_answers(folder, cfg.split, examples, answered)
    return answered.score(examples)
