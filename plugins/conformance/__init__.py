"""The conformance kit: a pytest plugin that runs the whole contract of an allocator, without any test code.

With a package installed that contributes an allocator ``mine`` (entry-point group ``cuplug``), run::

    pytest -p cuplug.plugins.conformance --allocator mine:option=value

It needs pytest and hypothesis (``pip install 'cuplug[test]'``), and no GPU: the driver is the simulator, under eager,
lazy and random schedules. ``--driver cuda`` takes a GPU instead, ``--driver sim:schedule=random,seed=7`` one schedule,
and ``--hypothesis-profile thorough`` searches longer. Paths of tests run those tests instead of the contract; they may
use the fixtures below. Every check is a function as well: see ``contract_checks`` and ``random_operations``.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

try:
    import hypothesis
    import pytest
except ImportError as error:
    raise ImportError(
        f"cuplug's conformance kit needs {error.name}, which is not installed: pip install 'cuplug[test]'"
    ) from error

from ...allocators.base import Allocator
from ...allocators.errors import CuplugError
from ...allocators.upstreams.null import NullUpstream
from ...runtime.drivers.base import Driver
from ...runtime.drivers.device_upstream import DeviceUpstream
from ..manager import default_manager
from ..selection import parse_selection
from .rules import ContractBrokenError
from .stepping import PATIENCE_S
from .told_failures import told

__all__ = ["SCHEDULES", "schedules_of"]

SCHEDULES = ("schedule=eager", "schedule=lazy", *(f"schedule=random,seed={seed}" for seed in (1, 2, 3)))
"""The options under which the simulator runs each test."""

CONTRACT = Path(__file__).with_name("contract.py")

# The same examples in every run, or many, and new ones each time.
hypothesis.settings.register_profile(
    "reproducible", max_examples=30, stateful_step_count=40, deadline=None, derandomize=True, print_blob=True
)
hypothesis.settings.register_profile(
    "thorough", max_examples=300, stateful_step_count=80, deadline=None, print_blob=True
)


def schedules_of(selection: str, schedules: Sequence[str] = SCHEDULES) -> list[str]:
    """The driver ``selection``, once for each of the ``schedules`` if it is the simulator and names none itself."""
    chosen = parse_selection(selection)
    if chosen.name != "sim" or {"schedule", "seed"} & set(chosen.options):
        return [selection]
    return [f"{selection}{',' if chosen.options else ':'}{schedule}" for schedule in schedules]


# --- options ----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cuplug", "cuplug: allocators and drivers")
    group.addoption(
        "--driver", metavar="NAME[:OPTION=VALUE,...]", default="sim", help="the driver to test on (default: sim)"
    )
    group.addoption(
        "--allocator",
        action="append",
        default=[],
        metavar="NAME[:OPTION=VALUE,...]",
        help="an allocator to test; may be repeated (default: every registered one)",
    )
    group.addoption(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long threads may stand still before it is called a deadlock (default: %(default)s)",
    )
    group.addoption(
        "--thorough",
        action="store_true",
        help="interrupt allocators at each line by each kind of exception, and by 10,000 timer signals: minutes each",
    )


def pytest_configure(config: pytest.Config) -> None:
    try:
        _check_names(config)
    except CuplugError as error:
        raise pytest.UsageError(str(error)) from None
    config.addinivalue_line(
        "markers", "one_schedule(options): the schedule makes no difference, or only this one is of interest"
    )
    if _is_command(config) and not config.getoption("--hypothesis-profile", None):
        hypothesis.settings.load_profile("reproducible")
    if _is_command(config) and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = [str(CONTRACT)]


def _check_names(config: pytest.Config) -> None:
    manager = default_manager()
    for selection in config.getoption("--allocator"):
        manager.check_allocator(selection)
        # One that cannot be made, for a value that it refuses say, is one error, not one in each test. It is not
        # closed: what its methods do wrong is for the tests to tell.
        manager.make_allocator(selection, NullUpstream())
    manager.check_driver(config.getoption("--driver"))


def _is_command(config: pytest.Config) -> bool:
    """Whether this plugin was named on the command line, and not by somebody's conftest."""
    return __name__ in (config.getoption("plugins") or ())


