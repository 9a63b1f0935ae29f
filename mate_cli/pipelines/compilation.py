"""Layers compiled by torch.compile: all of a layer but its attention, whose work depends on the data."""

from __future__ import annotations

from importlib.util import find_spec

from mate_cli.errors import ConfigError
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer, attend
from mate_cli.pipelines.machine import resolve_profile
from mate_cli.runs.configuration import Hardware

WHERE = "trainer.compile"


def check_compiler(hardware: Hardware) -> None:
    """Refuse a machine on which torch cannot compile.

    Raises:
        ConfigError: it lacks what compiles for its device.
    """
    accelerator = resolve_profile(hardware).accelerator
    if accelerator == "gpu" and find_spec("triton") is None:
        raise ConfigError("compiling for a GPU needs triton", where=WHERE, remedy="Install it: pip install triton")
    if accelerator == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler
        from torch._inductor.exc import InvalidCxxCompiler

        try:
            get_cpp_compiler()
        except InvalidCxxCompiler as error:
            remedy = "Install g++ 12 or newer, or name a compiler in CXX"
            raise ConfigError("no C++ compiler found", where=WHERE, remedy=remedy) from error
    if accelerator == "mps":
        raise ConfigError("is not supported on Apple GPUs", where=WHERE, remedy="Leave it out")


def compile_layers(network: TableEncoder) -> None:
    """Compile the layers of a network, for inputs of any length, once they are first used.

    Raises:
        ConfigError: they are of kinds whose work depends on the data.
    """
    layers = [layer for encoder in network.encoders.values() for layer in encoder.layers]
    if others := {type(layer).__name__ for layer in layers if type(layer) is not EncoderLayer}:
        problem = f"{', '.join(sorted(others))} cannot be compiled: its computation depends on the data"
        raise ConfigError(problem, where=WHERE, remedy="Leave it out")
    import torch

    apart = torch.compiler.disable(attend)  # type: ignore[no-untyped-call]  # its computation depends on the data
    for layer in layers:
        layer.attend = apart
        layer.compile(dynamic=True)
