"""Records of TensorFlow with interactions of TAPAS in them: their tables are read, and damage is named."""

import pytest

from mate_cli.data.corpora.interactions import read_interactions
from mate_cli.errors import DataError


def field(number, value):
    """A field of a protocol buffer in its binary form; lengths are below 128."""
    return bytes([number * 8 + 2, len(value)]) + value if isinstance(value, bytes) else bytes([number * 8, value])


def cells(number, *texts):
    return b"".join(field(number, field(1, text.encode()) + field(2, field(1, b""))) for text in texts)


TABLE = (
    cells(1, "city", "people")
    + field(2, cells(1, "Oslo", "7"))
    + field(2, cells(1, "short"))
    + field(3, b"t1")
    + field(4, "Städte".encode())
    + field(9, b"heading")
)
QUESTION = field(1, b"q0") + field(2, b"how many?") + field(3, b"How many?") + field(5, field(2, 3))
RECORD = field(1, b"i0") + field(2, TABLE) + field(3, QUESTION)


def records(path, *contents):
    path.write_bytes(b"".join(len(one).to_bytes(8, "little") + b"cccc" + one + b"dddd" for one in contents))
    return path


@pytest.mark.parametrize("name", ["train.tfrecord", "train.tfrecords"])
def test_records_of_interactions_are_read(tmp_path, name):
    first, second = (make() for make in read_interactions(records(tmp_path / name, RECORD, RECORD)))
    assert first == second
    assert [cell.text for cell in first.table.header] == ["city", "people"]
    assert [[cell.text for cell in row] for row in first.table.rows] == [["Oslo", "7"]]
    assert (first.table.table_id, first.table.title) == ("t1", "Städte")
    assert first.texts == ("Städte",), "its question is no text about the table"
    assert first.source == name


@pytest.mark.parametrize(
    ("content", "cut", "message"),
    [
        (RECORD, 3, "record 2: ends too early"),
        (RECORD[:-4], 0, "record 2: is not a valid interaction: it ends too early"),
        (field(1, b"features of an example"), 0, "record 2: is not a valid interaction: it has no table"),
        (field(2, 1), 0, "record 2: is not a valid interaction: table is not a valid table"),
        (b"\xff" * 12, 0, "record 2: is not a valid interaction: a number is truncated"),
    ],
)
def test_a_damaged_record_is_named(tmp_path, content, cut, message):
    path = records(tmp_path / "train.tfrecord", RECORD, content)
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) - cut])
    with pytest.raises(DataError, match=message):
        [make() for make in read_interactions(path)]
