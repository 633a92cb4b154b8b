"""``cuplug-trace run``."""

from __future__ import annotations

from typing import Annotated

import typer

from ...plugins.manager import default_manager
from ..console import say
from ..replaying.driver_choice import choose_driver
from .options import Allocator, Cupy, Driver, Numba, Pycuda, Rmm, Torch, chosen_libraries
from .recorded_run import check_target, run_recorded


def run(
    target: Annotated[str, typer.Argument(help="The script to run.", metavar="SCRIPT")],
    arguments: Annotated[list[str] | None, typer.Argument(help="Its arguments.", metavar="ARGS")] = None,
    module: Annotated[bool, typer.Option("-m", help="SCRIPT is a module's name, as in python -m.")] = False,
    allocator: Allocator = None,
    driver: Driver = None,
    torch: Torch = False,
    cupy: Cupy = False,
    numba: Numba = False,
    rmm: Rmm = False,
    pycuda: Pycuda = False,
) -> None:
    """Run a script or a module as it is, on an allocator of cuplug's. Nothing is recorded.

    --torch and its kin put cuplug under the libraries that the program uses, before it begins. What it says in
    cuplug.init() itself takes precedence over --allocator and --driver.
    """
    libraries = chosen_libraries(torch=torch, cupy=cupy, numba=numba, rmm=rmm, pycuda=pycuda)
    if allocator is not None:
        default_manager().check_allocator(allocator)
    check_target(target, module=module)
    if libraries == ["pycuda"]:
        driver, remark = choose_driver(driver, libraries)
        if remark:
            say(remark)
    wanted = {"CUPLUG_ALLOCATOR": allocator, "CUPLUG_DRIVER": driver}
    environment = {name: value for name, value in wanted.items() if value is not None}
    raise typer.Exit(run_recorded(target, arguments or [], module=module, environment=environment, libraries=libraries))
