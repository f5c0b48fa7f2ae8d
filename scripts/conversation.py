"""A conversation about a broken run, as a desktop client has it over stdio, written down whole.

Trains the demo's model until its loss is NaN (about 20 s), watched by the monitor; starts the built
server as Claude Desktop does; and asks: which runs are there, why did it break, the numbers behind
it, the documented case. Each question is made from the answer before it. Every answer is printed as
it came, text and structuredContent, with its size.

Usage: conversation.py [--program FILE] [--run-folder DIR]
                       [--out bench/evaluations/conversation/README.md]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT = 8000  # bytes of text and of structuredContent
# What stands in the document for folders of the machine that it was made on.
PROJECT = "/home/you/projects"
REPOSITORY = "/home/you/mpnanny"


@dataclass
class Exchange:
    """One call of a tool and the whole of its answer."""

    tool: str
    arguments: dict[str, Any]
    text: str
    structured: dict[str, Any]
    raw: str  # structuredContent as the server wrote it
    milliseconds: float

    @property
    def text_bytes(self) -> int:
        return len(self.text.encode())

    @property
    def structured_bytes(self) -> int:
        return len(self.raw.encode())


class Server:
    """`mpnanny serve`, spoken to in lines of JSON as desktop clients do."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [program, "serve", "--root", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.last_id = -1
        self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "claude-ai", "version": "0.1.0"},
            },
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdout is not None
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") != self.last_id:
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            return {"line": line, **answer["result"]}
        raise RuntimeError(f"{method}: the server ended")

    def call(self, tool: str, arguments: dict[str, Any]) -> Exchange:
        began = time.perf_counter()
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - began) * 1e3
        text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
        if result.get("isError"):
            raise RuntimeError(f"{tool} {arguments}: {text}")
        raw = json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":"))
        return Exchange(tool, arguments, text, result["structuredContent"], raw, took)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)


def train(folder: pathlib.Path) -> str:
    """The demo's training, recorded by the monitor; what it printed."""
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "scripts" / "demo_training.py",
            "--db",
            folder / "nanny_logs" / "metrics.db",
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


def converse(program: pathlib.Path, folder: pathlib.Path) -> list[Exchange]:
    """Asks about the newest run below `folder`; every question follows from the answer before."""
    server = Server(program, folder)
    try:
        said = [server.call("list_runs", {"path": "."})]
        run = said[-1].structured["runs"][0]["run"]
        said.append(
            server.call("diagnose_run", {"run": run, "question": "Why did my loss go NaN?"})
        )
        diagnosis = said[-1].structured
        first = diagnosis["first_bad"]
        step = first["step"]
        said.append(
            server.call(
                "query_stats",
                {
                    "run": run,
                    "metric": "absmax",
                    "layers": [first["layer"] or "*"],
                    "steps": f"{max(0, step - 60)}..{step + 5}",
                },
            )
        )
        said.append(server.call("search_knowledge", {"query": diagnosis["hypotheses"][0]["title"]}))
        return said
    finally:
        server.close()


QUESTIONS = {
    "list_runs": "My loss is NaN. Which runs are there?",
    "diagnose_run": "The newest one ended badly. Why?",
    "query_stats": "It names a layer. What did that layer do before it broke?",
    "search_knowledge": "Is this a known failure, and what fixes it?",
}


INTRODUCTION = f"""# A conversation about a broken run

Made by `scripts/conversation.py`, nothing edited: a real training (`scripts/demo_training.py`, a
small transformer in FP16 on a CPU, watched by the monitor) that ends in NaN, and the built server
asked over stdio with the messages of a desktop client. Each question is made from the answer before
it. Every answer is shown whole: the text, which a model reads, and `structuredContent`, which
programs read; each has at most {LIMIT:,} bytes. Only folders have other names here than they had:
the run's is `{PROJECT}`, this repository's `{REPOSITORY}`. Sizes are those of the answers
as they came.
"""


def document(said: list[Exchange], folder: pathlib.Path) -> str:
    lines = [*INTRODUCTION.splitlines(), ""]
    lines += ["| asked | text | `structuredContent` | time |", "|---|---|---|---|"]
    for one in said:
        sizes = f"{one.text_bytes:,} bytes | {one.structured_bytes:,} bytes"
        lines.append(f"| `{one.tool}` | {sizes} | {one.milliseconds:.1f} ms |")
    for one in said:
        lines += [
            "",
            f"## {QUESTIONS[one.tool]}",
            "",
            f"`{one.tool}` `{json.dumps(one.arguments, ensure_ascii=False)}`",
            "",
            "````text",
            one.text.rstrip(),
            "````",
            "",
            "<details><summary>structuredContent</summary>",
            "",
            "````json",
            json.dumps(one.structured, ensure_ascii=False, indent=1),
            "````",
            "",
            "</details>",
        ]
    text = "\n".join(lines) + "\n"
    text = text.replace(str(folder), PROJECT)
    return text.replace(str(ROOT), REPOSITORY)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "mpnanny"
    )
    parser.add_argument("--run-folder", type=pathlib.Path, help="ask about a run that is there")
    parser.add_argument("--out", type=pathlib.Path, help="write the document there")
    args = parser.parse_args()
    folder = (args.run_folder or pathlib.Path(tempfile.mkdtemp())).resolve()
    if args.run_folder is None:
        train(folder)
    said = converse(args.program, folder)
    text = document(said, folder)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    if args.run_folder is None:
        shutil.rmtree(folder)
    for one in said:
        if max(one.text_bytes, one.structured_bytes) > LIMIT:
            sys.exit(f"{one.tool}: an answer is larger than {LIMIT} bytes")


if __name__ == "__main__":
    main()
