"""Processes that train together wait for the gradient of every trained weight."""

import pytest
from configurations import run_config
from hydra.utils import instantiate

from mate_cli.data.table_data_module import Batches
from mate_cli.pipelines.assembly import assemble


@pytest.mark.parametrize("experiment", ["quickstart_cells", "quickstart_reader"])
@pytest.mark.parametrize("model", ["mate", "tapas", "sat", "linformer", "etc"])
def test_every_trained_weight_has_a_gradient(experiment, model, tmp_path):
    words = [f"experiment={experiment}", f"model={model}", "trainer.limit_train=4", f"paths.cache={tmp_path}"]
    config = run_config(words)
    parts = assemble(config, instantiate(config.data))
    batch = Batches(parts.data.encodings("train", training=True), parts.data.loading)[[0, 1]]
    parts.task.loss(batch).backward()
    trained = {name: one for name, one in parts.task.named_parameters() if one.requires_grad}
    assert len(trained) > 20
    assert [name for name, one in trained.items() if one.grad is None] == []
