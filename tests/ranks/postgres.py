"""A real PostgreSQL server for one test or one measurement: started as an ordinary user in a folder
of its own, reached by a socket in it, and gone with it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

OWNER = "owner"  # of the database; a role of the server, no user of the machine


def programs() -> pathlib.Path | None:
    """The folder of initdb and pg_ctl, of the newest version that is installed."""
    if on_path := shutil.which("initdb"):
        return pathlib.Path(on_path).resolve().parent
    found = pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(found, key=lambda path: int(path.parts[4]), default=None)
    return newest.parent if newest else None


def missing() -> str:
    """What this machine lacks for a server, or ''."""
    if programs() is None:
        return "PostgreSQL's server is not installed: apt-get install postgresql"
    return ""


class Postgres:
    def __init__(self, folder: pathlib.Path, *settings: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "log"
        found = programs()
        assert found is not None, missing()
        self._programs = found
        self._user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            self._user = [
                "setpriv",
                f"--reuid={nobody.pw_uid}",
                f"--regid={nobody.pw_gid}",
                "--clear-groups",
            ]
        folder.chmod(0o755)
        self._run("initdb", "-D", self.data, "-U", OWNER, "-A", "trust", "-E", "UTF8", "--no-sync")
        self.settings = [
            "listen_addresses=''",
            f"unix_socket_directories='{folder}'",
            "fsync=off",
            "max_connections=40",
            *settings,
        ]
        self.start()

    def _run(self, program: str, *words: object, check: bool = True) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*self._user, str(self._programs / program), *map(str, words)],
            check=check,
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        )

    def start(self) -> None:
        options = " ".join(f"-c {setting}" for setting in self.settings)
        self._run("pg_ctl", "-D", self.data, "-l", self.log, "-w", "-t", 60, "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop", check=False)

    def url(self, user: str = OWNER, database: str = "postgres") -> str:
        return f"postgresql:///{database}?user={user}&host={self.folder}"

    def sql(self, text: str, user: str = OWNER, database: str = "postgres") -> list[list[str]]:
        """The rows of the last statement; NULL is '<null>'."""
        done = self.psql(text, user, database)
        assert done.returncode == 0, done.stderr.decode()
        return list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))

    def psql(
        self, text: str, user: str = OWNER, database: str = "postgres"
    ) -> subprocess.CompletedProcess[bytes]:
        words = ["-X", "-q", "--csv", "-t", "-v", "ON_ERROR_STOP=1", "-P", "null=<null>"]
        return subprocess.run(
            [self._programs / "psql", *words, "-d", self.url(user, database), "-f", "-"],
            input=text.encode(),
            capture_output=True,
            check=False,
            env={**os.environ, "PGCLIENTENCODING": "UTF8"},
        )

    def hold(self, text: str, database: str = "postgres") -> subprocess.Popen[bytes]:
        """A session that runs the statements and stays until its input is closed."""
        held = subprocess.Popen(
            [self._programs / "psql", "-X", "-q", "-d", self.url(database=database)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert held.stdin is not None and held.stdout is not None
        held.stdin.write(text.encode() + b"\n\\echo held\n")
        held.stdin.flush()
        held.stdout.readline()
        return held

    def set_access(self, line: str) -> None:
        """pg_hba.conf, which says who may come in how."""
        (self.data / "pg_hba.conf").write_text(line + "\n")
        self._run("pg_ctl", "-D", self.data, "reload")

    def version(self) -> int:
        return int(re.match(r"\d+", self.sql("SHOW server_version")[0][0]).group())


@contextlib.contextmanager
def running(*settings: str, beside: pathlib.Path | None = None) -> Iterator[Postgres]:
    """A server that leaves nothing behind. `beside`: the folder that its own is made in."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mpnanny-pg-", dir=beside))
    server = None
    try:
        server = Postgres(folder, *settings)
        yield server
    finally:
        if server is not None:
            server.stop("immediate")
        shutil.rmtree(folder)
