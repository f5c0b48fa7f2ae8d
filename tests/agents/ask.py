"""What an agent may use to answer, one command a call; whole conversations are kept.

    ask.py look A NAME COMMAND...      a shell command for reading: code/, train.py, log.txt
    ask.py look B NAME COMMAND...      the same, and run/metrics.db with the program mpnanny
    ask.py tool NAME TOOL ['{JSON}']   one MCP tools/call to `mpnanny serve` (arm C)
    ask.py tool NAME --list            the server's instructions and tools, as a model gets them
    ask.py arms [NAME...]              makes the arms' folders anew, after a new record

AGENTS_DIR (or --dir) is the folder that holds tasks/; MPNANNY the program. Each call is added to
tasks/NAME/conversations/ARM-NAME.jsonl as {time, command, bytes_out, output}.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from client import Client

SEEN = {"A": ["code", "train.py", "log.txt"], "B": ["code", "train.py", "log.txt", "run"]}
SEEN["C"] = SEEN["B"]
SECONDS = 300  # for one call


def link_folder(base: Path, arm: str, name: str, anew: bool = False) -> Path:
    """arms/ARM/NAME: hard links to what this arm sees of tasks/NAME, without Python's caches."""
    folder = base / "arms" / arm / name
    if folder.exists() and not anew:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for entry in SEEN[arm]:
        source = base / "tasks" / name / entry
        if source.is_dir():
            shutil.copytree(
                source,
                folder / entry,
                ignore=shutil.ignore_patterns("__pycache__"),
                copy_function=os.link,
            )
        else:
            os.link(source, folder / entry)
    return folder


def sandboxed(base: Path, arm: str, name: str, root: str, command: list[str]) -> list[str]:
    """The command line that runs `command` so that it sees the arm's folder and nothing else.

    The folder lies at the path where the training ran: paths in the log and the record are right.
    """
    programs = ""
    if arm != "A":
        program = Path(os.environ.get("MPNANNY") or shutil.which("mpnanny") or "mpnanny").resolve()
        worker = program.with_name("mpnanny-worker")
        programs = ":".join(str(path) for path in (program, worker) if path.exists())
        if not programs:
            raise SystemExit(f"{program} is not there; set MPNANNY")
    spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    if os.geteuid() != 0:
        spaces.append("--map-root-user")
    folder, place = link_folder(base, arm, name), base / "tasks" / name
    script = Path(__file__).with_name("sandbox.sh")
    return [
        "unshare",
        *spaces,
        "bash",
        *map(str, (script, root, folder, place)),
        programs,
        *command,
    ]


def keep(base: Path, arm: str, name: str, command: str, output: bytes) -> None:
    """Appends one call to the conversation and prints its output."""
    kept = base / "tasks" / name / "conversations" / f"{arm}-{name}.jsonl"
    kept.parent.mkdir(exist_ok=True)
    entry = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": command,
        "bytes_out": len(output),
        "output": output.decode(errors="replace"),
    }
    with kept.open("a") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()


def look(base: Path, arm: str, name: str, words: list[str]) -> int:
    """Runs a shell command (one word as it is, several quoted and joined); its exit status."""
    command = words[0] if len(words) == 1 else shlex.join(words)
    with tempfile.TemporaryDirectory() as root:
        watched = sandboxed(base, arm, name, root, ["bash", "-c", command])
        try:
            done = subprocess.run(
                watched,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
            )
            output, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as late:
            output = (late.stdout or b"") + f"\n(ended after {SECONDS} s)\n".encode()
            status = 124
    keep(base, arm, name, command, output)
    return status


def model_text(answer: dict[str, Any]) -> str:
    """The text of a tools/call result, as a model gets it; other content by kind and address."""
    parts = []
    for content in answer.get("content", []):
        if content["type"] == "text":
            parts.append(content["text"])
        elif content["type"] == "resource":
            parts.append(content["resource"].get("text", content["resource"]["uri"]))
        else:
            parts.append(f"[{content['type']} {content.get('uri', '')}]")
    return "\n".join(parts)


def tool(base: Path, name: str, tool_name: str | None, arguments: str) -> int:
    """One tools/call (without a name: tools/list) in a session of its own; 1 for an error."""
    with tempfile.TemporaryDirectory() as root:
        serve = ["mpnanny", "serve", "--root", str(base / "tasks" / name)]
        with Client(sandboxed(base, "C", name, root, serve), SECONDS) as client:
            if tool_name is None:
                command, failed = "tools/list", False
                told = [
                    {key: entry[key] for key in ("name", "description", "inputSchema")}
                    for entry in client.tools()
                ]
                lines = [
                    client.instructions,
                    *(json.dumps(entry, ensure_ascii=False) for entry in told),
                ]
                text = "\n".join(line for line in lines if line)
            else:
                command = f"{tool_name} {arguments}"
                try:
                    given = json.loads(arguments)
                except json.JSONDecodeError as error:
                    text, failed = f"the arguments are not JSON: {error}", True
                else:
                    answer = client.call(tool_name, given)
                    text, failed = model_text(answer), bool(answer.get("isError"))
    keep(base, "C", name, command, (text + "\n").encode())
    return int(failed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, default=os.environ.get("AGENTS_DIR", "."))
    actions = parser.add_subparsers(dest="action", required=True)
    looking = actions.add_parser("look")
    looking.add_argument("arm", choices=["A", "B"])
    looking.add_argument("name")
    looking.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    calling = actions.add_parser("tool")
    calling.add_argument("name")
    calling.add_argument("tool", nargs="?")
    calling.add_argument("arguments", nargs="?", default="{}", metavar="JSON")
    calling.add_argument("--list", action="store_true")
    making = actions.add_parser("arms")
    making.add_argument("names", nargs="*")
    given = parser.parse_args()
    base = Path(given.dir).resolve()
    names = getattr(given, "names", None) or [getattr(given, "name", "")]
    if given.action == "arms":
        names = given.names or sorted(path.name for path in (base / "tasks").iterdir())
    for name in names:
        if Path(name).name != name or not (base / "tasks" / name / "train.py").exists():
            parser.error(f"no task {name!r} in {base / 'tasks'}")
    if given.action == "look":
        if not given.words:
            parser.error("look needs a command")
        return look(base, given.arm, given.name, given.words)
    if given.action == "tool":
        if given.list == (given.tool is not None):
            parser.error("tool needs the name of a tool, or --list")
        return tool(base, given.name, given.tool, given.arguments)
    for arm in SEEN:
        for name in names:
            link_folder(base, arm, name, anew=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
