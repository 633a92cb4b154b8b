"""Lists the packages, which live at the top level of the repository under the package ``cuplug``."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

FLOORS = ["allocators", "plugins", "runtime", "tools"]
INCLUDED = [pattern for floor in FLOORS for pattern in (floor, f"{floor}.*")]


class BuildWithoutSetup(build_py):
    """The root is the package: keep this file out of it."""

    def find_package_modules(self, package, package_dir):
        modules = super().find_package_modules(package, package_dir)
        return [found for found in modules if found[1] != "setup"]


setup(
    packages=["cuplug", *(f"cuplug.{name}" for name in find_packages(include=INCLUDED))],
    cmdclass={"build_py": BuildWithoutSetup},
)
