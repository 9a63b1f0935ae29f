"""Malicious configurations, which create a file if they are instantiated."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any

PARTS = ("encoding", "init", "model", "attention", "task", "data", "optimizer", "scheduler")


def attacks(mark: Path) -> list[dict[str, Any]]:
    """Return sections that create a file or load a pickle if they are instantiated."""
    touch, code = f"touch {mark}", f"open({str(mark)!r}, 'w')"
    return [
        {"_target_": "torch.utils.collect_env.run", "command": touch},
        {"_target_": "pandas.read_pickle", "filepath_or_buffer": str(mark)},
        {"_target_": "torch.load", "f": str(mark), "weights_only": False},
        {"_target_": "os.system", "command": touch},
        {"_target_": "subprocess.Popen", "args": touch, "shell": True},
        {"_target_": "builtins.eval", "_args_": [code]},
        {"_target_": "builtins.open", "file": str(mark), "mode": "w"},
        {"_target_": "pathlib.Path.touch", "self": {"_target_": "pathlib.Path", "_args_": [str(mark)]}},
        {"_target_": "hydra.utils.call", "config": {"_target_": "os.system", "command": touch}},
        {"_target_": "mate_cli.files.hub.Thread", "target": {"_target_": "os.system", "command": touch}},
        {"_target_": "mate_cli.runs.record.subprocess.run", "args": ["touch", str(mark)]},
        {"_target_": "mate_cli.runs.record.RunFolder", "path": str(mark)},
        {"_target_": "mate_cli.data.download.fetch", "url": "x"},
        {"_target_": "mate_cli.models.auto_encoder.load_file", "filename": str(mark)},
        {"_target_": "mate_cli.tokenization.vocabulary.Path", "_args_": [str(mark)]},
        {"_target_": "mate_cli.lit_modules.base.torch.load", "f": str(mark)},
        {"_target_": "torch.optim.sgd.torch.load", "f": str(mark)},
        {"_target_": "timeit.timeit", "stmt": code},
        {"_target_": ["os", "system"], "command": touch},
        {"_target_": {"_target_": "os.system", "command": touch}},
        {"_target_": "os.system", "_partial_": True, "command": touch},
        {"_target_": "shutil.rmtree", "path": str(mark.parent)},
        {"size": "${oc.create:{_target_:os.system,command:x}}"},
        {"size": "\\${oc.env:HOME}"},
    ]


def hostile(config: dict[str, Any], attack: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Insert an attack into a configuration: as section, value, list item or nested."""
    made = copy.deepcopy(config)
    part = chance.choice(PARTS)
    shape = chance.randrange(5)
    if shape == 0:
        made[part] = attack
        return made
    for _ in range(chance.randrange(4)):
        attack = chance.choice([{"inner": attack}, {"a": [1, attack]}, {"_args_": [attack]}, {"x": [[attack]]}])
    place = made[part]
    key = chance.choice([key for key in place if key != "_target_"] or ["more"]) if shape < 4 else "more"
    place[key] = [attack] if shape == 2 else attack
    return made
