"""Packed files of strangers: no more of them is unpacked than may be."""

import gzip
import io
import random
import tarfile
import tracemalloc
import zipfile

import pytest

from mate_cli.data.archive import LARGEST, read_file, read_members
from mate_cli.errors import ConfigError, DataError

ZEROS = bytes(30_000_000)


def tar(path):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in (("d/small", b"x"), ("d/large", ZEROS)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def zipped(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("d/small", b"x")
        archive.writestr("d/large", ZEROS)


def plain(path):
    path.mkdir()
    (path / "small").write_bytes(b"x")
    (path / "large").write_bytes(ZEROS)


@pytest.mark.parametrize(("name", "make"), [("d.tar.gz", tar), ("d.zip", zipped), ("d", plain)])
def test_a_member_that_is_too_large_is_refused_before_it_is_in_memory(tmp_path, monkeypatch, name, make):
    make(tmp_path / name)
    monkeypatch.setenv(LARGEST, "1")
    assert dict(read_members(tmp_path / name, "d", ["small"])) == {"small": b"x"}
    tracemalloc.start()
    with pytest.raises(
        DataError, match=f"large: it has more than 1 MB unpacked. To read it, set {LARGEST} to a larger number"
    ):
        dict(read_members(tmp_path / name, "d", ["large"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    monkeypatch.setenv(LARGEST, "30000000")  # more than any memory
    assert len(dict(read_members(tmp_path / name, "d", ["large"]))["large"]) == len(ZEROS)


def test_so_is_a_file(tmp_path, monkeypatch):
    (tmp_path / "a.gz").write_bytes(gzip.compress(ZEROS, 1))
    monkeypatch.setenv(LARGEST, "29")
    with pytest.raises(DataError, match="more than 29 MB unpacked"):
        read_file(tmp_path / "a.gz")
    monkeypatch.setenv(LARGEST, "lots")
    with pytest.raises(ConfigError, match="MATE_LARGEST_FILE: 'lots' is not a number of megabytes"):
        read_file(tmp_path / "a.gz")


@pytest.mark.parametrize(
    "name", ["d.zip", *(pytest.param(f"d.tar.{kind}", marks=pytest.mark.long) for kind in ("gz", "xz", "bz2"))]
)
def test_a_damaged_archive_is_refused_or_read(tmp_path, name):
    whole, chance = packed(tmp_path / name), random.Random(1)
    refused = read = 0
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 5])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        (tmp_path / name).write_bytes(
            content[: chance.choice([len(content), len(content), chance.randrange(len(content))])]
        )
        try:
            list(read_members(tmp_path / name, "d", ["a.json", "b.csv"]))
            read += 1
        except DataError as error:
            refused += "\n" not in str(error)
    assert refused > 30
    assert refused + read == 150


def packed(path):
    """An archive with a text of its own."""
    inside = {"d/a.json": b'{"x": 1}' * 20, "d/b.csv": b"a,b\n1,2\n" * 30}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in inside.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(path, f"w:{path.suffix[1:]}") as archive:
            for name, content in inside.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return path.read_bytes()