# --- the matrix -------------------------------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "driver_selection" in metafunc.fixturenames:
        driver = metafunc.config.getoption("--driver")
        single = metafunc.definition.get_closest_marker("one_schedule")
        drivers = schedules_of(driver, single.args or SCHEDULES[:1]) if single else schedules_of(driver)
        metafunc.parametrize("driver_selection", drivers, scope="session")
    if "allocator_selection" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--allocator") or _complete_without_options()
        metafunc.parametrize("allocator_selection", chosen, scope="session")


def _complete_without_options() -> list[str]:
    """The installed allocators by their names, but for those that need an option, which is tested where given."""
    entries = default_manager().describe_allocators()
    return [entry.name for entry in entries if entry.problem or entry.stands_alone]


@pytest.fixture(scope="session")
def held_device(driver_selection: str) -> Iterator[None]:
    """Keeps a GPU's context for the session: making one takes a tenth of a second and more."""
    if parse_selection(driver_selection).name == "sim":
        yield
        return
    driver = default_manager().make_driver(driver_selection)
    try:
        if driver.device_count():
            driver.set_device(0)
        yield
    finally:
        driver.close()


@pytest.fixture
def make_driver(driver_selection: str, held_device: None) -> Iterator[Any]:  # noqa: ARG001
    """Makes drivers under the test's schedule: ``make_driver(devices=2)``. They are closed after the test."""
    made: list[Driver] = []

    def make(**options: object) -> Driver:
        selection = parse_selection(driver_selection)
        devices = int(str(options.get("devices", 1)))
        if selection.name == "sim":
            selection.options.update({name: str(value) for name, value in options.items()})
        elif set(options) - {"devices"}:
            pytest.skip(f"needs the simulator's {', '.join(sorted(options))}")
        driver = default_manager().make_driver(str(selection))
        made.append(driver)
        if driver.device_count() < devices:
            pytest.skip(f"needs {devices} devices; {selection} has {driver.device_count()}")
        return driver

    yield make
    for driver in reversed(made):
        driver.close()


@pytest.fixture
def patience_s(request: pytest.FixtureRequest) -> float:
    """Seconds in which some thread must move on (``--patience``)."""
    patience: float = request.config.getoption("--patience")
    return patience


@pytest.fixture
def driver(make_driver: Any) -> Driver:
    """A driver under each schedule, its device 0 current."""
    made: Driver = make_driver()
    made.set_device(0)
    return made


@pytest.fixture
def allocator(allocator_selection: str, driver: Driver) -> Iterator[Allocator]:
    """Each allocator over device 0 of ``driver``, closed after the test."""
    made = default_manager().make_allocator(allocator_selection, DeviceUpstream(driver, 0))
    yield made
    made.close()


class _Contract(pytest.Module):
    """The contract, imported by its name: pytest would import it by its path, apart from the installed package."""

    def _getobj(self) -> Any:
        return importlib.import_module(f"{__name__}.contract")


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The folders above the contract are no packages of tests. pytest would import them by their paths, and the root of
    a checkout by its folder's name, which may be no name of Python's."""
    if path not in CONTRACT.parents[:3]:
        return None
    directory: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
    return directory


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    if module_path == CONTRACT:
        root = parent.config.rootpath
        # pytest has no name for a file outside its root: a failure's name could not be given to it again.
        name: dict[str, Any] = {} if module_path.is_relative_to(root) else {"nodeid": module_path.as_posix()}
        made: pytest.Module = _Contract.from_parent(parent, path=module_path, **name)
        return made
    return None


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """A broken rule is told in a few lines, unless a style of tracebacks was chosen (``--tb=long``)."""
    report = yield
    if isinstance(item.parent, _Contract) and item.config.getoption("tbstyle") == "auto":
        error = call.excinfo.value if call.excinfo else None
        if isinstance(error, ContractBrokenError):
            report.longrepr = told(error, item)
    return report
