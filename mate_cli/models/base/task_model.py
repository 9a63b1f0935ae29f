"""Mixin with the encoder and the heads of a task, for all models of a task.

Hugging Face models, loaded models such as `Mate`, and `LitTask` use it.
"""

from typing import Any

from torch import nn


class TaskModel:
    """A mixin of `nn.Module` with the encoder and the heads of a task as submodules.

    The task and this module share one dictionary of submodules. Replacing, wrapping or freezing a head of this module
    therefore affects the task too.
    """

    _modules: dict[str, nn.Module | None]

    def share_modules(self, task: nn.Module) -> None:
        """Share one dictionary of submodules with a task, so that later changes affect both objects."""
        self._modules.update(task._modules)
        task._modules = self._modules
        # A tuple hides the task from `named_modules`, which would list each submodule under two names.
        self._task = (task,)

    @property
    def task(self) -> Any:  # noqa: ANN401 - a `lit_modules.base.TableTask`, in a higher layer of the package
        """The task of this model, which computes losses and predictions."""
        return self._task[0]
