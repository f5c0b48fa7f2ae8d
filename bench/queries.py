#!/usr/bin/env python3
"""Questions about a large recording: time of every tool's typical question, and memory.

See bench/README.md.

Usage: bench/queries.py --bin build/release/bin --db /tmp/queries.db [--calls 40] [--no-cold]
"""

import argparse
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

Json = dict[str, object]


@dataclasses.dataclass
class Question:
    name: str
    tool: str
    arguments: Json  # "%d" in a string stands for a number that changes with every call
    budget_ms: float | None = 10


def questions(database: str, layers: int, steps: int) -> list[Question]:
    run = {"run": f"{database}#1"}
    layer = {"layers": [f"blocks.%d.attn.{'q' if layers > 20 else 'k'}"]}
    at = str(steps // 50 * 40)
    middle = f"{steps // 2}..{steps // 2 + steps // 10}"
    typical = [
        Question("list_runs", "list_runs", {"path": database}),
        Question("run_summary", "run_summary", run),
        Question("query_alerts", "query_alerts", run),
        Question("query_alerts, errors", "query_alerts", run | {"severity": ["ERROR"]}),
        Question("one layer, all steps", "query_stats", run | layer),
        Question("one layer, a tenth", "query_stats", run | layer | {"steps": middle}),
        Question("loss", "query_stats", run | {"metric": "loss"}),
        Question("top 5 layers at a step", "query_stats", run | {"top": 5, "steps": at}),
        Question("top 5 layers of the run", "query_stats", run | {"top": 5}),
        Question("blocks", "query_stats", run | {"aggregate": "block", "kinds": ["gradient"]}),
        Question(
            "distribution",
            "query_stats",
            run | layer | {"metric": "distribution", "steps": at},
        ),
        Question("diagnose_run: first bad step", "diagnose_run", run, 100),
        Question("compare_runs, with itself", "compare_runs", {"a": run["run"], "b": run["run"]}),
    ]
    return typical


class Server:
    """One running `mpnanny serve` on stdio."""

    def __init__(self, program: pathlib.Path, root: pathlib.Path) -> None:
        self.process = subprocess.Popen(
            [program, "serve", "--root", root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self.number = 0
        client = {"name": "bench", "version": "1"}
        self.ask(
            "initialize",
            {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client},
        )
        listed = self.ask("tools/list", {})
        self.tools = {tool["name"] for tool in listed["result"]["tools"]}

    def ask(self, method: str, params: Json) -> dict:
        assert self.process.stdin and self.process.stdout
        self.number += 1
        line = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        while True:
            reply = json.loads(self.process.stdout.readline())
            if reply.get("id") == self.number:
                return reply

    def kilobytes(self, field: str) -> int:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(li.split()[1]) for li in status.splitlines() if li.startswith(field))

    def processor_ms(self) -> float:
        stat = pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()
        threads = pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(t.read_text().split()[0]) for t in threads) / 1e6 if stat else 0.0

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(10)


def forget(database: pathlib.Path) -> None:
    """Drops the file's pages from the system's cache; no privilege is needed for a clean file."""
    handle = os.open(database, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def remember(database: pathlib.Path) -> None:
    """Reads the file once, so that its pages lie in the system's cache where there is room."""
    with database.open("rb") as file:
        while file.read(1 << 24):
            pass


def numbered(arguments: Json, number: int) -> Json:
    return json.loads(json.dumps(arguments).replace("%d", str(number)))


@dataclasses.dataclass
class Times:
    wall: list[float] = dataclasses.field(default_factory=list)
    busy: list[float] = dataclasses.field(default_factory=list)

    def row(self) -> str:
        cut = [sorted(self.wall), sorted(self.busy)]
        p95 = [values[min(len(values) - 1, int(len(values) * 0.95))] for values in cut]
        return (
            f"{statistics.median(cut[0]):.1f} / {p95[0]:.1f} | "
            f"{statistics.median(cut[1]):.1f} / {p95[1]:.1f}"
        )


def measure(server: Server, question: Question, calls: int, blocks: int) -> Times:
    """A server that was asked before."""
    times = Times()
    for call in range(calls + 2):
        arguments = numbered(question.arguments, call * 7 % blocks)
        busy, start = server.processor_ms(), time.perf_counter()
        reply = server.ask("tools/call", {"name": question.tool, "arguments": arguments})
        took = (time.perf_counter() - start) * 1e3
        if "result" not in reply or reply["result"].get("isError"):
            sys.exit(f"{question.name}: {json.dumps(reply)[:400]}")
        if call >= 2:  # the first two warm up
            times.wall.append(took)
            times.busy.append(server.processor_ms() - busy)
    return times


def first(
    program: pathlib.Path, database: pathlib.Path, question: Question, calls: int, cold: bool
) -> Times:
    """The tool itself, without a server, in a process that was never asked anything before."""
    times = Times()
    listed = database.with_suffix(".calls")
    for call in range(calls):
        if cold:
            forget(database)
        arguments = numbered(question.arguments, call * 7 % 50)
        listed.write_text(json.dumps({"tool": question.tool, "args": arguments}))
        command = [program, "time", database, listed]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        wall, busy = (float(word) for word in printed.split())
        times.wall.append(wall)
        times.busy.append(busy)
    listed.unlink()
    return times


def memory(program: pathlib.Path, database: pathlib.Path, asked: list[Question]) -> tuple[int, int]:
    """Resident kilobytes of a server after every question, and the most it ever had."""
    server = Server(program, database.parent)
    for question in asked:
        if question.tool in server.tools:
            measure(server, question, 3, 40)
    result = server.kilobytes("VmRSS"), server.kilobytes("VmHWM")
    server.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--db", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--cold", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    maker, program = options.bin / "bench-queries", options.bin / "mpnanny"
    database = options.db.absolute()
    small = database.with_name("small_" + database.name)
    for path, samples in ((database, options.samples), (small, 10)):
        if not path.exists():
            size = ["--layers", str(options.layers), "--samples", str(samples)]
            subprocess.run([maker, "make", path, *size], check=True)

    asked = questions(str(database), options.layers, options.samples * 100)
    blocks = max(1, options.layers // 20)
    few = max(5, options.calls // 4)
    rows = options.layers * options.samples
    print(f"{rows} rows, {database.stat().st_size >> 20} MiB; load {os.getloadavg()[0]:.1f}")
    # Nothing that drops pages comes before what is to find them.
    remember(database)
    warm: dict[str, list[str]] = {}
    server = Server(program, database.parent)
    for question in (one for one in asked if one.tool in server.tools):
        again = measure(server, question, options.calls, blocks)
        alone = first(maker, database, question, few, cold=False)
        warm[question.name] = [again.row(), alone.row()]
    server.close()
    print("| question | server | its processor | first | its processor | cold | its processor |")
    print("|---|---|---|---|---|---|---|")
    for question in (one for one in asked if one.name in warm):
        cells = "– | –"
        if options.cold:
            cells = first(maker, database, question, few, cold=True).row()
        print(f"| {question.name} | {' | '.join(warm[question.name])} | {cells} |", flush=True)
    for path, these in ((small, questions(str(small), options.layers, 1000)), (database, asked)):
        resident, most = memory(program, path, these)
        print(f"{path.name}: {resident / 1024:.1f} MB resident after, {most / 1024:.1f} MB at most")


if __name__ == "__main__":
    main()
