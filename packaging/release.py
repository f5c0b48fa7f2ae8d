"""Puts what `./scripts/package` compiled into release files.

`python packaging/release.py TARGET BUILD_FOLDER DIST PROGRAM` writes the files of one target: of an
architecture of Linux with glibc the archive, the wheel and the bundle, of another target the
program in an archive. PROGRAM is an mpnanny that runs here and is asked for its tools.
`--desktop DIST PROGRAM TARGET=BUILD_FOLDER…` writes the bundle that holds the programs of several
systems. `--index DIST PROGRAM` writes what is the same for all: the bundle for ssh, server.json,
SBOM, checksums. The same inputs give the same bytes.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import components
import manifests
from formats import write_archive, write_bundle, write_wheel, write_zip
from manifests import ROOT, VERSION
from universal import universal

PROGRAMS = ["mpnanny", "mpnanny-sandbox"]
GLIBC = "2_28"
# Targets of which the program alone is made: what its archive is called, and how it ends.
PROGRAM_ONLY = {
    "x86_64-linux-musl": ("linux-musl-x86_64", ".tar.gz"),
    "x86_64-windows": ("windows-x86_64", ".zip"),
    "x86_64-macos": ("macos-x86_64", ".tar.gz"),
    "aarch64-macos": ("macos-aarch64", ".tar.gz"),
}


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


def texts_inside() -> dict[str, str]:
    """The licences, which go with every program."""
    return {
        "LICENSE": (ROOT / "LICENSE").read_text(encoding="utf-8"),
        "THIRD_PARTY_LICENSES.txt": components.licences(components.components()),
    }


def program_of(target: str, build: Path) -> tuple[str, bytes]:
    """Name and content of the one program of a target that has no other."""
    name = "mpnanny.exe" if target.endswith("-windows") else "mpnanny"
    return name, (build / "bin" / name).read_bytes()


def release_program(target: str, build: Path, dist: Path) -> None:
    """Writes the archive of a target of which the program alone is made."""
    called, ending = PROGRAM_ONLY[target]
    name, data = program_of(target, build)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files = {f"bin/{name}": (data, 0o755)}
    if target.endswith("-musl"):
        # The monitor of the other archive: a Python that has torch has glibc.
        files["bin/mpnanny-sandbox"] = ((build / "bin" / "mpnanny-sandbox").read_bytes(), 0o755)
        package = python_package(build.parent / f"package-{target.partition('-')[0]}")
        files |= {f"python/{name}": (data, 0o644) for name, data in package.items()}
    files |= {
        name: (text.encode(), 0o644)
        for name, text in (texts_inside() | {"README.md": readme}).items()
    }
    path = dist / f"mpnanny-{VERSION}-{called}{ending}"
    if ending == ".zip":
        write_zip(path, {f"{path.stem}/{name}": file for name, file in files.items()})
    else:
        write_archive(path, files)


def desktop(dist: Path, here: Path, builds: dict[str, Path]) -> None:
    """Writes the bundle that runs on a Mac or PC; `builds` are folders by target."""
    programs = {target: program_of(target, build)[1] for target, build in sorted(builds.items())}
    macs = [data for target, data in programs.items() if target.endswith("-macos")]
    files = {}
    if macs:
        files[manifests.DESKTOP["darwin"]] = (universal(macs), 0o755)
    if "x86_64-windows" in programs:
        files[manifests.DESKTOP["win32"]] = (programs["x86_64-windows"], 0o755)
    systems = [system for system, place in manifests.DESKTOP.items() if place in files]
    files |= {name: (text.encode(), 0o644) for name, text in texts_inside().items()}
    write_bundle(
        dist / f"mpnanny-{VERSION}-desktop.mcpb",
        manifests.desktop_manifest(listed_tools(here), systems),
        files,
    )


def release(architecture: str, build: Path, dist: Path, here: Path) -> None:
    """Writes the three files of one architecture. `here` is a program that runs on this machine."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    package = python_package(build)
    binaries = programs(build)
    texts = texts_inside()

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
    information = {"METADATA": manifests.metadata(readme)} | {
        f"licenses/{name}": text for name, text in texts.items()
    }
    write_wheel(dist / f"mpnanny-{VERSION}-{tag}.whl", VERSION, tag, wheel, information)

    # With the monitor's package, which `mpnanny run` and the tools that run code look for.
    bundle = {f"server/bin/{name}": (data, 0o755) for name, data in binaries.items()}
    bundle |= {f"server/python/{name}": (data, 0o644) for name, data in package.items()}
    bundle |= {name: (text.encode(), 0o644) for name, text in texts.items()}
    write_bundle(
        dist / f"mpnanny-{VERSION}-linux-{architecture}.mcpb",
        manifests.local_manifest(listed_tools(here)),
        bundle,
    )


def index(dist: Path, here: Path) -> None:
    """Writes what is the same for all: the bundle for ssh, server.json, SBOM, checksums."""
    start = ROOT / "packaging" / "ssh_bundle" / "start.mjs"
    files = {"server/start.mjs": start.read_bytes(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    write_bundle(
        dist / f"mpnanny-{VERSION}-ssh.mcpb",
        manifests.ssh_manifest(listed_tools(here)),
        {name: (data, 0o644) for name, data in files.items()},
    )
    revision = subprocess.run(
        ["git", "-C", ROOT, "rev-parse", "HEAD"], text=True, capture_output=True, check=True
    ).stdout.strip()
    rows = components.components()
    (dist / "sbom.cdx.json").write_text(
        json.dumps(components.sbom(VERSION, revision, rows), indent=2) + "\n"
    )
    (dist / "server.json").write_text(json.dumps(manifests.registry(), indent=2) + "\n")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(dist.iterdir())
        if path.name.startswith(("mpnanny-", "s")) and path.is_file()
    ]
    (dist / "SHA256SUMS").write_text("".join(lines))


if __name__ == "__main__":
    if sys.argv[1] == "--index":
        index(Path(sys.argv[2]), Path(sys.argv[3]))
    elif sys.argv[1] == "--desktop":
        named = dict(word.split("=", 1) for word in sys.argv[4:])
        desktop(Path(sys.argv[2]), Path(sys.argv[3]), {k: Path(v) for k, v in named.items()})
    elif sys.argv[1] in PROGRAM_ONLY:
        release_program(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        release(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
