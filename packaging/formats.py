"""Archives, wheels and bundles whose bytes depend on their content only.

Entries are sorted; owners, times and modes are fixed.
"""

import gzip
import io
import json
import os
import tarfile
import zipfile
from pathlib import Path

from wheel.wheelfile import WheelFile

EPOCH = (1980, 1, 1, 0, 0, 0)
EPOCH_SECONDS = 315532800


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
            entry.size, entry.mode, entry.mtime = len(data), mode, EPOCH_SECONDS
            tar.addfile(entry, io.BytesIO(data))


def write_zip(path: Path, files: dict[str, tuple[bytes, int]]) -> None:
    """A .zip of files with their modes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)


def write_bundle(path: Path, about: dict, files: dict[str, tuple[bytes, int]]) -> None:
    """An .mcpb: a .zip with a manifest."""
    text = json.dumps(about, indent=2) + "\n"
    write_zip(path, files | {"manifest.json": (text.encode(), 0o644)})


def write_wheel(
    path: Path,
    version: str,
    tag: str,
    files: dict[str, tuple[bytes, int]],
    information: dict[str, str],
) -> None:
    """A wheel.

    Args:
        path: named as PEP 427 says.
        version: of mpnanny.
        tag: Python, ABI and platform.
        files: content and mode by the path below site-packages, or below mpnanny-VERSION.data.
        information: texts of its dist-info folder.
    """
    os.environ["SOURCE_DATE_EPOCH"] = str(EPOCH_SECONDS)  # for the RECORD that WheelFile adds
    with WheelFile(path, "w") as wheel:
        everything = dict(files)
        for name, text in information.items():
            everything[f"mpnanny-{version}.dist-info/{name}"] = (text.encode(), 0o644)
        everything[f"mpnanny-{version}.dist-info/WHEEL"] = (
            "Wheel-Version: 1.0\nGenerator: mpnanny packaging\nRoot-Is-Purelib: false\n"
            f"Tag: {tag}\n".encode(),
            0o644,
        )
        for name, (data, mode) in sorted(everything.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
