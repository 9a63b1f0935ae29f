"""Start a measurement of this folder by `python tools/benchmarks/depth.py draws=4`: its fields are the keys."""

import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from pydantic import TypeAdapter, ValidationError

from mate_cli.benchmark.measure import measure
from mate_cli.cli.app import TERMINATION_SIGNALS, handle_signals, interrupt
from mate_cli.errors import MateError


def run(kind: type[Iterable[Any]]) -> Path:
    """Measure what the words of the command line say, and leave a record in a new folder of outputs/benchmark.

    Raises:
        SystemExit: a word is no field, has no such value, or names data that are not there.
    """
    given: Any = OmegaConf.to_container(OmegaConf.from_cli())
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # all are dataclasses
    for name in given:
        if name not in names:
            sys.exit(f"{name} is no key; choose from {', '.join(names)}")
    try:
        TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        problem = error.errors()[0]
        sys.exit(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    config = {"benchmark": {"_target_": f"{kind.__module__}.{kind.__qualname__}", **given}}
    name, words, seed = Path(sys.argv[0]).stem, sys.argv[1:], given.get("seed", 1)
    try:
        with handle_signals(TERMINATION_SIGNALS, interrupt):
            return measure(name, config, Path("outputs"), seed=seed, overrides=words).path
    except MateError as error:
        sys.exit(str(error))
