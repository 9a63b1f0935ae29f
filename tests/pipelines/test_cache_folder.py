"""A cache that cannot be written is a warning: encodings are not kept."""

from mate_cli.pipelines.machine import open_cache


def test_a_cache_that_cannot_be_written_is_a_temporary_one(tmp_path, capsys):
    (tmp_path / "file").touch()
    folder = open_cache(str(tmp_path / "file" / "cache"))
    assert folder.is_dir()
    assert not folder.is_relative_to(tmp_path)
    told = capsys.readouterr().err
    assert f"warning: {tmp_path}/file/cache: the cache cannot be written (not a directory), so a temporary one" in told
    assert "paths.cache= or MATE_CACHE" in told
    assert told.count("\n") == 1
    assert open_cache(str(tmp_path / "new")) == tmp_path / "new"
