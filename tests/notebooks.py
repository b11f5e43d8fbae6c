"""Run the notebooks.

``python -m tests.notebooks [NAME …]`` runs them in place and stores the outputs.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CELL_SECONDS = 180
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
METADATA = {"kernelspec": KERNEL, "language_info": {"name": "python"}}


def executed(path: Path, folder: Path, times: int = 1) -> Any:
    """Run a notebook from top to bottom in one kernel, of this interpreter."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as sockets:  # a socket's path must be short
        asyncio.run(_execute(notebook, folder, Path(sockets), times))
    return notebook


async def _execute(notebook: Any, folder: Path, sockets: Path, times: int) -> None:
    specs = folder / "kernels"
    work = folder / "work"
    (specs / "python3").mkdir(parents=True)
    work.mkdir()
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (specs / "python3" / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3"})
    )
    manager = AsyncKernelManager(
        kernel_name="python3",
        transport="ipc",  # sockets are files that only this user can open
        kernel_spec_manager=KernelSpecManager(
            kernel_dirs=[str(specs)], ensure_native_kernel=False
        ),
        connection_file=str(sockets / "kernel.json"),
    )
    client = NotebookClient(
        notebook,
        km=manager,
        timeout=CELL_SECONDS,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(work)}},
    )
    # without the user's own settings, history and startup files
    env = {**os.environ, "IPYTHONDIR": str(folder / "ipython")}
    async with client.async_setup_kernel(env=env, cleanup_kc=True):
        for _ in range(times):
            for at, cell in enumerate(notebook.cells):
                await client.async_execute_cell(cell, at)


def store(path: Path) -> None:
    """Run a notebook and keep the outputs that are the same on every machine."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(path, Path(folder))
    notebook.metadata = METADATA
    for cell in notebook.cells:
        cell.metadata = {}
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    nbformat.validate(notebook)
    made = rf"{re.escape(tempfile.gettempdir())}/tmp\w+/"  # folders with random names
    path.write_text(re.sub(made, "", nbformat.writes(notebook)) + "\n")


if __name__ == "__main__":
    for chosen in NOTEBOOKS:
        if len(sys.argv) == 1 or chosen.stem in sys.argv[1:]:
            start = time.monotonic()
            store(chosen)
            seconds = time.monotonic() - start
            print(f"{chosen.name}: {seconds:.0f} s")  # noqa: T201
