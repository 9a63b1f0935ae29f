"""Files are whole or not there."""

import pytest

from mate_cli.files.atomic import replacing


def stopped(target):
    with replacing(target) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt


def test_what_is_begun_and_not_ended_leaves_nothing(tmp_path):
    target = tmp_path / "new" / "file"
    with replacing(target) as partial:
        partial.write_text("whole")
    with pytest.raises(KeyboardInterrupt):
        stopped(target)
    assert [file.read_text() for file in target.parent.iterdir()] == ["whole"]
