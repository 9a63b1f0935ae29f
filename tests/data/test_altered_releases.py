"""Every file of every dataset, altered in every way: a check names one cause, where it is, and nothing breaks."""

import re

import pytest
from alterations import alterations, harmless
from small_releases import SAMPLES

from mate_cli.cli.app import main
from mate_cli.data.datasets.catalogue import find_info
from mate_cli.errors import DataError

ID_AS_NUMBER = re.compile(r"'(_id|qid|id)'\): a number for a text")


def found_problems(sample, root):
    """What a check says, as it is printed."""
    try:
        return [str(problem) for problem in sample.reader(root, **sample.options).check().problems]
    except DataError as error:
        return [str(error)]


def cases():
    return [(name, file) for name, sample in SAMPLES.items() for file in sample.files]


@pytest.mark.sampled(19)
@pytest.mark.parametrize(("name", "file"), cases())
def test_one_cause_is_named_with_its_file_and_record(name, file, tmp_path):
    sample = SAMPLES[name]
    root = sample.write(tmp_path / name)
    assert found_problems(sample, root) == []
    path, wrong = root / file, []
    before = path.read_bytes()
    for altered in alterations(file, sample.files[file], before):
        path.write_bytes(altered.content)
        try:
            problems = found_problems(sample, root)
        except Exception as error:
            wrong.append(f"{altered}: raised {error!r}")
            continue
        if not problems and ID_AS_NUMBER.search(str(altered)):
            continue  # a name may be a number
        if len(problems) != 1:
            wrong.append(f"{altered}: {len(problems)} problems: {problems[:3]}")
        elif not (file.rpartition("/")[2] in problems[0] and any(word in problems[0] for word in altered.names)):
            wrong.append(f"{altered}: not named in {problems[0]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("name", "file"), cases())
def test_ends_of_lines_and_a_byte_order_mark_are_no_damage(name, file, tmp_path):
    sample = SAMPLES[name]
    root = sample.write(tmp_path / name)
    before = (root / file).read_bytes()
    for altered in harmless(before):
        (root / file).write_bytes(altered.content)
        assert found_problems(sample, root) == [], altered.kind


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SAMPLES)
def test_the_command_ends_with_one_line(name, tmp_path, capsys):
    sample, file = SAMPLES[name], next(iter(SAMPLES[name].files))
    root = sample.write(tmp_path / name)
    words = [f"data.{key}={'null' if value is None else value}" for key, value in sample.options.items()]
    command = ["data", "check", f"data={name_of(sample)}", f"data.root={root}", *words]
    assert main(command) == 0
    capsys.readouterr()
    (root / file).write_bytes((root / file).read_bytes()[:-9] + b"\xff")
    assert main(command) == 2
    captured = capsys.readouterr()
    assert "1 problem. See above; report=FILE writes all" in captured.err
    assert len(captured.err.splitlines()) == 1
    assert captured.out.count(file.rpartition("/")[2]) == 1


def name_of(sample):
    info = find_info(sample.reader)
    assert info is not None
    return info.name
