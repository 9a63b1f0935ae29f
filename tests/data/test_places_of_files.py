"""Releases as people keep them: files packed one by one, archives of all, folders in folders, lists and lines."""

import bz2
import gzip
import io
import json
import lzma
import shutil
import tarfile
import zipfile

import pytest
from small_releases import SAMPLES

from mate_cli.errors import DataError

NAMES = ("squad", "hybridqa", "wtq", "sqa", "tabfact", "wikisql", "spider", "musique", "reclor", "logiqa_1")


def files_of(root):
    return [path for path in root.rglob("*") if path.is_file()]


def zipped(path, name=None):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(name or path.name, path.read_bytes())
    return content.getvalue()


PACKERS = {
    ".gz": lambda path: gzip.compress(path.read_bytes()),
    ".xz": lambda path: lzma.compress(path.read_bytes()),
    ".bz2": lambda path: bz2.compress(path.read_bytes()),
}


def found(name, root):
    sample = SAMPLES[name]
    return [str(problem) for problem in sample.reader(root, **sample.options).check().problems]


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("name", NAMES)
def test_each_file_may_be_packed(name, suffix, tmp_path):
    root = SAMPLES[name].write(tmp_path / "root")
    for path in files_of(root):
        path.with_name(path.name + suffix).write_bytes(PACKERS[suffix](path))
        path.unlink()
    assert found(name, root) == []


@pytest.mark.parametrize("inside", ["", "outer/", "another name"])
@pytest.mark.parametrize("name", ["squad", "wtq", "spider"])
def test_each_file_of_questions_may_be_zipped(name, inside, tmp_path):
    root = SAMPLES[name].write(tmp_path / "root")
    path = root / next(iter(SAMPLES[name].files))
    kept = inside if " " in inside else f"{inside}{path.name}"
    path.with_name(f"{path.name}.zip").write_bytes(zipped(path, kept))
    path.unlink()
    assert found(name, root) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_may_lie_in_another_one(name, tmp_path):
    SAMPLES[name].write(tmp_path / "root" / "outer")
    assert found(name, tmp_path / "root") == []


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_deeper_or_above_is_named(name, tmp_path):
    place = SAMPLES[name].write(tmp_path / "root" / "a" / "b" / "release")
    file = place / next(iter(SAMPLES[name].files))
    for root in (tmp_path / "root", file):
        with pytest.raises(DataError) as refused:
            found(name, root)
        assert f"data.root={place}" in str(refused.value)


@pytest.mark.parametrize("kind", ["zip", "tar", "tgz"])
@pytest.mark.parametrize("name", NAMES)
def test_an_archive_of_all_is_read(name, kind, tmp_path):
    """Programs for Windows part the names of folders by backslashes."""
    root = SAMPLES[name].write(tmp_path / "root")
    archive = tmp_path / f"HybridQA any.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as target:
            for path in files_of(root):
                inside = zipfile.ZipInfo("outer")
                inside.filename = "outer\\" + str(path.relative_to(root)).replace("/", "\\")
                target.writestr(inside, path.read_bytes())
    else:
        with tarfile.open(archive, "w" if kind == "tar" else "w:gz") as target:
            target.add(root, "outer")
    shutil.rmtree(root)
    assert found(name, archive) == []


def of_lists():
    return [
        (name, file)
        for name, sample in SAMPLES.items()
        for file, spec in sample.files.items()
        if isinstance(spec.value, list) and isinstance(spec.value[0], dict)
    ]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "file"), of_lists())
def test_a_list_and_lines_are_the_same(name, file, tmp_path):
    root = SAMPLES[name].write(tmp_path / name)
    value = SAMPLES[name].files[file].value
    lines = "".join(json.dumps(one) + "\n" for one in value)
    for text in (lines, json.dumps(value), json.dumps(value, indent=2), f"\n{lines}\n"):
        (root / file).write_text(text)
        assert found(name, root) == [], text[:20]
