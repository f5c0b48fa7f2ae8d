"""A one-tool server with PyPI's official SDK, for bench/stdio.py."""

from mcp.server import MCPServer

server = MCPServer("echo")


@server.tool()
def echo(text: str) -> str:
    """Returns its text."""
    return text


if __name__ == "__main__":
    server.run("stdio")
