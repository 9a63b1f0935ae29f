"""Which process of several this is, and whether there are as many as the configuration says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from mate_cli.errors import ConfigError
from mate_cli.runs import ranks
from mate_cli.runs.launch import check_devices, check_started, ending, started, together

SLURM = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
}
TORCHRUN = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "a",
    "MASTER_PORT": "1",
    "GROUP_RANK": "1",
}


def hardware(**changes):
    profile = {"accelerator": "cpu", "devices": 1, "nodes": 1, "strategy": "auto", "precision": "32-true", "threads": 1}
    return OmegaConf.create({**profile, **changes})


def test_slurm_says_which_process_this_is():
    place = started(SLURM)
    assert (place["RANK"], place["LOCAL_RANK"], place["NODE_RANK"], place["WORLD_SIZE"]) == ("5", "1", "1", "8")
    assert place["MASTER_ADDR"] == "gpu07"


def test_every_step_of_a_job_meets_at_a_place_of_its_own():
    others = [{**SLURM, "SLURM_PROCID": "0"}, {**SLURM, "SLURM_STEP_ID": "3"}, {**SLURM, "SLURM_JOB_ID": "4712"}]
    ports = [started(one)["MASTER_PORT"] for one in (SLURM, *others)]
    assert ports[0] == ports[1]
    assert len(set(ports)) == 3
    assert all(1024 < int(port) < 65536 for port in ports)


def test_torchrun_comes_before_slurm():
    place = started({**SLURM, **TORCHRUN})
    assert (place["RANK"], place["NODE_RANK"]) == ("3", "1")


@pytest.mark.parametrize(
    "environment", [{}, {"SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"}, {**SLURM, "SLURM_STEP_NUM_TASKS": "1"}]
)
def test_nobody_has_started_processes(environment):
    """Also in a batch script without srun, and in a step of one process, which may start others on its machine."""
    assert started(environment) == {}


def test_processes_and_configuration_must_agree():
    check_started(8, started(SLURM), nodes=2)
    with pytest.raises(
        ConfigError, match=r"8 processes were started, but hardware.devices x hardware.nodes is 2.*srun"
    ):
        check_started(2, started(SLURM), nodes=1)
    with pytest.raises(ConfigError, match=r"nobody has started processes on 2 nodes\. Put srun in front"):
        check_started(2, {}, nodes=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"accelerator": "gpu", "devices": 64}, "hardware.devices: torch sees .* GPUs here, fewer than 64"),
        ({"accelerator": "mps", "devices": 2}, "hardware.devices: there is one device of this kind"),
        ({"strategy": "fsdp", "precision": "16-mixed"}, "hardware.precision: fsdp has no scaling of losses"),
    ],
)
def test_what_a_machine_cannot_do_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        check_devices(hardware(**changes))


def test_one_process_is_alone_and_speaks_to_nobody():
    with together(hardware(nodes=1)):
        assert (ranks.world_size(), ranks.rank(), ranks.devices(), ranks.is_first()) == (1, 0, 1, True)
        assert ranks.from_first(lambda: "chosen") == ranks.first_then_all(lambda: "chosen") == "chosen"
        assert ranks.total([1.5, 2]) == [1.5, 2]
        assert ranks.anywhere(True)
        error = RuntimeError("ours")
        assert ranks.cause(error) is error


def test_words_for_the_end_of_a_process():
    assert ending(-9) == "was killed by SIGKILL"
    assert ending(1) == "ended with exit code 1"


NEVER_JOINED = """
import sys
from omegaconf import OmegaConf
from mate_cli.runs import launch

sys.argv, launch.HANGING = ["/no/such/file.py"], 0.5
with launch.together(OmegaConf.create({PROFILE})):
    print("joined")
"""


@pytest.mark.long
def test_a_process_that_never_joins_is_not_waited_for():
    profile = str(OmegaConf.to_container(hardware(devices=2)))
    command = [sys.executable, "-c", NEVER_JOINED.replace("{PROFILE}", profile)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "error: process 1 of 2 ended with exit code 2. Go on with resume=last." in done.stderr
    assert "joined" not in done.stdout
