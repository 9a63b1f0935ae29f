"""The encoder and the head of a task in one module, for `Mate`, the classes of transformers and training."""

from typing import Any

from torch import nn


class TaskModel:
    """A mixin of `nn.Module` for the encoder and the heads of a task, by their names in the task.

    The task and this module share one dictionary of modules. A head that is replaced, wrapped or frozen here is
    therefore the head that computes.
    """

    _modules: dict[str, nn.Module | None]

    def share_modules(self, task: nn.Module) -> None:
        """Take over the modules of a task."""
        self._modules.update(task._modules)
        task._modules = self._modules
        self._task = (task,)  # A tuple hides the task from `named_modules`, which would list its modules twice.

    @property
    def task(self) -> Any:  # noqa: ANN401 - a `lit_modules.base.TableTask`, which is of a higher layer
        """The task that computes losses and predictions."""
        return self._task[0]
