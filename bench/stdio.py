#!/usr/bin/env python3
"""Start, memory and tools/call over stdio: mpnanny beside the official SDKs' servers.

See bench/README.md.

Usage: bench/stdio.py --bin build/release/bin [--starts 15] [--calls 2000] [--rounds 5]
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tests/clients/training_script.py"
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


@dataclasses.dataclass
class Server:
    name: str
    command: list[str]
    tool: str
    arguments: dict[str, object]
    is_server: bool = True  # False: it sends back what it gets, which measures the client alone
    start_ms: list[float] = dataclasses.field(default_factory=list)
    start_mb: list[float] = dataclasses.field(default_factory=list)
    end_mb: list[float] = dataclasses.field(default_factory=list)
    p50_us: list[float] = dataclasses.field(default_factory=list)
    p99_us: list[float] = dataclasses.field(default_factory=list)
    per_second: list[float] = dataclasses.field(default_factory=list)


def message(number: int, method: str, params: dict[str, object]) -> bytes:
    return (
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
        + b"\n"
    )


class Process:
    """One running server; `start_ms` is the time from starting it to its first reply."""

    def __init__(self, server: Server) -> None:
        first = message(0, "initialize", INITIALIZE)
        start = time.perf_counter()
        self.process = subprocess.Popen(
            server.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        reply = self.exchange(first)
        self.start_ms = (time.perf_counter() - start) * 1e3
        if server.is_server and b'"result"' not in reply:
            sys.exit(f"{server.name} does not start: {reply[:200]!r}")
        if server.is_server:
            self.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def exchange(self, line: bytes) -> bytes:
        self.stdin.write(line)
        return self.stdout.readline()

    def resident_mb(self) -> float:
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return (
            next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
            / 1024
        )

    def close(self) -> None:
        self.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def measure_start(server: Server) -> None:
    process = Process(server)
    server.start_ms.append(process.start_ms)
    server.start_mb.append(process.resident_mb())
    process.close()


def measure_calls(server: Server, calls: int) -> None:
    process = Process(server)
    line = message(1, "tools/call", {"name": server.tool, "arguments": server.arguments})
    reply = b""
    for _ in range(min(200, calls)):  # caches and, in the peers, compilers warm up
        reply = process.exchange(line)
    answer = json.loads(reply)
    if server.is_server and ("result" not in answer or answer["result"].get("isError")):
        sys.exit(f"{server.name} does not answer {server.tool}: {reply[:300]!r}")
    times = []
    begin = time.perf_counter()
    for _ in range(calls):
        start = time.perf_counter()
        process.exchange(line)
        times.append((time.perf_counter() - start) * 1e6)
    total = time.perf_counter() - begin
    times.sort()
    server.p50_us.append(times[len(times) // 2])
    server.p99_us.append(times[int(len(times) * 0.99)])
    server.per_second.append(calls / total)
    server.end_mb.append(process.resident_mb())
    process.close()


def servers(programs: pathlib.Path, folder: str) -> list[Server]:
    serve = [
        str(programs / "mpnanny"),
        "serve",
        "--root",
        folder,
        "--root",
        str(SCRIPT.parent),
    ]
    python = [str(ROOT / ".venv/bin/python"), str(ROOT / "bench/peers/echo_python.py")]
    found = [
        Server("mpnanny, echo", [str(programs / "mpnanny-conformance")], "echo", {"text": "x"}),
        Server("mpnanny, list_runs", serve, "list_runs", {"path": folder}),
        Server("mpnanny, static_check", serve, "static_check", {"paths": [str(SCRIPT)]}),
        Server("Python SDK, echo", python, "echo", {"text": "x"}),
        Server("the client alone", ["cat"], "echo", {"text": "x"}, is_server=False),
    ]
    setup = subprocess.run(
        ["bash", "-ec", '. tests/clients/node_setup.sh >&2; printf %s "$NODE"'],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if setup.returncode == 0:
        script = str(ROOT / "bench/peers/echo_typescript.mjs")
        found.append(
            Server(
                "TypeScript SDK, echo",
                [setup.stdout, script, str(ROOT / ".deps/node")],
                "echo",
                {"text": "x"},
            )
        )
    else:
        print(
            "Node and the TypeScript SDK could not be set up: that peer is left out",
            file=sys.stderr,
        )
    return found


def print_table(measured: list[Server]) -> None:
    columns = ["start_ms", "start_mb", "end_mb", "p50_us", "p99_us", "per_second"]
    titles = ["start ms", "RSS MB", "RSS after", "p50 µs", "p99 µs", "calls/s"]
    print(f"{'':24}" + "".join(f"{title:>18}" for title in titles))
    base = {column: statistics.median(getattr(measured[0], column)) for column in columns}
    for server in measured:
        cells = ""
        for column in columns:
            value = statistics.median(getattr(server, column))
            ratio = "" if server is measured[0] else f" ({value / base[column]:.2g}x)"
            cells += f"{f'{value:.4g}' + ratio:>18}"
        print(f"{server.name:24}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="folder of mpnanny and mpnanny-conformance")
    parser.add_argument("--starts", type=int, default=15, help="starts of each server")
    parser.add_argument("--calls", type=int, default=2000, help="calls of each server in a round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of calls")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = servers(pathlib.Path(options.bin).resolve(), folder)
        for _ in range(options.starts):
            for server in measured:
                measure_start(server)
        for _ in range(options.rounds):
            for server in measured:
                measure_calls(server, options.calls)
        print_table(measured)
    print(
        f"medians of {options.starts} starts and {options.rounds} rounds "
        f"of {options.calls} calls, interleaved"
    )


if __name__ == "__main__":
    main()
