"""What lies outside the roots is not read: neither by a link that takes the place of a folder while
a call goes on, nor by one that lies where a file beside another is looked for.
"""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import Server, record, text_of

SWAPS = int(os.environ.get("MPNANNY_SWAPS", "300"))  # calls while a link is swapped in and out
EXCHANGE = 2
HERE = -100  # AT_FDCWD

# Exchanges two names as fast as it can, until it is ended.
SWAPPER = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
one, other = sys.argv[1].encode(), sys.argv[2].encode()
while True:
    libc.renameat2({HERE}, one, {HERE}, other, {EXCHANGE})
"""


def tensors(path: pathlib.Path, key: str) -> None:
    entry = {key: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    head = json.dumps(entry).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + struct.pack("<2f", 3.0, 4.0))


def fill(folder: pathlib.Path, word: str, loss: float) -> None:
    """One of everything that is read, with `word` or `loss` to know it by."""
    folder.mkdir()
    record(folder / "metrics.db", name=word).close()
    (folder / "run.log").write_text("".join(f"step {i} loss {loss}\n" for i in range(5)))
    (folder / f"{word}.py").write_text("x = 1\n")
    half = f"import torch\n\ndef {word}(x):\n    return torch.log(x.half() + 1e-8)\n"
    (folder / "code.py").write_text(half)
    tensors(folder / "w.safetensors", word)
    history = [{"step": i, "loss": loss, "learning_rate": 0.1} for i in range(5)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))


CALLS: list[tuple[str, dict[str, object]]] = [
    ("run_summary", {"run": "d/metrics.db"}),
    ("diagnose_run", {"log_path": "d/run.log"}),
    ("run_summary", {"run": "d/trainer_state.json"}),
    ("analyze_tensor", {"path": "d/w.safetensors"}),
    ("static_check", {"paths": ["d"]}),
    ("list_runs", {"path": "."}),
    ("list_runs", {"path": "d"}),
]


@pytest.fixture
def swapped(tmp_path: pathlib.Path, root: pathlib.Path) -> Iterator[pathlib.Path]:
    """A root with a folder `d` that is, every other moment, a link to one outside."""
    fill(tmp_path / "outside", "secret", 4242.0)
    fill(root / "d", "open", 1.0)
    (root / "l").symlink_to("../outside")
    names = [str(root / name).encode() for name in "dl"]
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    if exchange is None or exchange(HERE, names[0], HERE, names[1], EXCHANGE) != 0:
        pytest.skip("names cannot be exchanged here")
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(root / "d"), str(root / "l")])
    yield root
    swapper.send_signal(signal.SIGKILL)
    swapper.wait()


def test_a_link_that_takes_a_folders_place_is_not_followed(swapped: pathlib.Path) -> None:
    answered = refused = 0
    with Server(swapped) as server:
        for call in range(SWAPS):
            tool, arguments = CALLS[call % len(CALLS)]
            answer = server.call(tool, **arguments)
            said = json.dumps(answer)
            assert "secret" not in said and "4242" not in said, f"call {call}, {tool}: {said[:500]}"
            if answer.get("isError"):
                refused += 1
            else:
                answered += 1
        completed = server.ask(
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "mpnanny://runs/{run}/summary"},
                "argument": {"name": "run", "value": "d/"},
            },
        )
        assert "secret" not in json.dumps(completed)
    print(f"{SWAPS} calls: {answered} answered, {refused} refused")
    assert answered and refused, "the link was never there, or always"


def test_links_beside_a_run_are_not_followed(tmp_path: pathlib.Path, root: pathlib.Path) -> None:
    """A ring, a WAL and a journal are looked for by name beside the database."""
    outside = tmp_path / "outside"
    outside.mkdir()
    record(root / "metrics.db").close()
    ring = outside / "ring"
    ring.write_bytes(b"MPNYRING" + bytes(4000))
    (root / "metrics.db-ring").symlink_to(ring)
    with Server(root) as server:
        answer = server.call("run_summary", run="metrics.db")
        assert not answer.get("isError")
        assert "symbolic link" in text_of(answer)
        # Of a ring that was read, its format would be told.
        assert "format that this version does not read" not in text_of(answer)
        live = record(outside / "live.db", name="secret", wal=True)
        shutil.copy(outside / "live.db", root / "copy.db")
        for end in ("-wal", "-shm"):
            (root / f"copy.db{end}").symlink_to(outside / f"live.db{end}")
        assert "secret" not in json.dumps(server.call("run_summary", run="copy.db"))
        live.close()


def test_a_linked_ignore_list_is_not_read(tmp_path: pathlib.Path, root: pathlib.Path) -> None:
    for name in ("a.py", "b.py"):
        (root / name).write_text("import torch\n\ntorch.autocast('cuda')\n")
    (tmp_path / "outside").write_text("a.py\n")
    (root / ".gitignore").symlink_to(tmp_path / "outside")
    (root / ".git/info").mkdir(parents=True)
    (root / ".git/info/exclude").symlink_to(tmp_path / "outside")
    (root / "pyproject.toml").symlink_to(tmp_path / "outside")
    with Server(root) as server:
        answer = server.call("static_check", paths=["."])
    assert "a.py" in text_of(answer) and "b.py" in text_of(answer)


def git(folder: pathlib.Path, *words: str) -> None:
    who = ["-c", "user.email=a@example.org", "-c", "user.name=A"]
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    """One outside the root, with a commit."""
    folder = tmp_path / "outside"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.py").write_text("import torch\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "x")
    return folder


def led_by_file(root: pathlib.Path, repository: pathlib.Path) -> None:
    (root / ".git").write_text(f"gitdir: {repository}/.git\n")


def led_by_link(root: pathlib.Path, repository: pathlib.Path) -> None:
    (root / ".git").symlink_to(repository / ".git")


def borrowing_objects(root: pathlib.Path, repository: pathlib.Path) -> None:
    git(root, "init", "-q")
    (root / ".git/objects/info/alternates").write_text(f"{repository}/.git/objects\n")
    head = (repository / ".git/HEAD").read_text().split()[-1]
    commit = (repository / ".git" / head).read_text()
    (root / ".git/refs/heads").mkdir(parents=True, exist_ok=True)
    (root / ".git" / head).write_text(commit)


def with_linked_objects(root: pathlib.Path, repository: pathlib.Path) -> None:
    shutil.copytree(repository / ".git", root / ".git")
    shutil.rmtree(root / ".git/objects")
    (root / ".git/objects").symlink_to(repository / ".git/objects")


def of_another_common_folder(root: pathlib.Path, repository: pathlib.Path) -> None:
    shutil.copytree(repository / ".git", root / ".git")
    (root / ".git/commondir").write_text(f"{repository}/.git\n")


def above_the_root(root: pathlib.Path, repository: pathlib.Path) -> None:
    (repository / ".git").rename(root.parent / ".git")


@pytest.mark.parametrize(
    "lead",
    [
        led_by_file,
        led_by_link,
        borrowing_objects,
        with_linked_objects,
        of_another_common_folder,
        above_the_root,
    ],
)
def test_a_repository_outside_the_roots_is_not_read(
    lead, root: pathlib.Path, repository: pathlib.Path
) -> None:
    (root / "a.py").write_text("import torch\ny = 2\n")
    lead(root, repository)
    with Server(root) as server:
        answer = server.call("static_check", paths=["."], diff="HEAD")
    assert answer.get("isError") and "outside the folders" in text_of(answer), text_of(answer)
    with Server(root.parent) as server:  # the same is no secret where that folder is open
        answer = server.call("static_check", paths=["root"], diff="HEAD")
        assert not answer.get("isError"), text_of(answer)


def test_a_repository_in_the_root_is_read(root: pathlib.Path, repository: pathlib.Path) -> None:
    shutil.copytree(repository, root / "project")
    git(root / "project", "worktree", "add", "-q", "tree")
    (root / "project/tree/a.py").write_text("import torch\ny = 2\n")
    with Server(root) as server:
        for folder in ("project", "project/tree"):
            answer = server.call("static_check", paths=[folder], diff="HEAD")
            assert not answer.get("isError"), text_of(answer)
