import gzip
import hashlib
import http.server
import io
import json
import lzma
import random
import subprocess
import threading
import zipfile

import pytest
from full_disks import room

from mate_cli.data import download
from mate_cli.data.download import RemoteFile, fetch, fetch_all
from mate_cli.errors import DataError
from mate_cli.files.io_errors import find_known_error

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; the server's `cuts` say after how many bytes the next answers break off."""

    def do_GET(self):
        self.server.ranges.append(self.headers.get("Range"))
        if self.path == "/absent":
            self.send_error(404)
            return
        if self.server.statuses:
            self.send_response(self.server.statuses.pop(0))
            self.send_header("Retry-After", "0")
            self.end_headers()
            return
        content = self.server.content
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.server.knows_ranges else 0
        if start and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        if self.server.has_length:
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
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.ranges, running.cuts, running.knows_ranges = [], [], True
        running.content, running.statuses, running.has_length = CONTENT, [], True
        running.stalls, running.goes_on = False, threading.Event()
        running.url = f"http://127.0.0.1:{running.server_port}/file"
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
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


def test_a_whole_part_needs_nothing_more(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_a_server_without_ranges_starts_again(server, tmp_path):
    server.knows_ranges = False
    server.cuts = [100_000]
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_giving_up_keeps_the_part_and_says_how_to_go_on(server, tmp_path):
    server.cuts = [20_000] * download.ATTEMPTS
    with pytest.raises(DataError, match=r"could not be downloaded.*same command again.*file\.bin"):
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
    monkeypatch.setattr(download, "READ_TIMEOUT_SECONDS", 0.1)
    server.cuts, server.stalls = [20_000] * download.ATTEMPTS, True
    with pytest.raises(DataError, match="could not be downloaded") as raised:
        fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path)
    assert "\n" not in str(raised.value)
    assert (tmp_path / "file.bin.part").exists()
    server.stalls = False
    server.goes_on.set()
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_a_full_disk_is_named_and_gone_on_from(server, tmp_path):
    file = RemoteFile(server.url, "file.bin", SHA256)
    with room(100_000), pytest.raises(OSError, match="File too large") as raised:
        fetch(file, tmp_path)
    assert "file too large. Free space" in str(find_known_error(raised.value))
    assert (tmp_path / "file.bin.part").exists()
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
    with pytest.raises(DataError, match=r"differs from the first download.*if the new one is right, remove .*json"):
        fetch(file, tmp_path)
    (tmp_path / download.MANIFEST).unlink()
    assert fetch(file, tmp_path) == target


def archive():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("folder/file.txt", CONTENT[:5000])
    return packed.getvalue()


@pytest.mark.parametrize("name", ["file.zip", "file.tar.gz", "file.json", "file.json.xz"])
def test_a_page_to_log_in_is_no_file_and_the_right_one_is_taken_later(server, tmp_path, name):
    file = RemoteFile(server.url, name)
    server.content = b"\n<!DOCTYPE html><html>Log in</html>"
    with pytest.raises(DataError, match=rf"is not a valid {name}: it is a web page.*kept as .*{name}\.bad"):
        fetch(file, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.bad"]
    server.content = {"zip": archive(), "gz": gzip.compress(b"x"), "json": b"{}", "xz": lzma.compress(b"{}")}[
        name.rpartition(".")[2]
    ]
    assert fetch(file, tmp_path).read_bytes() == server.content


@pytest.mark.parametrize("broken", [archive()[:-40], archive()[:60] + b"x" * 400 + archive()[460:], b"", b"PK"])
def test_an_archive_is_read_before_its_sum_is_trusted(server, tmp_path, broken):
    server.content = broken
    with pytest.raises(DataError, match=r"is not a valid file\.zip"):
        fetch(RemoteFile(server.url, "file.zip"), tmp_path)
    assert not (tmp_path / download.MANIFEST).exists()


def test_a_sum_of_a_wrong_first_file_says_how_to_start_again(server, tmp_path):
    (tmp_path / download.MANIFEST).write_text(json.dumps({"file.zip": "sha256:0"}))
    server.content = archive()
    with pytest.raises(DataError, match=rf"arrived with checksum.*remove .*{download.MANIFEST}, and run"):
        fetch(RemoteFile(server.url, "file.zip"), tmp_path)


@pytest.mark.parametrize("checksum", [None, SHA256])
def test_a_part_of_another_file_is_never_gone_on_with(server, tmp_path, checksum):
    server.content = random.Random(2).randbytes(290_000)
    server.cuts = [1500] * download.ATTEMPTS if checksum is None else [1500] + [0] * (download.ATTEMPTS - 1)
    file = RemoteFile(server.url, "file.bin", checksum)
    with pytest.raises(DataError, match="could not be downloaded"):
        fetch(file, tmp_path)
    assert 1024 <= (tmp_path / "file.bin.part").stat().st_size <= 1500
    server.content = CONTENT
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != download.MANIFEST) == ["file.bin"]


@pytest.mark.parametrize("checksum", [None, SHA256])
def test_a_part_that_is_a_link_is_not_written_through(server, tmp_path, checksum):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "file.bin.part").symlink_to(tmp_path / "precious")
    assert fetch(RemoteFile(server.url, "file.bin", checksum), tmp_path).read_bytes() == CONTENT
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server, tmp_path, status):
    server.statuses = [status] * 3
    assert fetch(RemoteFile(server.url, "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    server.statuses = [status] * download.ATTEMPTS
    with pytest.raises(DataError, match=rf"could not be downloaded.*the server returned {status}"):
        fetch(RemoteFile(server.url, "other.bin", SHA256), tmp_path)


@pytest.mark.parametrize("has_length", [True, False])
def test_a_file_without_end_is_given_up(server, tmp_path, monkeypatch, has_length):
    monkeypatch.setattr(download, "MAX_SIZE", 1 << 16)
    server.has_length = has_length
    with pytest.raises(DataError, match="is larger than"):
        fetch(RemoteFile(server.url, "file.bin"), tmp_path)
    assert not (tmp_path / "file.bin.part").exists()


def test_an_error_of_the_server_is_named(server, tmp_path):
    with pytest.raises(DataError, match="404"):
        fetch(RemoteFile(server.url.replace("/file", "/absent"), "file.bin"), tmp_path)
    assert len(server.ranges) == 1, "no use in trying again"


def test_git_checksums_are_those_of_git(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    blob = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True).stdout.strip()
    assert download.checksum(path, "git:") == f"git:{blob}"
