"""Puts cuplug under PyTorch's CUDA wheels of several versions, on a machine without a GPU.

``python versions.py 2.8.0 2.14.1``, by the Python for which this checkout is installed. Each version gets an
environment of its own in ``--folder``: its wheel without dependencies, NVIDIA's wheels that it names (some 3 GB),
CUDA's headers, and this checkout. The bridge is compiled and loaded there, the programs of ``fake_cuda`` run on
PyTorch's own memory, on ``caching`` and on ``expandable``, tensors go to another process (``sharing.py``), and programs
end while threads are at work (``exits.py``). Prints a row of the guide's table for each. Ends with 77 where a wheel
cannot be had.
"""

from __future__ import annotations

import argparse
import configparser
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "fake_cuda"
CHECKOUT = Path(__file__).parents[3]
STAND_IN = {
    "runtime.c": "runtime.so",
    "driver.c": "libcuda.so.1",
    "management.c": "libnvidia-ml.so.1",
    "given.c": "given.so",
}
NEEDS = """
import importlib.metadata as metadata
from pip._vendor.packaging.requirements import Requirement
for text in metadata.requires("torch"):
    needed = Requirement(text)
    if "triton" not in needed.name and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
        print(f"{needed.name}{'[' + ','.join(needed.extras) + ']' if needed.extras else ''}{needed.specifier}")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("versions", nargs="+")
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "cuplug-torch-versions")
    asked = parser.parse_args()
    print("| PyTorch | CUDA | outcomes alike | tensors to another process |\n| --- | --- | --- | --- |", flush=True)
    return max(try_version(version, asked.folder / version) for version in asked.versions)


def try_version(version: str, folder: Path) -> int:
    """Print a row for one version. 0 if nothing is wrong with it."""
    try:
        python = install(version, folder)
    except subprocess.CalledProcessError as error:
        print(f"PyTorch {version} cannot be installed here: {error.cmd[-1]}", flush=True)
        return 77
    cuda = output(python, "-c", "import torch; print(torch.version.cuda)")
    site = Path(output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    includes = [folder for folder in (site / "nvidia").glob("*/include") if folder.is_dir()]
    made = folder / "stand_in"
    made.mkdir(exist_ok=True)
    for source, target in STAND_IN.items():
        command = ["gcc", "-shared", "-fPIC", "-O1", *(f"-I{folder}" for folder in includes), str(HERE / source)]
        subprocess.run([*command, f"-Wl,-soname,{target}", "-o", str(made / target)], check=True)
    environment = os.environ | {
        "CUPLUG_CACHE_DIR": str(folder / "cache"),
        "CUPLUG_FAKE_CUDA": str(made),
        "LD_LIBRARY_PATH": str(made),
        "LD_PRELOAD": str(made / "runtime.so"),
    }
    done = subprocess.run([python, str(HERE / "outcomes.py")], env=environment, capture_output=True, text=True)
    same = sum(line.startswith("same ") for line in done.stdout.splitlines())
    wrong = sum(line.startswith("WRONG ") for line in done.stdout.splitlines())
    pair = [python, str(HERE.with_name("sharing.py")), "expandable", "expandable-confined", "3"]
    shared = subprocess.run(pair, env=environment, capture_output=True, text=True)
    exchanges = shared.stdout.partition(": ")[2].partition(",")[0]
    ends = [python, str(HERE.with_name("exits.py")), "memory"]
    ended = subprocess.run(ends, env=environment, capture_output=True, text=True)
    print(f"| {version} | {cuda} | {same} of {same + wrong} | {exchanges or 'none'} |", flush=True)
    for each in (done, shared, ended):
        if each.returncode:
            print(each.stdout + each.stderr, file=sys.stderr)
    return max(done.returncode, shared.returncode, ended.returncode)


def install(version: str, folder: Path) -> str:
    """The interpreter of an environment with that version in it."""
    python = str(folder / "bin" / "python")
    if (folder / "complete").exists():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [python, "-m", "pip", "install", "-q", "--no-compile"]
    subprocess.run([*pip, "--no-deps", f"torch=={version}"], check=True)
    subprocess.run([*pip, *output(python, "-c", NEEDS).split()], check=True)
    major = output(python, "-c", "import torch.version; print(torch.version.cuda.partition('.')[0])")
    extra = "torch" if major == "13" else f"torch-cu{major}"
    setup = configparser.ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg")
    lines = (setup["options"]["install_requires"] + setup["options.extras_require"][extra]).splitlines()
    subprocess.run([*pip, *(line for line in lines if line and not line.startswith("#"))], check=True)
    site = Path(output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    (site / "cuplug").symlink_to(CHECKOUT)
    (folder / "complete").touch()
    return python


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
