"""Errors that a user can fix. Each message names the fault, its location and a hint."""


class MateError(Exception):
    """Base class of errors that a user can fix, such as an invalid configuration.

    The command line prints the message in one line and exits with code 2. The message has the form
    `<where>: <problem>. <remedy>.`, as in `seed: must be an integer (got 1.5). Use a whole number.`

    Args:
        problem: description of the fault.
        where: location of the fault, such as a file, configuration key or command-line argument. None to omit it.
        remedy: hint for the user, such as the value to set. None to omit it.
    """

    exit_code = 2

    def __init__(self, problem: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.problem, self.where, self.remedy = problem, where, remedy
        # A file name can contain line breaks.
        location = where.replace("\n", " ") if where else where
        parts = [f"{location}: {problem}" if location else problem, remedy or ""]
        super().__init__(" ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part))


class ConfigError(MateError):
    """The configuration has an unknown key or option, or an invalid value.

    A value is invalid if its type is wrong or it is out of bounds.
    """


class DataError(MateError):
    """A dataset, a table or a file of examples is missing or invalid."""


class CheckpointError(MateError):
    """A checkpoint is missing or damaged, or its weights do not fit the network."""


class RunError(MateError):
    """A run folder is missing, contains an unfinished run, or cannot be resumed."""


class MissingRunError(RunError):
    """The finished run that should replace a stage (`stages.NAME.run`) does not exist.

    Args:
        problem: description of the fault.
        where: location of the fault. None to omit it.
        remedy: hint for the user. None to omit it.
        stage: name of the stage.
    """

    def __init__(self, problem: str, *, where: str | None = None, remedy: str | None = None, stage: str = "") -> None:
        super().__init__(problem, where=where, remedy=remedy)
        self.stage = stage


class TrustError(MateError):
    """A configuration file refers to a class or folder that is not trusted.

    `trust=NAME` on the command line permits it.
    """


class MissingDependencyError(MateError):
    """An optional Python package is required but not installed."""


class Interrupted(BaseException):
    """The user or the scheduler stopped the run.

    A checkpoint has been saved, so that the run can be resumed.
    """


def known_cause(error: BaseException) -> MateError | None:
    """Return the `MateError` that is an exception or its cause, or None without a `MateError`.

    Libraries such as Hydra wrap exceptions, so the whole chain of `__cause__` is searched.
    """
    cause: BaseException | None = error
    while cause and not isinstance(cause, MateError):
        cause = cause.__cause__
    return cause if isinstance(cause, MateError) else None
