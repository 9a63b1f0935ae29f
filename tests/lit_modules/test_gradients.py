"""Processes that train together wait for the gradient of every trained weight."""

import pytest
from configurations import run_config
from hydra.utils import instantiate

from mate_cli.data.loading.table_data_module import Batches
from mate_cli.pipelines.assembly import assemble

MODELS = ["mate", "tapas", "sat", "linformer", "etc"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("experiment", "model"),
    [
        *(("quickstart_cells", model) for model in MODELS),
        ("quickstart_reader", "mate"),
        *(pytest.param("quickstart_reader", model, marks=pytest.mark.long) for model in MODELS[1:]),
    ],
)
def test_every_trained_weight_has_a_gradient(experiment, model, tmp_path):
    words = [f"experiment={experiment}", f"model={model}", "trainer.limit_train=4", f"paths.cache={tmp_path}"]
    config = run_config(words)
    parts = assemble(config, instantiate(config.data))
    batch = Batches(parts.data.encodings("train", training=True), parts.data.loading)[[0, 1]]
    parts.task.loss(batch).backward()
    trained = {name: one for name, one in parts.task.named_parameters() if one.requires_grad}
    assert len(trained) > 20
    assert [name for name, one in trained.items() if one.grad is None] == []
