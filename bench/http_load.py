#!/usr/bin/env python3
"""tools/call over HTTP under load: mpnanny's core beside the official SDKs' servers.

See bench/README.md.

Usage: bench/http_load.py --bin build/release/bin [--rounds 3] [--seconds 2]
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONNECTIONS = (1, 4, 8)
LISTENERS = (0, 200)


@dataclasses.dataclass
class Server:
    name: str
    command: list[str]
    process: subprocess.Popen[str] | None = None
    port: int = 0
    start_mb: float = 0
    end_mb: float = 0
    # By (connections, listeners), one entry a round.
    runs: dict[tuple[int, int], list[dict[str, float]]] = dataclasses.field(default_factory=dict)

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        for line in self.process.stderr:
            if found := re.search(r"listening on http://[^:]+:(\d+)", line):
                self.port = int(found.group(1))
                break
        else:
            sys.exit(f"{self.name} does not listen")
        self.start_mb = self.resident_mb()

    def resident_mb(self) -> float:
        assert self.process
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]

    def measure(self, load: str, connections: int, listeners: int, seconds: float) -> None:
        command = [load, str(self.port), str(connections), str(listeners), str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{self.name}, {connections} connections: {done.stderr.strip()}")
        self.runs.setdefault((connections, listeners), []).append(json.loads(done.stdout))

    def median(self, key: tuple[int, int], figure: str) -> float:
        return statistics.median(run[figure] for run in self.runs[key])


def servers(programs: pathlib.Path) -> list[Server]:
    address = ["--http", "127.0.0.1:0"]
    python = [str(ROOT / ".venv/bin/python"), str(ROOT / "bench/peers/echo_python.py"), "--http"]
    found = [
        Server("mpnanny", [str(programs / "mpnanny-conformance"), *address]),
        Server("Python SDK", python),
    ]
    if node := node_command():
        found.insert(1, Server("TypeScript SDK", [*node, "--http"]))
    return found


def node_command() -> list[str] | None:
    """The TypeScript peer's command line, without its transport; None if it cannot be set up."""
    packages = "@modelcontextprotocol/server@2.4.0 @modelcontextprotocol/node@2.1.2 zod@4.6.7"
    setup = subprocess.run(
        [
            "bash",
            "-ec",
            f". tests/clients/node_setup.sh >&2; npm_packages .deps/node/bench {packages} >&2;"
            ' printf %s "$NODE"',
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if setup.returncode != 0:
        print("Node and the TypeScript SDK could not be set up: it is left out", file=sys.stderr)
        return None
    return [
        setup.stdout,
        str(ROOT / "bench/peers/echo_typescript.mjs"),
        str(ROOT / ".deps/node/bench"),
    ]


def print_table(measured: list[Server]) -> None:
    keys = list(itertools.product(LISTENERS, CONNECTIONS))
    print(
        f"{'':16}" + "".join(f"{f'{c} conn, {n} listen':>20}" for n, c in keys) + f"{'RSS MB':>14}"
    )
    for server in measured:
        rates = "".join(f"{server.median((c, n), 'per_second'):>18.0f}/s" for n, c in keys)
        print(f"{server.name:16}{rates}{f'{server.start_mb:.1f} -> {server.end_mb:.1f}':>14}")
    for figure in ("p50_us", "p99_us"):
        for server in measured:
            cells = "".join(f"{server.median((c, n), figure):>17.0f} µs" for n, c in keys)
            print(f"{f'  {figure[:3]}':6}{server.name[:10]:10}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True, help="folder of mpnanny-conformance and bench-http")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="how long each measurement takes")
    options = parser.parse_args()
    programs = pathlib.Path(options.bin).resolve()
    measured = servers(programs)
    try:
        for server in measured:
            server.start()
        for _ in range(options.rounds):
            for connections, listeners in itertools.product(CONNECTIONS, LISTENERS):
                for server in measured:
                    load = str(programs / "bench-http")
                    server.measure(load, connections, listeners, options.seconds)
        for server in measured:
            server.end_mb = server.resident_mb()
        print_table(measured)
    finally:
        for server in measured:
            if server.process:
                server.process.terminate()
                server.process.communicate(timeout=30)
    print(f"medians of {options.rounds} rounds of {options.seconds:g} s, interleaved")


if __name__ == "__main__":
    main()
