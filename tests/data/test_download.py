import hashlib
import http.server
import json
import random
import subprocess
import threading

import pytest
from full_disks import room

from mate_cli.data import download
from mate_cli.data.download import RemoteFile, fetch, fetch_all
from mate_cli.errors import DataError, MateError
from mate_cli.files.door import on_disk

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; the server's `cuts` say after how many bytes the next answers break off."""

    def do_GET(self):
        self.server.ranges.append(self.headers.get("Range"))
        if self.path == "/absent":
            self.send_error(404)
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.server.knows_ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cuts.pop(0)] if self.server.cuts else body)
        if self.server.stalls:
            self.wfile.flush()
            self.server.goes_on.wait(10)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0.0)
    monkeypatch.setattr(download, "CHUNK", 1 << 14)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.ranges, running.cuts, running.knows_ranges = [], [], True
        running.stalls, running.goes_on = False, threading.Event()
        running.url = f"http://127.0.0.1:{running.server_port}/file"
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.goes_on.set()
        running.shutdown()
        thread.join()


def test_a_file_is_fetched_checked_and_not_fetched_again(server, tmp_path):
    file = RemoteFile(server.url, "inner/file.bin", SHA256)
    fetch_all([file], tmp_path)
    fetch_all([file], tmp_path)
    assert (tmp_path / "inner" / "file.bin").read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["file.bin"]


def test_a_broken_connection_is_resumed_where_it_broke(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    first, second, third = server.ranges
    assert first is None
    assert 0 < int(second[6:-1]) <= 100_000
    assert int(second[6:-1]) < int(third[6:-1]) <= 150_000


def test_a_later_command_goes_on_from_the_part_on_disk(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:200_000])
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    assert server.ranges == ["bytes=200000-"]


def test_a_whole_part_needs_nothing_more(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.knows_ranges = False
    server.cuts = [100_000]
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_giving_up_keeps_the_part_and_says_how_to_go_on(server, tmp_path):
    server.cuts = [20_000] * download.ATTEMPTS
    with pytest.raises(DataError, match=r"could not be fetched.*same command again.*file\.bin"):
        fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path)
    assert (tmp_path / "file.bin.part").stat().st_size > 0
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_no_folder_is_made_where_nothing_arrives(server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(DataError, match="no network"):
        fetch_all([RemoteFile(server.url, "inner/file.bin", SHA256)], tmp_path / "root")
    assert not list(tmp_path.iterdir())


def test_a_server_that_falls_silent_is_given_up_and_gone_on_from(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "SILENT", 0.1)
    server.cuts, server.stalls = [20_000] * download.ATTEMPTS, True
    with pytest.raises(DataError, match="could not be fetched") as raised:
        fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path)
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]
    server.stalls = False
    server.goes_on.set()
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_a_full_disk_is_named_and_gone_on_from(server, tmp_path):
    file = RemoteFile(server.url, "file.bin", SHA256)
    with room(100_000), pytest.raises(MateError, match=r"file too large\. Free space"), on_disk():
        fetch(file, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin.part"]
    assert fetch(file, tmp_path).read_bytes() == CONTENT


def test_a_damaged_account_of_what_arrived_is_named(server, tmp_path):
    (tmp_path / download.MANIFEST).write_text("{")
    with pytest.raises(DataError, match=rf"{download.MANIFEST}: not readable as JSON: .*Move it away"):
        fetch(RemoteFile(server.url, "file.bin"), tmp_path)


def test_a_wrong_checksum_is_refused_and_the_file_kept_for_a_look(server, tmp_path):
    with pytest.raises(DataError, match=rf"arrived with checksum {SHA256}, not sha256:0.*kept as .*file\.bin\.bad"):
        fetch(RemoteFile(server.url, "file.bin", "sha256:0"), tmp_path)
    assert (tmp_path / "file.bin.bad").read_bytes() == CONTENT
    assert not (tmp_path / "file.bin").exists()


def test_a_file_on_disk_that_differs_is_not_overwritten(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match="differs from the release"):
        fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == b"mine"
    assert server.ranges == []


def test_without_a_known_checksum_the_first_download_is_trusted(server, tmp_path):
    file = RemoteFile(server.url, "file.bin")
    target = fetch(file, tmp_path)
    assert json.loads((tmp_path / download.MANIFEST).read_text()) == {"file.bin": SHA256}
    target.write_bytes(b"damaged since")
    with pytest.raises(DataError, match="differs from the release"):
        fetch(file, tmp_path)


def test_an_error_of_the_server_is_named(server, tmp_path):
    with pytest.raises(DataError, match="404"):
        fetch(RemoteFile(server.url.replace("/file", "/absent"), "file.bin"), tmp_path)
    assert len(server.ranges) == 1, "no use in trying again"


def test_git_checksums_are_those_of_git(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    blob = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True).stdout.strip()
    assert download.checksum(path, "git:") == f"git:{blob}"
