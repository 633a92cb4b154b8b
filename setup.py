"""Lists the packages, which live at the top level of the repository under the package ``cuplug``, and builds the native
allocators where there is a C++ compiler."""

import os
import sys
from glob import glob

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

FLOORS = ["allocators", "plugins", "runtime", "tools"]
ACROSS_FILES = ["-flto=auto", "-flto-partition=one", "-g0"]
"""Functions that stand in different files are compiled into one another: an allocation takes 6 to 8 % less time. In one
partition it does not depend on the order of files which are: another tenth (128 ns for 145)."""
CORE = [
    "allocators/native",
    "allocators/binding",
    "runtime/drivers/cuda/native",
    "runtime/drivers/sim/native",
    "plugins/tracing/native",
    "runtime/machine/native",
    "runtime/tensor/native",
    "runtime/interop/native",
    "tools/replaying/native",
    "tools/benchmarks/native",
]
"""Where the C++ of the one extension stands: each part on the floor of what it does, lowest first."""
INCLUDED = [pattern for floor in FLOORS for pattern in (floor, f"{floor}.*")]


AT_START = """\
import os; os.environ.get("CUPLUG_AS_TORCH", "0") in ("", "0") or __import__("cuplug_torch").put_shadow_first()
"""
"""Beside the package, read by every Python that starts: with ``CUPLUG_AS_TORCH=1`` ``import torch`` means cuplug."""


class BuildWithoutSetup(build_py):
    """The root is the package: keep this file out of it, and what stands beside it."""

    def run(self):
        super().run()
        # What is installed to be edited has no folder of its own: the file goes where the link to here goes.
        folder = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "cuplug_as_torch.pth"), "w") as file:
            file.write(AT_START)

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [found for found in modules if found[1] not in ("setup", "cuplug_torch", "cuplug_pytest")]

    def get_outputs(self, include_bytecode=True):
        return [*super().get_outputs(include_bytecode), os.path.join(self.build_lib, "cuplug_as_torch.pth")]


class BuildIfPossible(build_ext):
    """The extension makes cuplug faster and is not needed: without a compiler the rest is installed all the same."""

    def run(self):
        try:
            super().run()
        except Exception as error:
            self._leave_out(error)

    def build_extension(self, ext):
        plain = ext.extra_compile_args, ext.extra_link_args
        ext.extra_compile_args, ext.extra_link_args = ([*flags, *ACROSS_FILES] for flags in plain)
        try:
            super().build_extension(ext)
        except Exception:  # also of a compiler that cannot do this
            ext.extra_compile_args, ext.extra_link_args = plain
            try:
                super().build_extension(ext)
            except Exception as error:
                self._leave_out(error)

    def _leave_out(self, error):
        self.extensions = []
        reason = str(error).strip().partition("\n")[0]
        print(
            f"cuplug: the native allocators could not be built ({reason}). Everything works without them, but an "
            "allocation takes microseconds instead of nanoseconds; with a C++17 compiler and Python's headers, install "
            "again.",
            file=sys.stderr,
        )


def extensions():
    if os.environ.get("CUPLUG_BUILD_NATIVE", "") == "0" or sys.platform == "win32":
        return []
    on_linux = sys.platform.startswith("linux")
    return [
        Extension(
            "cuplug.runtime.kernels.launch._quick_calls",
            sources=["runtime/kernels/launch/quick_calls.cpp"],
            depends=["allocators/binding/interpreter_lock.h"],
            include_dirs=["."],
            language="c++",
            extra_compile_args=["-std=c++17", "-O3", "-g0", "-fvisibility=hidden"],
            optional=True,
        ),
        Extension(
            "cuplug.allocators._native",
            sources=[source for room in CORE for source in sorted(glob(f"{room}/*.cpp"))],
            depends=[
                "allocators/native/constants.def",
                *(header for room in CORE for header in sorted(glob(f"{room}/*.h"))),
            ],
            include_dirs=["."],
            language="c++",
            # An allocation and its free take a tenth fewer instructions than with -O2; the module is a tenth larger.
            extra_compile_args=["-std=c++17", "-O3", "-g0", "-fvisibility=hidden", "-pthread"],
            # The module calls the core's functions, which it exports, directly.
            extra_link_args=["-pthread", *(["-ldl", "-Wl,-Bsymbolic-functions"] if on_linux else [])],
            optional=True,
        ),
    ]


setup(
    py_modules=["cuplug_torch", "cuplug_pytest"],  # beside the package: PyTorch and pytest import them wherever it is
    packages=["cuplug", *(f"cuplug.{name}" for name in find_packages(include=INCLUDED))],
    ext_modules=extensions(),
    cmdclass={"build_py": BuildWithoutSetup, "build_ext": BuildIfPossible},
)
