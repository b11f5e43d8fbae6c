"""Folders and their services: what is not ours stays, what was removed is made again, and nothing runs for ever."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.compare import lance

FRAME = pl.DataFrame({"a": [1, 2]})


def test_S11_what_lies_in_a_foreign_staging_folder_stays(tmp_path):
    for folder in (".staging/release-1", ".rt_frames-staging/release-1", f".rt_frames-staging/{'0' * 32}"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "important.txt").write_text("mine")
    with rt.connect(tmp_path, default=False) as client:
        client.create_table("t", FRAME)
    assert len(list(tmp_path.rglob("important.txt"))) == 3


def test_S11_a_staging_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / ".rt_frames-staging").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link"):
        rt.connect(tmp_path / "tables", default=False)


def test_S11_a_folder_that_was_removed_is_made_again(tmp_path):
    folder = tmp_path / "tables"
    with rt.connect(folder, default=False) as client:
        for _ in range(2):
            assert client.list_tables() == []
            client.create_table("t", FRAME)
            assert lance.dataset(str(folder / "t.lance")).to_table().to_pydict() == {"a": [1, 2]}
            shutil.rmtree(folder)


def test_S11_folders_leave_no_thread_and_no_descriptor_behind(tmp_path):
    def used(folder: str) -> tuple[int, int]:
        with rt.connect(tmp_path / folder, default=False) as client:
            client.create_table("t", FRAME)
        # the engine's threads, as many as there are cores, are seen from when they first called Python
        ours = [thread for thread in threading.enumerate() if not thread.name.startswith("Dummy-")]
        return len(ours), len(list(Path("/proc/self/fd").iterdir()))

    used("first")
    before = used("second")
    assert [used(f"{number}") for number in range(10)][-1] <= before


def test_a_service_ends_with_the_last_client_of_its_folder_and_comes_back_for_a_closed_one(tmp_path):
    one, other = (rt.connect(tmp_path, default=False) for _ in range(2))
    assert one.url == other.url
    address = ("127.0.0.1", int(one.url.rpartition(":")[2]))
    one.close()
    other.create_table("t", FRAME)
    other.close()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(address, timeout=1):
        pass
    assert other.list_tables() == ["t"]
    other.close()


def test_a_client_that_nobody_holds_ends_its_service(tmp_path):
    threads = threading.active_count()
    rt.connect(tmp_path, default=False).list_tables()
    assert threading.active_count() <= threads


def test_an_upload_of_a_thread_that_outlives_the_main_one_is_stored(tmp_path):
    code = (
        "import sys, threading, time, polars as pl, rt_frames as rt\n"
        "client = rt.connect(sys.argv[1])\n"
        "def upload():\n"
        "    time.sleep(0.5)\n"
        "    client.create_table('t', pl.DataFrame({'a': [1, 2]}))\n"
        "threading.Thread(target=upload).start()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
    assert lance.dataset(str(tmp_path / "t.lance")).to_table().to_pydict() == {"a": [1, 2]}


def test_S12_connections_that_say_nothing_do_not_keep_others_waiting(tmp_path):
    with LocalService(tmp_path) as service:
        host, port = service.url.removeprefix("http://").split(":")
        silent = [socket.create_connection((host, int(port))) for _ in range(40)]
        for number, sock in enumerate(silent):
            sock.sendall(b"GET /v1/tables HTTP/1.1\r\n"[: number % 20])
        start = time.monotonic()
        assert rt.connect(service.url, api_key=service.api_key, default=False).list_tables() == []
        assert time.monotonic() - start < 5
        for sock in silent:
            sock.close()


@pytest.mark.parametrize("kind", ["half a table", "file", "dangling link"])
@pytest.mark.parametrize("if_exists", ["fail", "skip", "replace"])
def test_what_is_in_the_way_and_no_table_is_named_and_left_alone(tmp_path, kind, if_exists):
    place = tmp_path / "t.lance"
    if kind == "half a table":
        (place / "data").mkdir(parents=True)
    elif kind == "file":
        place.write_text("mine")
    else:
        place.symlink_to(tmp_path / "nowhere")
    with rt.connect(tmp_path, default=False) as client:
        with pytest.raises(
            rt.errors.BadRequest, match=r"'t\.lance' is in the service's folder and no table.*remove it"
        ):
            client.create_table("t", FRAME, if_exists=if_exists)
        assert client.list_tables() == []
        assert os.path.lexists(place)


STARTING = """
import sys, rt_frames as rt
for _ in range(60): rt.connect(sys.argv[1], default=False).close()
"""


def test_a_service_starts_while_others_write_and_end(tmp_path):
    with rt.connect(tmp_path, default=False) as client:
        starting = subprocess.Popen([sys.executable, "-c", STARTING, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        number = 0
        while starting.poll() is None:
            client.create_table(f"t{number}", FRAME)
            number += 1
        assert starting.communicate()[1] == ""
        assert len(client.list_tables()) == number
