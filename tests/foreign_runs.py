"""Complete run folders of an untrusted source, with one to three harmful changes.

A change names code to execute, a path outside the folder to write to, or a server, or damages the folder. `World`
contains files that must not change, and detects what a command has changed.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from hostile import PARTS, attacks
from hostile_runs import ODD, WAYS, precious_folder
from hydra._internal import target_policy

from mate_cli.files.safe_load import to_yaml

CODE = "import pathlib; pathlib.Path({mark!r}).touch()\n"
MODULES = ("helper", "yaml", "sitecustomize", "mate_cli", "hydra_plugins", "tensorboard", "wandb", "pandas")
LIGHTNING = "pytorch_lightning"
BLOCKED = sorted(
    {name for value in vars(target_policy).values() if isinstance(value, (frozenset, set, tuple)) for name in value}
)
"""Class and function names that Hydra itself rejects."""


class World:
    """Folders around an untrusted run, and a server that detects connections.

    The folders contain another run, files of the user and a home folder.

    Args:
        place: an empty folder.
        run: run that is copied twice: as the untrusted run and as the user's run.
    """

    def __init__(self, place: Path, run: Path) -> None:
        self.place, self.mark = place, place / "outside" / "mark"
        self.outside, self.here = precious_folder(place / "outside"), place / "here"
        self.other = self.here / "outputs" / "train" / "mine" / "first"
        self.run = self.here / "outputs" / "train" / "sample" / "foreign"
        for folder in (self.other, self.run):
            shutil.copytree(run, folder)
        (self.here / "notes.md").write_text("why")
        (self.here / "t.csv").write_text("region,sold\nnorth,1\n")
        (self.run / "notes.md").write_text("also the user's")
        (place / "home").mkdir()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        address = f"http://127.0.0.1:{self.server.getsockname()[1]}"
        self.environment = {"HOME": str(place / "home"), "WANDB_BASE_URL": address, "WANDB_API_KEY": "x" * 40}
        self.environment |= dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "MLFLOW_TRACKING_URI"), address)
        self.before: dict[Path, bytes | None] = {}

    def look(self) -> dict[Path, bytes | None]:
        """Return all paths except caches, with the contents of files and links."""
        found: dict[Path, bytes | None] = {}
        for root, folders, files in os.walk(self.place):
            folders[:] = [name for name in folders if Path(root, name) not in (self.place / "home",)]
            for name in (*folders, *files):
                path = Path(root, name)
                if path.is_symlink():
                    found[path] = os.fsencode(path.readlink())
                elif path.is_file() and path.stat().st_size < 1 << 24:
                    found[path] = path.read_bytes()
                else:
                    found[path] = None
        return found

    def harm(self, declared: tuple[str, ...]) -> list[str]:
        """Return descriptions of the forbidden effects of a command.

        Args:
            declared: relative paths of its results in the working directory, which it may write.
        """
        after, harms = self.look(), []
        allowed = [self.run, *(self.here / name for name in declared)]
        for path in self.before.keys() | after.keys():
            inside = any(path == place or place in path.parents for place in allowed)
            if path not in after:
                harms.append(f"deleted: {path}")
            elif path not in self.before and not inside:
                harms.append(f"made: {path}")
            elif path in self.before and after[path] != self.before[path] and (not inside or path.suffix == ".md"):
                harms.append(f"changed: {path}")
        try:
            self.server.accept()
            harms.append("went online")
        except BlockingIOError:
            pass
        return harms


Change = Callable[[World, dict[str, Any], random.Random], str]
"""Function that changes a configuration or folder, and returns a description of the change."""


def change_target(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Name a class that is not mate's, and list it as trusted in the file."""
    attack = copy.deepcopy(chance.choice(attacks(world.mark)))
    if chance.random() < 0.5:
        attack = {"_target_": chance.choice([*BLOCKED, "helper.Harm", "sympy.parsing.sympy_parser.parse_expr"])}
        attack |= chance.choice([{}, {"_args_": [f"open({str(world.mark)!r}, 'w')"]}, {"s": "1"}, {"_partial_": True}])
    parts = (*PARTS, "callbacks", "logger", "trainer", "system", "metrics", "init", "stages")
    part, name = chance.choice(parts), str(attack.get("_target_"))
    config["trust"] = config.setdefault("origin", {})["trust"] = [name.rpartition(".")[0], name.partition(".")[0]]
    place = config.get(part)
    if part in ("callbacks", "logger"):
        config[part] = {"x": attack}
    elif part == "trainer":
        place["options"] = {chance.choice(["profiler", "plugins"]): attack}
    elif isinstance(place, dict) and chance.random() < 0.5:
        place[chance.choice([*place, "metrics"])] = chance.choice([attack, [attack], {"a": attack}])
    else:
        config[part] = attack
    return f"{part}: {name}"


