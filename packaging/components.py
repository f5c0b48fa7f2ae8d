"""What is compiled into the release files besides this project: for the SBOM and the licences.

One row a library. A library that joins or leaves the build is added or removed here;
`python packaging/components.py` prints the table with the versions that it finds, and fails where
one is not there.
"""

import re
import subprocess
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEPS = ROOT / ".deps"
SRC = DEPS / "portable" / "src"
DOC = Path("/usr/share/doc")

# Name, SPDX expression, where the version stands (a Debian package, or a file and a pattern), text
# of the licence.
COMPONENTS = [
    ("SQLite", "blessing", (SRC / "sqlite3/sqlite3.h", r'SQLITE_VERSION +"([\d.]+)"'), None),
    (
        "libsodium",
        "ISC",
        (SRC / "libsodium/builds/msvc/version.h", r'VERSION_STRING "([\d.]+)"'),
        SRC / "libsodium/LICENSE",
    ),
    ("zlib", "Zlib", (SRC / "zlib/zlib.h", r'ZLIB_VERSION "([\d.]+)'), SRC / "zlib/LICENSE"),
    (
        "yaml-cpp",
        "MIT",
        (SRC / "yaml-cpp/CMakeLists.txt", r"YAML_CPP VERSION ([\d.]+)"),
        SRC / "yaml-cpp/LICENSE",
    ),
    (
        "tree-sitter",
        "MIT",
        (ROOT / "scripts/third_party.txt", r"tree-sitter==([\d.]+)"),
        DEPS / "src/tree-sitter-*/LICENSE",
    ),
    (
        "tree-sitter-python",
        "MIT",
        (ROOT / "scripts/third_party.txt", r"tree-sitter-python==([\d.]+)"),
        DEPS / "src/tree_sitter_python-*/LICENSE",
    ),
    (
        "cpp-httplib",
        "MIT",
        (DEPS / "src/cpp-httplib-*/httplib.h", r'CPPHTTPLIB_VERSION "([\d.]+)"'),
        DEPS / "src/cpp-httplib-*/LICENSE",
    ),
    ("Anti-Grain Geometry", "BSD-3-Clause", "libagg-dev", None),
    (
        "Anti-Grain Geometry (musl, Windows, macOS)",
        "LicenseRef-AGG-2.4",
        (SRC / "agg/src/copying", r"Version ([\d.]+)"),
        SRC / "agg/src/copying",
    ),
    ("stb", "MIT OR Unlicense", "libstb-dev", None),
    ("JSON for Modern C++", "MIT", "nlohmann-json3-dev", None),
    ("CLI11", "BSD-3-Clause", "libcli11-dev", None),
    ("valijson", "BSD-2-Clause", "libvalijson-dev", None),
    ("spdlog", "MIT", "libspdlog-dev", None),
    ("fmt", "MIT", "libfmt-dev", None),
    ("toml++", "MIT", "libtomlplusplus-dev", None),
    ("Chart.js", "MIT", "libjs-chart.js", None),
    ("DejaVu Sans", "Bitstream-Vera", "fonts-dejavu-core", None),
    (
        "musl (in the programs for it and, in parts, for Windows)",
        "MIT",
        (DEPS / "zig/ziglang/lib/libc/musl/src/internal/version.h", r'VERSION "([\d.]+)"'),
        DEPS / "zig/ziglang/lib/libc/musl/COPYRIGHT",
    ),
    (
        "mingw-w64 (in the program for Windows)",
        "ZPL-2.1",
        (
            DEPS / "zig/ziglang/lib/libc/include/any-windows-any/_mingw_mac.h",
            r"__MINGW64_VERSION_MAJOR +(\d+)",
        ),
        DEPS / "zig/ziglang/lib/libc/mingw/COPYING",
    ),
    (
        "LLVM libc++ and libunwind",
        "Apache-2.0 WITH LLVM-exception",
        (DEPS / "zig/ziglang/lib/libcxx/include/__config", r"_LIBCPP_VERSION (\d+)"),
        DEPS / "zig/ziglang/lib/libcxx/LICENSE.TXT",
    ),
]
SQLITE_BLESSING = "The author disclaims copyright to this source code. It is in the public domain: https://sqlite.org/copyright.html\n"


def _one(pattern: Path) -> Path:
    """The one file of that name, in which a folder may be given as a pattern."""
    found = sorted(Path("/").glob(str(pattern.relative_to("/"))))
    if len(found) != 1:
        raise SystemExit(f"packaging: {len(found)} files {pattern}; run ./scripts/package_sources")
    return found[0]


def _version(source) -> str:
    if isinstance(source, str):
        return subprocess.run(
            ["dpkg-query", "-W", "-f=${Version}", source],
            check=True,
            text=True,
            capture_output=True,
        ).stdout
    path, pattern = source
    match = re.search(pattern, _one(path).read_text(encoding="utf-8"))
    if match is None:
        raise SystemExit(f"packaging: no version in {path}")
    return match[1]


def components() -> list[tuple[str, str, str, str]]:
    """Name, version, SPDX expression and text of the licence, of each library."""
    rows = []
    for name, licence, source, text in COMPONENTS:
        if text is None and isinstance(source, str):
            text = DOC / source / "copyright"
        rows.append(
            (
                name,
                _version(source),
                licence,
                _one(text).read_text(encoding="utf-8") if text else SQLITE_BLESSING,
            )
        )
    return rows


def licences(rows) -> str:
    """One text file with every licence."""
    parts = ["mpnanny itself is under the Apache License 2.0 (LICENSE). It contains:\n"]
    for name, version, licence, text in rows:
        title = f"{name} {version} ({licence})"
        parts.append(f"{'=' * 80}\n{title}\n{'=' * 80}\n\n{text.strip()}\n")
    return "\n".join(parts)


def sbom(version: str, revision: str, rows) -> dict:
    """A CycloneDX 1.6 document. It names no time, so that the same commit gives the same bytes."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'mpnanny {revision}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "mpnanny",
                "version": version,
                "licenses": [{"expression": "Apache-2.0"}],
                "properties": [{"name": "revision", "value": revision}],
            }
        },
        "components": [
            {
                "type": "library",
                "name": name,
                "version": number,
                "licenses": [{"expression": licence}],
            }
            for name, number, licence, _ in rows
        ],
    }


if __name__ == "__main__":
    for row in components():
        print(*row[:3], sep="\t")
