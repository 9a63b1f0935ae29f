"""A check of the model that is named, which needs neither torch nor readers of tables."""

from mate_cli.errors import ConfigError, RunError
from mate_cli.runs.folders import open_run


def check_model(run: str | None, checkpoint: str | None) -> None:
    """Refuse what cannot answer about any table or database.

    Raises:
        ConfigError: neither or both of a run and a checkpoint are given.
        RunError: the run is not there, or is a chain of stages.
    """
    if (run is None) == (checkpoint is None):
        problem = "needs a value" if run is None else "cannot be combined with checkpoint"
        raise ConfigError(problem, where="run", remedy="Write run=FOLDER or checkpoint=NAME")
    if run is not None and open_run(run).read_record().stages:
        raise RunError(
            "this run is a system of stages, made for tables with linked passages",
            where=run,
            remedy="Give questions with tables and passages: input=questions.jsonl (docs/how-to/train_on_your_data.md)",
        )
