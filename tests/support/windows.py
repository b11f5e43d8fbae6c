"""README on Windows, as far as Linux can show it: ``-m tests.support.windows FOLDER``.

It is a program of its own: it imports the libraries, removes all that Windows lacks,
then imports ``rt_frames``. ``RT_FRAMES_URL`` and the other variables name a service in
another process.
"""

# ruff: noqa: F401  # libraries are imported before anything is removed

import contextlib
import doctest
import io
import os
import re
import select
import shlex
import signal
import socket
import sys
import tempfile
import warnings
from pathlib import Path

import click
import dask.dataframe
import duckdb
import pandas as pd
import polars as pl
import polars.testing
import pyarrow.dataset
import pyarrow.parquet
import requests
import tqdm.auto
import urllib3

LACKS = {
    os: """
        chown chroot confstr ctermid fchmod fchown fork forkpty fdatasync getegid geteuid
        getgid getgroups getloadavg getpgid getpgrp getpriority getsid getuid initgroups
        killpg lchown lockf mkfifo mknod nice openpty pathconf pipe2 posix_fadvise
        posix_fallocate posix_spawn posix_spawnp pread preadv pwrite pwritev readv
        register_at_fork sched_setaffinity sched_yield sendfile setegid
        seteuid setgid setgroups setpgid setpriority setsid setuid statvfs sync sysconf
        tcgetpgrp ttyname uname wait wait3 wait4 waitid writev
    """,
    signal: """
        ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGQUIT
        SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGUSR1 SIGUSR2 SIG_BLOCK SIG_SETMASK SIG_UNBLOCK
        alarm getitimer pause pthread_kill pthread_sigmask setitimer siginterrupt
        sigpending sigtimedwait sigwait sigwaitinfo
    """,
    socket: """
        AF_UNIX MSG_DONTWAIT MSG_NOSIGNAL SO_REUSEPORT TCP_CORK TCP_KEEPIDLE
        TCP_NOTSENT_LOWAT TCP_QUICKACK TCP_USER_TIMEOUT
    """,
    select: "epoll poll",
    # there, its file cannot be opened a second time
    tempfile: "NamedTemporaryFile",
}
MODULES = "cheroot fcntl grp lance posix pty pwd readline resource syslog termios tty"
README = Path(__file__).parents[2] / "README.md"
NEEDS = (
    "folders of tables need Linux, macOS or WSL; on Windows, run rt-frames serve in "
    "WSL, or connect to a hosted service"
)


def become_windows() -> None:
    """Remove what Windows lacks."""
    sys.platform = "win32"
    for module, names in LACKS.items():
        for name in names.split():
            delattr(module, name)
    for name in MODULES.split():
        assert name not in ("cheroot", "lance") or name not in sys.modules
        # its import fails
        sys.modules[name] = None
    warnings.simplefilter("ignore", EncodingWarning)
    warnings.filterwarnings("error", category=EncodingWarning, module="rt_frames")


def main() -> None:
    """Run what README shows."""
    text = README.read_text("utf-8")
    os.chdir(sys.argv[1])
    become_windows()
    import rt_frames as rt

    check_folders(rt)
    names = {"__name__": "__main__", "rt": rt}
    example(text, names)
    # it prints what DuckDB and Polars draw, which needs more characters than cp1252
    with contextlib.redirect_stdout(io.StringIO()):
        code = "\n".join(blocks(text, "python"))
        # what a folder alone can
        code = re.sub(
            r'"replace", "?where"?[=:] ?pl.col\("day"\) == day', '"append"', code
        )
        exec(code, names)
    check_errors(rt)
    check_shell(rt, text)
    assert "rt_frames.local" not in sys.modules


def blocks(text: str, kind: str) -> list[str]:
    """Return README's code of one kind."""
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def example(text: str, names: dict) -> None:
    """Run the first example, but for its folder; it prints the output shown."""
    code = "\n".join(blocks(text, "pycon"))
    for step in doctest.DocTestParser().get_examples(code):
        if "rt.connect" in step.source:
            continue
        if not step.want:
            exec(step.source, names)
            continue
        want = step.want.replace("at tables", f"at {os.environ['RT_FRAMES_URL']}")
        found = f"{eval(step.source, names)!r}\n"
        assert alike(found) == alike(want), found


def alike(printed: str) -> str:
    """Remove the number of bytes sent."""
    return re.sub(r"[\d.]+ k?B sent", "", printed)


def check_folders(rt) -> None:
    """Check which targets are folders, and their error."""
    for folder in (
        "./tables",
        "../tables",
        "~/tables",
        Path("tables"),
        ".\\tables",
        "..\\tables",
        "\\tables",
        "C:\\tables",
        "c:/tables",
        "\\\\host\\share\\tables",
    ):
        with raises(ImportError, NEEDS):
            rt.connect(folder)
    for other in ("tables", "a\\b", "C:", "C:tables", "//host/share", "1:\\tables"):
        with raises(ValueError, "is neither a URL nor a folder"):
            rt.connect(other)
    with raises(ImportError, NEEDS):
        from rt_frames.local import LocalService


def check_errors(rt) -> None:
    """Check errors of arguments, of the service and of the network."""
    frame = pd.DataFrame({"region": ["north"]})
    with raises(rt.errors.TableExistsError, "choose another name"):
        frame.remote.to_table("sales")
    with raises(rt.errors.TableNotFoundError, "nowhere"):
        rt.table("nowhere").to_pandas()
    with raises(rt.errors.UnsupportedTypeError, "period"):
        pd.DataFrame({"at": pd.period_range("2024", periods=2)}).remote.to_table("t")
    # a socket that is bound and does not listen refuses
    with socket.socket() as closed, raises(rt.errors.ConnectError, "nothing was sent"):
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        rt.connect(url, api_key="k", retries=0, default=False).list_tables()


def check_shell(rt, text: str) -> None:
    """Run README's commands, and others, in a console of cp1252."""
    for line in blocks(text, "sh run")[0].splitlines():
        if line.startswith("rt-frames"):
            command(*shlex.split(line)[1:])
    rows = pl.DataFrame({"zażółć": ["日本", "x" * 100]})
    rt.to_table(rows, "odd", if_exists="replace")
    Path("key").write_text(os.environ["RT_FRAMES_API_KEY"], "utf-8-sig")
    command("show", "odd", "--rows", "2", "--key-file", "key")
    command("show", "odd", "--rows", "2", "--json", code=2)
    command("drop", "odd", "--yes")
    command("show", "odd", code=1)
    command("create", "odd", "odd.parquet", code=2)
    command("tables", "--url", ".\\tables", code=1)
    command("serve", ".\\tables", code=1)
    command("demo", code=1)


def command(*words: str, code: int = 0) -> None:
    """Run a command of the shell, which ends with an exit code."""
    from rt_frames.cli.main import main as run

    try:
        ended = run(words)
    except SystemExit as error:
        ended = error.code
    assert ended == code, (words, ended)


class raises:  # noqa: N801  # pytest's name
    """Expect an error whose text has some words. pytest itself is not imported."""

    def __init__(self, kind: type[Exception], words: str) -> None:
        self.kind = kind
        self.words = words

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _: object) -> bool:
        if isinstance(error, self.kind):
            assert self.words in str(error), error
            return True
        assert error is not None, f"no {self.kind.__name__}"
        return False


if __name__ == "__main__":
    main()
