"""Errors that a user can mend: what is wrong, where, and the remedy."""


class MateError(Exception):
    """A problem that its reader can mend; the command line prints it in one line and exits with code 2.

    Args:
        problem: what is wrong, naming the thing.
        where: the file, key or place that is to blame.
        remedy: what to type or change.
    """

    exit_code = 2

    def __init__(self, problem: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.problem, self.where, self.remedy = problem, where, remedy
        place = where.replace("\n", " ") if where else where  # names of files can have several lines
        parts = [f"{place}: {problem}" if place else problem, remedy or ""]
        super().__init__(" ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part))


class ConfigError(MateError):
    """A key, choice, type or value in the configuration is wrong."""


class DataError(MateError):
    """A dataset, table or file of examples is missing or damaged."""


class CheckpointError(MateError):
    """Weights are missing, damaged, or belong to another network."""


class RunError(MateError):
    """A run folder is missing, unfinished, or cannot be continued."""


class MissingRunError(RunError):
    """No finished run is there to stand in for a stage.

    Args:
        stage: its name.
    """

    def __init__(self, problem: str, *, where: str | None = None, remedy: str | None = None, stage: str = "") -> None:
        super().__init__(problem, where=where, remedy=remedy)
        self.stage = stage


class TrustError(MateError):
    """Content of a file that would build something that is not known to be harmless."""


class MissingDependencyError(MateError):
    """An optional package is needed."""


class Interrupted(BaseException):
    """The user or the scheduler asked the run to stop; its state is saved."""


def known_cause(error: BaseException) -> MateError | None:
    """Return the error of ours that this is, or that a library has wrapped into its own, if any."""
    cause: BaseException | None = error
    while cause and not isinstance(cause, MateError):
        cause = cause.__cause__
    return cause if isinstance(cause, MateError) else None
