"""`mate doctor` says what there is, and fails where something that every run needs is missing."""

from importlib.metadata import PackageNotFoundError, version

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands import doctor


@pytest.fixture
def quick(monkeypatch, tmp_path):
    """Look at nothing that takes seconds or a network."""
    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_packages, doctor.check_folders, doctor.check_services))
    monkeypatch.setattr(doctor, "TIMEOUT", 0.01)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)


def test_what_there_is_has_a_verdict(quick, capsys):
    assert main(["doctor"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert version("torch") in lines["torch"]
    assert "GB free" in lines["outputs"]
    assert "HF_HUB_OFFLINE is set" in lines["hub"]


def test_what_is_missing_has_a_remedy(quick, capsys, monkeypatch):
    def no_wandb(package):
        if package == "wandb":
            raise PackageNotFoundError
        return version(package)

    monkeypatch.setattr(doctor, "version", no_wandb)
    assert main(["doctor"]) == 1
    assert 'Type pip install "wandb"' in capsys.readouterr().out


def test_devices_and_kernels_are_looked_at():
    found = {one.name: one for look in (doctor.check_devices, doctor.check_kernels) for one in look()}
    assert {"CPU", "C++ kernels"} <= found.keys()
    assert all(one.verdict in doctor.STYLES for one in found.values())
