"""Drives the built programs with the official Python client: each of its modes, both transports,
and started as `mpnanny install` tells each client.

Usage: run_python.py --program MPNANNY --fixtures MPNANNY_CONFORMANCE

The client checks every structured result against the tool's output schema by itself. Prints each
check that fails and a last line `N passed, N failed`; exits 1 if one failed.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterator

import fixture_checks
import install_checks
import product_checks
from mcp import Client, MCPDeprecationWarning, StdioServerParameters
from product_checks import HERE, MODERN


@dataclasses.dataclass
class Tally:
    passed: int = 0
    failed: int = 0

    async def count(self, name: str, check: Awaitable[None], limit_s: float = 60) -> None:
        try:
            await asyncio.wait_for(check, limit_s)
            self.passed += 1
        except Exception:  # noqa: BLE001 - a check that fails is counted, whatever it raised
            self.failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")


@contextlib.contextmanager
def http_server(command: list[str]) -> Iterator[str]:
    """Runs the command with --http on a free port; gives its URL."""
    process = subprocess.Popen(
        [*command, "--http", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    try:
        for line in process.stderr:
            if found := re.search(r"listening on (http:\S+)", line):
                yield found.group(1)
                break
        else:
            raise RuntimeError(f"{command[0]} does not listen")
    finally:
        process.terminate()
        rest = process.stderr.read()
        if process.wait(30) != 0:
            raise RuntimeError(f"{command[0]} ended with {process.returncode}: {rest}")


async def check_mode(mode: str, version: str) -> None:
    if (version == MODERN) == (mode == "legacy"):
        raise AssertionError(f"mode {mode} ended with revision {version}")


async def run_product(server: StdioServerParameters | str, where: str, tally: Tally) -> None:
    for mode in ("legacy", "auto", MODERN):
        async with Client(server, mode=mode) as client:
            name = f"mpnanny over {where}, python {mode}: "
            await tally.count(name + "revision", check_mode(mode, client.protocol_version))
            for check in product_checks.CHECKS:
                if mode == MODERN and check is product_checks.the_server_says_who_it_is:
                    continue  # a pinned client asks nothing before its first call
                await tally.count(name + check.__name__.replace("_", " "), check(client))


async def run_fixtures(server: StdioServerParameters | str, where: str, tally: Tally) -> None:
    for mode in ("legacy", "auto"):
        answers = fixture_checks.Answers()
        async with Client(server, mode=mode, **answers.arguments()) as client:
            name = f"fixtures over {where}, python {mode}: "
            await tally.count(name + "revision", check_mode(mode, client.protocol_version))
            for check in fixture_checks.CHECKS:
                await tally.count(name + check.__name__.replace("_", " "), check(client, answers))


Run = Callable[[StdioServerParameters | str, str, Tally], Awaitable[None]]


async def over_http(command: list[str], checks: Run, tally: Tally) -> None:
    with http_server(command) as url:
        await checks(url, "HTTP", tally)


async def run(program: str, fixtures: str) -> Tally:
    tally = Tally()
    product = [program, "serve", "--root", str(HERE)]
    runs: list[tuple[list[str], Run]] = [(product, run_product), ([fixtures], run_fixtures)]
    for command, checks in runs:
        stdio = StdioServerParameters(command=command[0], args=command[1:])
        await checks(stdio, "stdio", tally)
        await tally.count(f"{command[0]}: HTTP to its end", over_http(command, checks, tally), 900)
    for client in install_checks.FILES:
        check = install_checks.installs_works_and_is_undone(program, client)
        await tally.count(f"install {client}", check)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the built mpnanny")
    parser.add_argument("--fixtures", required=True, help="the built mpnanny-conformance")
    options = parser.parse_args()
    # Legacy clients go on using what the newest revision has taken out.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    tally = asyncio.run(run(options.program, options.fixtures))
    print(f"{tally.passed} passed, {tally.failed} failed")
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
