"""The demo's conversation: an AI agent asks mpnanny over MCP, through the official Python client.

Nothing is prepared: every answer is the built server's, about the code and the run that are named.

Usage: demo_agent.py --program build/release/bin/mpnanny --review FILE_OR_FOLDER --run DATABASE
"""

import argparse
import asyncio
import json
import pathlib
import sys
import time
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult

BOLD, DIM, RESET = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


def heading(text: str) -> None:
    print(f"\n{BOLD}{'─' * 4} {text} {'─' * max(4, 100 - len(text))}{RESET}")


def shown(text: str) -> None:
    for line in text.rstrip().splitlines():
        print(f"  {line}")


class Conversation:
    """Calls tools and prints each call and its answer as a person would want to read them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        print(f"{DIM}agent → {tool} {json.dumps(arguments, ensure_ascii=False)}{RESET}")
        start = time.perf_counter()
        result: CallToolResult = await self.client.call_tool(tool, arguments)
        took = (time.perf_counter() - start) * 1e3
        text = "\n".join(block.text for block in result.content if block.type == "text")
        shown(text)
        print(f"{DIM}        ({took:.1f} ms, {len(text.encode())} bytes of text){RESET}")
        if result.is_error:
            sys.exit(f"demo: {tool} answered with an error")
        return result.structured_content or {}


async def converse(program: str, review: pathlib.Path, run: pathlib.Path) -> None:
    roots = {str(review if review.is_dir() else review.parent), str(run.parent)}
    server = StdioServerParameters(
        command=program,
        args=["serve", *(part for root in sorted(roots) for part in ("--root", root))],
    )
    async with Client(server) as client:
        talk = Conversation(client)
        info = client.server_info
        tools = [tool.name for tool in (await client.list_tools()).tools]
        heading("The agent connects")
        print(f"  {info.name} {info.version}, protocol {client.protocol_version}")
        print(f"  tools: {', '.join(tools)}")

        heading(f"User: review my training code ({review.name})")
        await talk.call("static_check", {"paths": [str(review)]})

        heading("User: why did my loss go NaN?")
        await talk.call("list_runs", {"path": str(run)})
        arguments: dict[str, Any] = {
            "run": str(run),
            "question": "Why did my loss go NaN?",
        }
        if review.name == "demo_training.py":  # the code of this very run
            arguments["paths"] = [str(review)]
        diagnosis = await talk.call("diagnose_run", arguments)

        heading("User: has anyone seen this before? (in Chinese: 前向溢出，损失变成 NaN)")
        await talk.call("search_knowledge", {"query": "前向激活溢出 损失变成 nan"})

        causes = [each["cause"] for each in diagnosis.get("hypotheses") or [] if each["cause"]]
        if causes:
            uri = f"mpnanny://knowledge/{causes[0]}"
            heading(f"User: show me that case ({uri})")
            contents = (await client.read_resource(uri)).contents
            shown("\n".join(part.text for part in contents if hasattr(part, "text")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--review", required=True, type=pathlib.Path)
    parser.add_argument("--run", required=True, type=pathlib.Path)
    args = parser.parse_args()
    asyncio.run(converse(args.program, args.review.resolve(), args.run.resolve()))


if __name__ == "__main__":
    main()