def change_stage(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Initialize from a finished run in the folder that names code and is listed as trusted."""
    inner, module = world.run / "first", chance.choice(["sympy.parsing.sympy_parser", "helper", "builtins"])
    inner.mkdir(exist_ok=True)
    made = copy.deepcopy(config)
    part = chance.choice(PARTS)
    made[part] = {"_target_": f"{module}.{chance.choice(['parse_expr', 'Harm', 'eval'])}"}
    made[part] |= {"s": "1", "_args_": [f"open({str(world.mark)!r}, 'w')"]}
    (inner / "config.yaml").write_text(to_yaml(made))
    shutil.copy(world.other / "record.json", inner)
    name = chance.choice(["first", "../../mine/first", str(world.other)])
    run = chance.choice([str(inner), str(world.other)])
    origin = {**config["origin"], "shared": chance.random() < 0.5, "trust": [module]}
    origin["experiment"] = chance.choice(["sample", "../../..", str(world.outside), "mine"])
    stage = {"after": "weights", "run": run, "origin": origin}
    if chance.random() < 0.5:
        stage = {**{key: value for key, value in config.items() if key != "stages"}, **stage}
        del stage["run"]
    config["stages"] = {name: stage}
    return f"stage {name}: {module} of {run}"


def change_place(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Configure a class to write outside the folder."""
    folder = chance.choice([world.outside, world.other / "checkpoints", world.other, world.here])
    kinds = [str(folder), os.path.relpath(folder, world.here), f"{world.run}/../../mine/first", "~", "new"]
    place = chance.choice([*kinds, f"{folder}/new", "../../mine/first"])
    saving = {"every_n_train_steps": 1, "enable_version_counter": False, "save_top_k": -1}
    name = chance.choice(["last", "best", "../../../mine/first/checkpoints/last", str(world.outside / "precious")])
    at = {"_target_": f"{LIGHTNING}.callbacks.ModelCheckpoint", "dirpath": place, "filename": name, **saving}
    profiler = chance.choice(["SimpleProfiler", "AdvancedProfiler", "PyTorchProfiler"])
    nodes = [
        ("callbacks", {"x": at}),
        ("callbacks", {"x": {**at, "dirpath": None}}),
        ("callbacks", {"x": {"_target_": at["_target_"], "_args_": [place, name], **saving}}),
        ("callbacks", {"x": {"_target_": f"{LIGHTNING}.callbacks.OnExceptionCheckpoint", "dirpath": place}}),
        ("callbacks", {"x": {"_target_": f"{LIGHTNING}.callbacks.SpikeDetection", "exclude_batches_path": place}}),
        ("callbacks", {"x": {"_target_": f"{LIGHTNING}.callbacks.SpikeDetection", "atol": -1e9, "rtol": -1e9}}),
        ("logger", {"x": {"_target_": f"{LIGHTNING}.loggers.CSVLogger", "save_dir": place}}),
        ("logger", {"x": {"_target_": f"{LIGHTNING}.loggers.CSVLogger", "name": place}}),
        ("logger", {"x": {"_target_": f"{LIGHTNING}.loggers.CSVLogger", "version": place, "name": "a"}}),
        ("trainer", {"profiler": {"_target_": f"{LIGHTNING}.profilers.{profiler}", "dirpath": place}}),
        ("trainer", {"profiler": {"_target_": f"{LIGHTNING}.profilers.{profiler}", "filename": name}}),
        ("trainer", {"default_root_dir": place}),
        ("paths", {chance.choice(["cache", "outputs", "data", "shared"]): place}),
        ("data", {"root": place, "download": "auto", "cache": place}),
        ("data", {"_target_": "mate_cli.data.datasets.wtq.reader.WikiTableQuestions", "root": place}),
    ]
    part, node = chance.choice(nodes)
    config[part] = {**config[part], **({"options": node} if part == "trainer" else node)}
    if part == "data" and "cache" not in node:
        config[part] = {**node, "name": "wtq", "download": "auto"}
    return f"{part}: {node}"


def change_server(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Configure an upload of metrics or weights to a server."""
    address = world.environment["WANDB_BASE_URL"]
    nodes = [
        {"_target_": "mate_cli.runs.loggers.wandb_logger", "mode": chance.choice(["online", "shared", "run"])},
        {"_target_": f"{LIGHTNING}.loggers.WandbLogger", "offline": chance.random() < 0.5},
        {"_target_": f"{LIGHTNING}.loggers.MLFlowLogger", "tracking_uri": address},
        {"_target_": f"{LIGHTNING}.loggers.MLFlowLogger"},
        {"_target_": f"{LIGHTNING}.loggers.CometLogger", "api_key": "x"},
        {"_target_": f"{LIGHTNING}.loggers.LitLogger", "root_dir": "."},
        {"_target_": f"{LIGHTNING}.loggers.CSVLogger", "save_dir": f"{address}/x"},
    ]
    if chance.random() < 0.2:
        (world.run / "wandb").mkdir(exist_ok=True)
        (world.run / "wandb" / "settings").write_text(f"[default]\nmode = online\nbase_url = {address}\n")
    config["logger"] = {chance.choice(["wandb", "x"]): chance.choice(nodes)}
    return f"logger: {config['logger']}"


def change_value(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Set a value of another type."""
    place, key, keys = config, chance.choice([*config]), []
    while True:
        keys.append(key)
        if not isinstance(place[key], dict) or not place[key] or chance.random() < 0.3:
            break
        place, key = place[key], chance.choice([*place[key]])
    odd = [value for value in ODD if len(str(value)) < 100_000 and value != 10**400]
    place[key] = chance.choice([*odd, {"a": 1}, [1], "x", -1, 0, {"_target_": ["os", "system"]}])
    return f"{'.'.join(keys)}={str(place[key])[:40]}"


def change_record(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Name folders outside the run in its record."""
    file = world.run / "record.json"
    odd = [{"first": str(world.other)}, {"../../mine/first": str(world.outside)}, "../../../..", str(world.outside)]
    key, value = chance.choice(["stages", "pretraining", "experiment", "status", "host", "started"]), chance.choice(odd)
    if file.is_file() and not file.is_symlink():
        record = json.loads((world.other / "record.json").read_text())
        file.write_text(json.dumps(record | {"status": "interrupted", key: value}))
    return f"record: {key}={value}"


def change_file(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Remove, truncate, empty or replace a file, or replace it by a link or pipe."""
    files = sorted(path for path in world.run.rglob("*") if path.is_file() and path.name not in ("notes.md",))
    path, how = chance.choice(files), chance.choice(["remove", "cut", "empty", "other", "way", "way"])
    if path.name == "config.yaml" and how in ("remove", "cut", "empty", "other"):
        how = "way"
    content = path.read_bytes()
    path.unlink()
    if how == "way":
        way = chance.choice([way for way in WAYS if way.__name__ not in ("_huge", "_many")])
        way(path, world.outside)
        return f"{path.name}: {way.__name__}"
    if how != "remove":
        path.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "other": b"\xff{]\n" * 9}[how])
    return f"{path.name}: {how}"


def add_module(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Add a Python module where it could be imported."""
    name, code = chance.choice(MODULES), CODE.format(mark=str(world.mark))
    file = chance.choice([world.run / f"{name}.py", world.run / name / "__init__.py"])
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"{code}class Harm: pass\n")
    if chance.random() < 0.5:
        config["hardware"]["devices"] = 2
    return f"module {name}, {config['hardware']['devices']} devices"


def add_link(world: World, config: dict[str, Any], chance: random.Random) -> str:
    """Add a link at a path to which a class would write."""
    name = chance.choice(["csv", "fit-profile.txt", "x", "wandb", "evaluation", "analysis", "checkpoints/x", "first"])
    path = world.run / name
    if path.exists():
        return f"link {name}, where something lies"
    if name == "csv" and chance.random() < 0.5:
        (path / "x").mkdir(parents=True)
        (path / "x" / "hparams.yaml").hardlink_to(world.outside / "precious")
    else:
        path.symlink_to(world.outside / ("precious" if "." in name else ""))
    config["logger"] = {"csv": {"_target_": f"{LIGHTNING}.loggers.CSVLogger", "name": "csv", "version": "x"}}
    config["trainer"]["options"] = {"profiler": "simple"}
    return f"link {name}"


CHANGES: tuple[Change, ...] = (
    *(change_target, change_target, change_stage, change_place, change_place, change_server),
    *(change_value, change_record, change_file, change_file, add_module, add_link),
)


def make_foreign(world: World, seed: int) -> str:
    """Apply one to three changes to the untrusted run, and return their description."""
    chance = random.Random(seed)
    config = yaml.safe_load((world.run / "config.yaml").read_text())
    if chance.random() < 0.5:
        (world.run / "checkpoints" / "last.ckpt").unlink()
    told = [chance.choice(CHANGES)(world, config, chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    file = world.run / "config.yaml"
    if not file.is_symlink() and file.is_file():
        file.write_text(yaml.safe_dump(config, sort_keys=False))
    return "; ".join(told)
