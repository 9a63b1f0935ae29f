"""Profiles of hardware on machines that have other things, with GPUs pretended."""

import pytest
import torch
from configurations import run_config
from finished_runs import SMALL
from pretended_gpu import pretended_gpu

from mate_cli.errors import ConfigError
from mate_cli.pipelines.assembly import configure_process
from mate_cli.pipelines.machine import get_device, resolve_hardware, resolve_profile
from mate_cli.pipelines.run import peak_memory_mb
from mate_cli.pipelines.trainer import devices_of


def profile(*words):
    return run_config([*SMALL, *words]).hardware


@pytest.mark.parametrize("card", ["A100", "H100", "RTX 4090"])
def test_auto_takes_bfloat16_where_the_card_has_it(card):
    with pretended_gpu(card):
        found = resolve_profile(profile("hardware=auto"))
        assert (found.accelerator, found.precision, found.workers) == ("gpu", "bf16-mixed", 2)
        assert resolve_profile(profile("hardware=gpu_bf16")) == profile("hardware=gpu_bf16")
        assert get_device(found) == torch.device("cuda", 0)


@pytest.mark.parametrize("card", ["T4", "V100"])
def test_older_cards_get_half_precision_or_a_remedy(card):
    with pretended_gpu(card):
        assert resolve_profile(profile("hardware=auto")).precision == "16-mixed"
        for words in (["hardware=gpu_bf16"], ["hardware=gpu", "hardware.precision=bf16-mixed"], ["hardware=ddp"]):
            with pytest.raises(ConfigError, match=rf"hardware.precision: {card} has no bfloat16.*16-mixed"):
                devices_of(profile(*words))
        assert resolve_profile(profile("hardware=gpu_bf16"), moved=True).precision == "16-mixed"  # trained elsewhere
        typed = resolve_profile(profile("hardware=gpu_bf16", "hardware.precision=16-mixed"))
        assert typed.precision == "16-mixed"


def test_without_a_card_auto_is_the_cpu():
    found = resolve_profile(profile("hardware=auto"))
    assert (found.accelerator, found.precision, found.workers) == ("cpu", "32-true", 0)
    assert get_device(profile("hardware=auto")) == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"hardware=cpu"):
        resolve_profile(profile("hardware=gpu"))
    assert resolve_profile(profile("hardware.precision=16-mixed"), moved=True).precision == "32-true"


def test_on_a_cpu_auto_computes_what_the_profile_of_cpus_does():
    auto, cpu = (resolve_profile(profile(f"hardware={name}")) for name in ("auto", "cpu"))
    assert auto.model_copy(update={"tf32": cpu.tf32}) == cpu
    assert resolve_hardware(run_config(SMALL)).hardware == auto  # it is the default, and a run keeps what it found


def test_tf32_is_a_key_of_the_profile():
    for words, expected in ((["hardware=gpu"], True), (["hardware=gpu", "hardware.tf32=false"], False), ([], False)):
        configure_process(profile(*words))
        assert torch.backends.cuda.matmul.allow_tf32 is expected
    configure_process(profile("hardware.tf32=true"))
    assert torch.get_float32_matmul_precision() == "highest"  # a CPU stays exact


@pytest.mark.parametrize("name", ["gpu", "gpu_bf16", "ddp", "slurm"])
def test_cards_have_loading_processes(name):
    hardware = profile(f"hardware={name}")
    assert hardware.workers >= 2
    assert hardware.tf32


def test_the_memory_of_a_cpu_run_is_its_own():
    with pretended_gpu():
        assert peak_memory_mb() > 100


def test_a_processor_without_bfloat16_refuses_it(monkeypatch):
    monkeypatch.setattr("mate_cli.pipelines.machine.has_bfloat16", lambda: False)
    with pytest.raises(ConfigError, match=r"hardware\.precision: this processor has no native bfloat16.*hardware=cpu"):
        resolve_profile(profile("hardware=cpu_bf16"))
    assert resolve_profile(profile("hardware=cpu_bf16"), moved=True).precision == "32-true"
    monkeypatch.setattr("mate_cli.pipelines.machine.has_bfloat16", lambda: True)
    assert resolve_profile(profile("hardware=cpu_bf16")).precision == "bf16-mixed"
    assert resolve_profile(profile("hardware=auto")).precision == "32-true"  # until it is measured to be faster


def test_a_mac_computes_on_its_card_and_others_refuse_it(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"hardware=cpu"):
        resolve_profile(profile("hardware=mps"))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    found = resolve_profile(profile("hardware=mps"))
    assert (found.accelerator, found.precision, found.workers) == ("mps", "32-true", 0)
    assert resolve_profile(profile("hardware=auto")).accelerator == "mps"
    assert get_device(profile("hardware=mps")) == torch.device("mps")
