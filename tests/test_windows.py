"""The client on Windows, as far as Linux can show it."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rt_frames as rt
from rt_frames.local import LocalService
from tests.support.processes import python

ROOT = Path(__file__).parents[1]
CONSOLE = "cp1252"
NEEDS = "Error: folders of tables need Linux, macOS or WSL; "


def test_client_and_shell_do_what_the_readme_shows_without_what_windows_lacks(tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "temporary").mkdir()
    with LocalService(tmp_path / "tables") as service:
        environment = {
            **os.environ,
            "PYTHONIOENCODING": CONSOLE,
            "TMPDIR": str(tmp_path / "temporary"),
            "RT_FRAMES_URL": service.url,
            "RT_FRAMES_API_KEY": service.api_key,
            "RT_FRAMES_DIALECT": "lancedb",
        }
        words = "-X", "warn_default_encoding", "-m", "tests.support.windows", here
        with python(*words, env=environment, encoding=CONSOLE) as program:
            printed, said = program.communicate()
    assert program.returncode == 0, printed + said
    assert said.count(NEEDS) == 3
    # drawn without the box characters that cp1252 lacks
    assert f"+{'=' * 42}+" in printed
    assert "za\\u017có\\u0142\\u0107" in printed


@pytest.mark.parametrize(
    "target", [r"C:\tables", "C:/tables", r".\tables", r"..\tables", r"\\host\tables"]
)
def test_a_folder_of_windows_is_none_elsewhere(target):
    with pytest.raises(ValueError, match="is neither a URL nor a folder"):
        rt.connect(target)


def test_the_extra_of_folders_installs_nothing_on_windows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra, wanted in project["optional-dependencies"].items():
        for one in wanted:
            marker = Requirement(one).marker
            left_out = marker is not None and not marker.evaluate(
                {"sys_platform": "win32"}
            )
            assert left_out is (extra == "local"), one
