"""Small TAPAS checkpoints with random weights, of transformers and google-research/tapas."""

import json
import re
import shutil

import torch
from bundles import write
from transformers import TapasConfig, TapasForQuestionAnswering, TapasForSequenceClassification

from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT

SIZE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
WTQ = {
    "num_aggregation_labels": 4,
    "use_answer_as_supervision": True,
    "temperature": 0.0352513,
    "cell_selection_preference": 0.207951,
    "huber_loss_delta": 0.121194,
    "answer_loss_cutoff": 0.664694,
}
RELEASES = {
    "tapas_wtq_wikisql_sqa_inter_masklm_tiny_reset": (TapasForQuestionAnswering, WTQ, True),
    "tapas_wtq_wikisql_sqa_masklm_tiny": (TapasForQuestionAnswering, WTQ, False),
    "tapas_sqa_inter_masklm_base_reset": (TapasForQuestionAnswering, {}, True),
    "tapas_tabfact_inter_masklm_large": (TapasForSequenceClassification, {}, False),
}
HEADS = {
    "aggregation_classifier.weight": "output_weights_agg",
    "aggregation_classifier.bias": "output_bias_agg",
    "classifier.weight": "output_weights_cls",
    "classifier.bias": "output_bias_cls",
}


def tensorflow_name(name):
    """Return the name in google-research/tapas of a weight of transformers."""
    if name in HEADS:
        return HEADS[name]
    inner = re.sub(r"\.layer\.(\d+)\.", r"/layer_\1/", name.removeprefix("tapas.")).replace(".", "/")
    inner = re.sub(r"(embeddings(_\d)?)/weight$", r"\1", inner)
    leaf = "gamma" if "LayerNorm" in inner else "kernel"
    inner = re.sub(r"/weight$", f"/{leaf}", inner)
    inner = re.sub(r"LayerNorm/bias$", "LayerNorm/beta", inner)
    return f"bert/{inner}" if name.startswith("tapas.") else inner


def release(root, name, theirs=None):
    """Write random weights as transformers and TensorFlow checkpoints.

    Returns:
        The folder of the TensorFlow checkpoint.
    """
    network, options, reset = RELEASES[name]
    torch.manual_seed(4)
    config = TapasConfig(
        vocab_size=2281,
        max_position_embeddings=80,
        hidden_act="gelu_new",
        reset_position_index_per_cell=reset,
        **SIZE,
        **options,
    )
    model = network(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    folder = root / name
    folder.mkdir(parents=True)
    turned = {tensorflow_name(key): value for key, value in model.state_dict().items() if "position_ids" not in key}
    values = {key: (value.T if key.endswith("/kernel") else value).numpy().copy() for key, value in turned.items()}
    write(folder, values)
    bert = {**SIZE, "hidden_act": "gelu", "max_position_embeddings": 80, "vocab_size": 2281}
    bert |= {"type_vocab_size": [3, 256, 256, 2, 256, 256, 10]}
    (folder / "bert_config.json").write_text(json.dumps(bert))
    shutil.copy(SAMPLE_ROOT / "vocab.txt", folder / "vocab.txt")
    if theirs is not None:
        model.save_pretrained(theirs)
        shutil.copy(SAMPLE_ROOT / "vocab.txt", theirs / "vocab.txt")
    return folder
