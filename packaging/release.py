"""Puts what `./scripts/package` compiled into release files.

`python packaging/release.py ARCHITECTURE BUILD_FOLDER DIST PROGRAM` writes the archive, the wheel
and the bundle of one architecture; PROGRAM is an mpnanny that runs here and is asked for its tools.
`--index DIST` writes what names them all: server.json, SBOM, checksums. The same inputs give the
same bytes: entries are sorted; owners, times and modes are fixed.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import components
import tomllib
from wheel.wheelfile import WheelFile

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ["mpnanny", "mpnanny-sandbox"]
GLIBC = "2_28"
EPOCH = (1980, 1, 1, 0, 0, 0)

VERSION = re.search(r"project\(mpnanny VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def python_package(build: Path) -> dict[str, bytes]:
    """Files of the Python package by their path below site-packages."""
    folder = build / "python"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def programs(build: Path) -> dict[str, bytes]:
    """The programs by their names."""
    return {name: (build / "bin" / name).read_bytes() for name in PROGRAMS}


def write_archive(path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """A .tar.gz of files with their modes, below a folder named like the archive."""
    top = path.name.removesuffix(".tar.gz")
    with (
        open(path, "wb") as raw,
        gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, (data, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), mode, 315532800
            tar.addfile(entry, io.BytesIO(data))


def write_zip(path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """A .zip of files with their modes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def write_wheel(
    path: Path, tag: str, files: dict[str, tuple[bytes, int]], information: dict[str, str]
) -> None:
    """A wheel.

    Args:
        path: named as PEP 427 says.
        tag: Python, ABI and platform.
        files: content and mode by the path below site-packages, or below mpnanny-VERSION.data.
        information: texts of its dist-info folder.
    """
    os.environ["SOURCE_DATE_EPOCH"] = "315532800"  # for the RECORD that WheelFile adds
    with WheelFile(path, "w") as wheel:
        everything = dict(files)
        for name, text in information.items():
            everything[f"mpnanny-{VERSION}.dist-info/{name}"] = (text.encode(), 0o644)
        everything[f"mpnanny-{VERSION}.dist-info/WHEEL"] = (
            "Wheel-Version: 1.0\nGenerator: mpnanny packaging\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}\n".encode(),
            0o644,
        )
        for name, (data, mode) in sorted(everything.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)


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


def manifest(tools: list[dict]) -> dict:
    """manifest.json of the bundle."""
    return {
        "manifest_version": "0.3",
        "name": "mpnanny",
        "display_name": "MixedPrecisionNanny",
        "version": VERSION,
        "description": PROJECT["description"],
        "author": {"name": "The mpnanny authors"},
        "license": PROJECT["license"],
        "keywords": ["pytorch", "mixed-precision", "fp16", "bf16", "fp8", "nan", "debugging"],
        "server": {
            "type": "binary",
            "entry_point": "server/bin/mpnanny",
            "mcp_config": {
                "command": "${__dirname}/server/bin/mpnanny",
                "args": ["serve", "${user_config.roots}"],
                "env": {},
            },
        },
        "tools": tools,
        "prompts_generated": True,
        "compatibility": {"platforms": ["linux"]},
        "user_config": {
            "roots": {
                "type": "directory",
                "title": "Folders",
                "description": "Where your code and your runs lie. mpnanny reads nothing else.",
                "multiple": True,
                "required": True,
            }
        },
    }


def listed_tools(program: Path) -> list[dict]:
    """Names and titles of the tools, asked of the program itself."""
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "packaging", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    text = "".join(json.dumps(message) + "\n" for message in messages)
    done = subprocess.run(
        [program, "serve"], input=text, text=True, capture_output=True, timeout=60, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    answer = next(answer for answer in answers if answer.get("id") == 2)
    return [
        {"name": tool["name"], "description": tool.get("title") or tool["name"]}
        for tool in answer["result"]["tools"]
    ]


def release(architecture: str, build: Path, dist: Path, here: Path) -> None:
    """Writes the three files of one architecture. `here` is a program that runs on this machine."""
    rows = components.components()
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    third = components.licences(rows)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    package = python_package(build)
    binaries = programs(build)
    texts = {"LICENSE": licence, "THIRD_PARTY_LICENSES.txt": third}

    archive = {f"python/{name}": (data, 0o644) for name, data in package.items()}
    archive |= {f"bin/{name}": (data, 0o755) for name, data in binaries.items()}
    archive |= {name: (text.encode(), 0o644) for name, text in texts.items()} | {
        "README.md": (readme.encode(), 0o644)
    }
    write_archive(dist / f"mpnanny-{VERSION}-linux-{architecture}.tar.gz", archive)

    tag = f"cp310-abi3-manylinux_{GLIBC}_{architecture}"
    wheel = {
        name: (data, 0o755 if name.endswith(".so") else 0o644) for name, data in package.items()
    }
    wheel |= {
        f"mpnanny-{VERSION}.data/scripts/{name}": (data, 0o755) for name, data in binaries.items()
    }
    information = {"METADATA": metadata(readme)} | {
        f"licenses/{name}": text for name, text in texts.items()
    }
    write_wheel(dist / f"mpnanny-{VERSION}-{tag}.whl", tag, wheel, information)

    # With the monitor's package, which `mpnanny run` and the tools that run code look for.
    bundle = {f"server/bin/{name}": (data, 0o755) for name, data in binaries.items()}
    bundle |= {f"server/python/{name}": (data, 0o644) for name, data in package.items()}
    bundle |= {name: (text.encode(), 0o644) for name, text in texts.items()}
    bundle["manifest.json"] = (
        json.dumps(manifest(listed_tools(here)), indent=2).encode() + b"\n",
        0o644,
    )
    write_zip(dist / f"mpnanny-{VERSION}-linux-{architecture}.mcpb", bundle)


def index(dist: Path) -> None:
    """Writes what names the release files: server.json, sbom.cdx.json, SHA256SUMS."""
    revision = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], text=True, capture_output=True, check=True
    ).stdout.strip()
    rows = components.components()
    (dist / "sbom.cdx.json").write_text(
        json.dumps(components.sbom(VERSION, revision, rows), indent=2) + "\n"
    )
    server = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json",
        "name": "io.github.mpnanny/mpnanny",
        "description": PROJECT["description"],
        "version": VERSION,
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "mpnanny",
                "version": VERSION,
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "packageArguments": [
                    {"type": "positional", "value": "serve"},
                    {
                        "type": "named",
                        "name": "--root",
                        "description": "Folder with your code and runs; nothing else is read",
                        "format": "filepath",
                        "isRequired": True,
                        "isRepeated": True,
                    },
                ],
            }
        ],
    }
    (dist / "server.json").write_text(json.dumps(server, indent=2) + "\n")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(dist.iterdir())
        if path.name.startswith(("mpnanny-", "s")) and path.is_file()
    ]
    (dist / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    if sys.argv[1] == "--index":
        index(Path(sys.argv[2]))
    else:
        release(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
