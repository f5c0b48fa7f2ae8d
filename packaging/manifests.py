"""What release files say of themselves: METADATA of a wheel, manifest.json, server.json."""

import re
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(mpnanny VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def metadata(readme: str) -> str:
    """METADATA of the wheel (core metadata 2.4)."""
    lines = [
        "Metadata-Version: 2.4",
        "Name: mpnanny",
        f"Version: {VERSION}",
        f"Summary: {PROJECT['description']}",
        f"License-Expression: {PROJECT['license']}",
        "License-File: LICENSE",
        "License-File: THIRD_PARTY_LICENSES.txt",
        f"Requires-Python: {PROJECT['requires-python']}",
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + readme


def manifest(tools: list[dict], server: dict, platforms: list[str], settings: dict) -> dict:
    """manifest.json: what a bundle shows, how its server starts, what it asks the user for."""
    return {
        "manifest_version": "0.3",
        "name": "mpnanny",
        "display_name": "MixedPrecisionNanny",
        "version": VERSION,
        "description": PROJECT["description"],
        "author": {"name": "The mpnanny authors"},
        "license": PROJECT["license"],
        "keywords": ["pytorch", "mixed-precision", "fp16", "bf16", "fp8", "nan", "debugging"],
        "server": server,
        "tools": tools,
        "prompts_generated": True,
        "compatibility": {"platforms": platforms},
        "user_config": settings,
    }


# Where the bundle for a desktop holds the program of each system.
DESKTOP = {"darwin": "server/macos/mpnanny", "win32": "server/windows/mpnanny.exe"}

ROOTS = {
    "type": "directory",
    "title": "Folders",
    "description": "Where your code and your runs lie. mpnanny reads nothing else.",
    "multiple": True,
    "required": True,
}


def _binary(program: str) -> dict:
    """A server that is a program of the bundle."""
    config = {
        "command": "${__dirname}/" + program,
        "args": ["serve", "${user_config.roots}"],
        "env": {},
    }
    return {"type": "binary", "entry_point": program, "mcp_config": config}


def local_manifest(tools: list[dict]) -> dict:
    """Of the bundle that holds the programs, for a client on the machine where the code lies."""
    return manifest(tools, _binary("server/bin/mpnanny"), ["linux"], {"roots": ROOTS})


def desktop_manifest(tools: list[dict], systems: list[str]) -> dict:
    """The same for a Mac or PC: of `systems` each has a program of its own."""
    server = _binary(DESKTOP[systems[0]])
    others = {
        system: {"command": "${__dirname}/" + DESKTOP[system]}
        for system in systems
        if system != systems[0]
    }
    if others:
        server["mcp_config"]["platform_overrides"] = others
    return manifest(tools, server, systems, {"roots": ROOTS})


def ssh_manifest(tools: list[dict]) -> dict:
    """Of the bundle for a client elsewhere: by ssh it starts mpnanny where the code lies."""
    script = "server/start.mjs"
    names = ["host", "program", "folders"]
    config = {
        "command": "node",
        "args": ["${__dirname}/" + script, *("${user_config." + name + "}" for name in names)],
        "env": {},
    }
    settings = {
        "host": {
            "type": "string",
            "title": "Host",
            "description": "The machine with your code, as ssh knows it: HOST, USER@HOST or a name "
            "of ~/.ssh/config. `ssh HOST true` must end without a question.",
            "required": True,
        },
        "program": {
            "type": "string",
            "title": "mpnanny there",
            "description": "Its path on that machine, as `command -v mpnanny` prints it.",
            "default": "mpnanny",
            "required": True,
        },
        "folders": {
            "type": "string",
            "title": "Folders there",
            "description": "Where your code and runs lie, as ~/project; nothing else is read.",
            "multiple": True,
            "required": True,
        },
    }
    server = {"type": "node", "entry_point": script, "mcp_config": config}
    return manifest(tools, server, ["darwin", "win32", "linux"], settings)


def registry() -> dict:
    """server.json, as the MCP registry reads it."""
    folder = {
        "type": "named",
        "name": "--root",
        "description": "Folder with your code and runs; nothing else is read",
        "format": "filepath",
        "isRequired": True,
        "isRepeated": True,
    }
    package = {
        "registryType": "pypi",
        "identifier": "mpnanny",
        "version": VERSION,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}, folder],
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json",
        "name": "io.github.mpnanny/mpnanny",
        "description": PROJECT["description"],
        "version": VERSION,
        "packages": [package],
    }
