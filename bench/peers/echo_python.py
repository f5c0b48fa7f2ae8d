"""A one-tool server with PyPI's official SDK, for bench/. Usage: echo_python.py [--http]

Over HTTP as its documentation suggests for many clients: stateless, JSON replies, uvicorn.
"""

import asyncio
import sys

from mcp.server import MCPServer

server = MCPServer("echo", log_level="WARNING")


@server.tool()
def echo(text: str) -> str:
    """Returns its text."""
    return text


async def serve_http() -> None:
    import uvicorn  # noqa: PLC0415 - not needed, and not paid for, over stdio

    app = server.streamable_http_app(stateless_http=True, json_response=True)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False)
    http = uvicorn.Server(config)
    serving = asyncio.create_task(http.serve())
    while not http.started:
        await asyncio.sleep(0.01)
    port = http.servers[0].sockets[0].getsockname()[1]
    print(f"listening on http://127.0.0.1:{port}/mcp", file=sys.stderr, flush=True)
    await serving


if __name__ == "__main__":
    if "--http" in sys.argv:
        asyncio.run(serve_http())
    else:
        server.run("stdio")
