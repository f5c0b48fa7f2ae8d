"""--allow-gpu: what CUDA needs to start is there, on device files that stand in for those of GPUs;
nothing escapes with it that did not before, and without it nothing is open.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from confined import ESCAPES, FULL, HERE, OWNERS, PYTHON, SANDBOX

MEMORY = [name for name, each in ESCAPES.items() if each.victim == "memory"]
OTHERS = [name for name in ESCAPES if name not in MEMORY]
GPU = ["nvidiactl", "nvidia0", "nvidia11", "nvidia-uvm", "nvidia-uvm-tools"]
GPU += ["nvidia-caps/nvidia-cap1", "kfd", "dri/renderD128", "dxg"]
NO_GPU = ["sda", "mem", "kmsg", "nvidia", "nvidia0x", "nvidia-modeset", "nvidiactl2", "tty"]
NO_GPU += ["dri/card0", "nvidia-caps/other", "nvidia7", "fuse", "loop0"]  # nvidia7 is a link
FENCES = ["namespaces", "devices", "read_only", "processes", "writing", "system_calls"]
FENCES += ["capabilities", "resources"]

# Of the escapes those that nothing else keeps from it.
COUNTED = {"anonymous", "memfd", "memfd_in_processes", "shared_mapping"}

# A /dev of a mount namespace, in which all is a random source that answers no ioctl().
FAKE_DEV = """
set -e
mount -t tmpfs none "$1"
mkdir -m 755 "$1/nvidia-caps" "$1/dri"; mkdir -m 1777 "$1/shm"
mknod -m 666 "$1/null" c 1 3; mknod -m 666 "$1/zero" c 1 5; mknod -m 666 "$1/full" c 1 7
mknod -m 666 "$1/random" c 1 8; mknod -m 666 "$1/urandom" c 1 9
for each in $2; do [ $each = nvidia7 ] || mknod -m 666 "$1/$each" c 1 9; done
ln -s sda "$1/nvidia7"
mount --move "$1" /dev
shift 2; exec "$@"
"""


def told(done: subprocess.CompletedProcess[str]) -> tuple[dict, dict]:
    """What the program said, and how it ended."""
    lines = done.stdout.splitlines()
    assert lines and lines[-1].startswith("{"), done
    said = [json.loads(line) for line in lines if line.startswith(" {")]
    return said[0] if said else {}, json.loads(lines[-1])["end"]


class FakeMachine:
    def __init__(self, folder) -> None:
        self.folder = folder
        folder.chmod(0o755)
        self.sandbox, self.program = folder / "sandbox", folder / "cuda_start.py"
        shutil.copy(SANDBOX, self.sandbox)
        shutil.copy(HERE / "cuda_start.py", self.program)
        self.devices, self.writable = folder / "dev", folder / "writable"
        self.devices.mkdir()
        self.writable.mkdir(mode=0o777)
        self.writable.chmod(0o777)

    def start(self, owner: str, *flags: str, lacks: tuple[str, ...] = ()) -> tuple[dict, dict]:
        """`lacks`: layers of without.py that the machine has not."""
        become = ["setpriv", "--reuid", str(OWNERS[owner]), "--regid", str(OWNERS[owner])]
        weaken = [*PYTHON, HERE / "without.py", *lacks, "--"] if lacks else []
        become = [*weaken, *become, "--clear-groups"]
        confined = [*become, self.sandbox, *flags, "--writable", self.writable]
        wanted = {"devices": [f"/dev/{x}" for x in GPU], "others": [f"/dev/{x}" for x in NO_GPU]}
        fake = ["unshare", "-m", "sh", "-c", FAKE_DEV, "sh", self.devices, " ".join(GPU + NO_GPU)]
        return told(
            subprocess.run(
                [*fake, *confined, "--", *PYTHON, self.program],
                input=json.dumps(wanted),
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        )


@pytest.fixture
def machine():
    if os.geteuid() != 0:
        pytest.skip("only root can make device files")
    with tempfile.TemporaryDirectory(prefix="mpnanny-gpu-") as folder:
        yield FakeMachine(pathlib.Path(folder))


LIMITS = ("--seconds", "20", "--memory-mb", "500", "--processes", "20", "--file-mb", "64")


@pytest.mark.parametrize("owner", OWNERS)
def test_all_is_there_that_cuda_starts_with(machine, owner):
    said, end = machine.start(owner, "--allow-gpu", *LIMITS)
    assert set(end["missing"]) <= {"memory"} and end["exit_code"] == 0, end
    assert {name: why for name, why in said.items() if why} == {}


@pytest.mark.parametrize("owner", OWNERS)
def test_without_the_flag_no_gpu_is_there(machine, owner):
    said, end = machine.start(owner, *LIMITS)
    assert end["missing"] == [] and said["others"] == []
    refused = {name for name, why in said.items() if why}
    assert {f"/dev/{each}" for each in GPU} <= refused
    assert {"thread", "socket", "memfd", "pinned", "reserved for writing"} <= refused


@pytest.mark.parametrize("owner", OWNERS)
def test_where_there_are_no_namespaces_cuda_starts_in_what_is_weaker(machine, owner):
    """As in most containers; only what is shared by files is not there."""
    flags = ("--allow-weaker", "--allow-gpu", *LIMITS)
    said, end = machine.start(owner, *flags, lacks=("namespaces",))
    assert set(end["missing"]) == {"processes", "devices", "memory", "network"}, end
    assert {name for name, why in said.items() if why} <= {"shared file", "others"}, said
    assert set(said["others"]) <= set(), said["others"]


@pytest.mark.parametrize("fence", FENCES)
def test_each_part_can_be_left_out_alone_and_that_is_said(machine, fence):
    said, end = machine.start("root", "--allow-weaker", "--allow-gpu", "--without", fence, *LIMITS)
    assert end["without"] == fence and end["exit_code"] == 0, end
    assert {name: why for name, why in said.items() if why and name != "others"} == {}
    lacks = {"namespaces": "processes", "read_only": None, "capabilities": None, "resources": None}
    lack = lacks.get(fence, fence)
    assert lack is None or lack in end["missing"], end
    alone = subprocess.run(
        [SANDBOX, "--allow-gpu", "--without", fence, "--writable", "/tmp", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert alone.returncode == 2 and alone.stdout == ""


@pytest.mark.parametrize("owner", OWNERS)
def test_nothing_escapes_with_a_gpu(place, owner, request):
    if owner != "root":
        request.getfixturevalue("user_namespaces")
    outcome = place.attempt(OTHERS, FULL, owner, gpu=True)
    assert outcome.ran and outcome.missing <= {"memory"}, outcome.told()
    assert outcome.end["exit_code"] == 0 and outcome.end["exceeded"] == "", outcome.told()
    assert set(outcome.said) == set(OTHERS)
    assert outcome.harms == {}, outcome.told()


@pytest.mark.parametrize("name", MEMORY)
def test_who_takes_too_much_memory_is_ended(place, name, user_namespaces):
    outcome = place.attempt([name], FULL, list(OWNERS)[-1], gpu=True)
    assert outcome.ran and outcome.missing <= {"memory"}, outcome.told()
    assert outcome.harms == {}, outcome.told()
    if name in COUNTED:
        assert outcome.end["exceeded"] == "memory", outcome.told()


def run_diff(*words: str) -> subprocess.CompletedProcess[str]:
    python = SANDBOX.parents[3] / ".venv" / "bin" / "python"
    code = "import torch\ndef f(x):\n    return x * 2\n"
    return subprocess.run(
        [SANDBOX.parent / "mpnanny", "diff", "--code", code, "--input", "float32[4]"]
        + ["--dtype", "bf16", "--policy", "pure", "--python", python, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_gpu_that_is_not_allowed_is_an_error_that_says_how():
    done = run_diff("--device", "cuda")
    assert done.returncode == 2 and done.stdout == ""
    assert "--allow-gpu was not given" in done.stderr and "the CPU stands in" in done.stderr


def test_a_gpu_that_is_not_there_is_an_error_that_says_why():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = run_diff("--device", "cuda", "--allow-gpu")
    assert done.returncode == 2 and "No CUDA device can be reached: " in done.stderr, done
    assert run_diff("--device", "auto", "--allow-gpu").returncode in (0, 1)
