"""`mpnanny install` as a client sees it: what lies in the file is started by the official client.

Every client gets a home of its own with a file that already has a server in it. The command and the
arguments are read back from the file by Python's own readers, not by ours.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
from typing import Any

from mcp import Client, StdioServerParameters
from product_checks import HERE, TOOLS

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

STRICT = '{\n    "numStartups": 3,\n    "mcpServers": {"other": {"command": "x", "args": []}}\n}\n'
LENIENT = """// mine
{
\t"other": [1, 2,],
\t// servers
\t"KEY": {
\t\t"other": {"command": "x"}, // "mpnanny": {}
\t},
}
"""
TOML = '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y"\n\n[tui]\ntheme = "z"'

# Client -> its file below the home, what is in it, the key of its servers.
FILES = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", STRICT, "mcpServers"),
    "claude-code": (".claude.json", STRICT, "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", LENIENT, "servers"),
    "cursor": (".cursor/mcp.json", STRICT, "mcpServers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", STRICT, "mcpServers"),
    "zed": (".config/zed/settings.json", LENIENT, "context_servers"),
    "codex": (".codex/config.toml", TOML, "mcp_servers"),
    "gemini": (".gemini/settings.json", LENIENT, "mcpServers"),
}


def read(text: str, path: pathlib.Path) -> dict[str, Any]:
    if path.suffix == ".toml":
        return tomllib.loads(text)
    text = re.sub(r"//.*", "", text)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))


async def installs_works_and_is_undone(program: str, client_name: str) -> None:
    file, before, key = FILES[client_name]
    before = before.replace("KEY", key)
    with tempfile.TemporaryDirectory() as home:
        path = pathlib.Path(home, file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(before.encode())
        environment = {k: v for k, v in os.environ.items() if k != "XDG_CONFIG_HOME"}
        environment["HOME"] = home

        def install(*words: str) -> str:
            command = [program, "install", client_name, *words]
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        install("--root", str(HERE))
        content = read(path.read_text(), path)
        rest = read(before, path)
        entry = content[key].pop("mpnanny")
        assert content == rest, content
        server = StdioServerParameters(command=entry["command"], args=entry["args"])
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
        assert TOOLS <= {tool.name for tool in tools}, tools
        written = path.read_bytes()
        assert "already there" in install("--root", str(HERE))
        assert path.read_bytes() == written
        install("--undo")
        assert path.read_bytes() == before.encode(), path.read_text()
        assert [found for found in path.parent.iterdir() if found.is_file()] == [path]
