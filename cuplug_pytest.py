"""A plugin of pytest's that limits and tells how much device memory tests take. It is there
wherever cuplug is installed.

``@pytest.mark.limit_device_memory("2 GiB")`` fails a test that holds more at once on one device,
``@pytest.mark.limit_leaks("1 MiB")`` one that keeps more (without a size: anything), the fixture
``device_memory_use`` gives a test its peak and its leaks by call site, and ``--cuplug`` ends a run with the tests that
take most. What counts is what a test allocates from cuplug while it runs, be it itself, or through another library
on cuplug's memory; fixtures do not count.

Nothing of cuplug is imported unless one of these is asked for: that is why it stands beside the package.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Sequence
from typing import Any

import pytest

_LIMIT, _LEAKS, _FIXTURE, _OPTION = "limit_device_memory", "limit_leaks", "device_memory_use", "--cuplug"
_PROPERTY = "cuplug_device_memory"
_SHOWN = 10
_TOO_LATE = (
    "cuplug's runtime was started before pytest had collected the tests, so that their device memory is not measured: "
    "start it in a fixture, not while conftest.py or a module of tests is imported"
)
__cuplug_stacks_end_here__ = True  # what called a test is no part of its call stacks

_measure: Any = None
"""The one ``MemoryUse`` of this process, once it was asked for."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cuplug")
    group.addoption(_OPTION, action="store_true", help="end with the tests that take most device memory from cuplug")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{_LIMIT}(size): fail if more device memory is held at once, such as '2 GiB'")
    config.addinivalue_line("markers", f"{_LEAKS}(size): fail if more device memory is not freed; by default any")
    if config.getoption(_OPTION):
        _use()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _limits(item)  # wrong ones are found before anything runs
        if _is_measured(item):
            _use()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if not _is_measured(item):
        return (yield)
    use = _use()
    limits = _limits(item)
    if _is_too_late(use):
        pytest.fail(_TOO_LATE, pytrace=False)
    use.begin()
    try:
        result = yield
        gc.collect()  # what only circles hold is no leak
    finally:
        use.end()
        peaks = use.peak()
        device = max(peaks, key=peaks.__getitem__, default=0)
        peak = peaks.get(device, 0)
        top = [(_where(site), site.blocks, site.nbytes) for site in use.sites_at_peak(device)[:1]]
        leaked = sum(site.nbytes for site in use.leaks())
        item.user_properties.append((_PROPERTY, [peak, leaked, top]))
    problems = []
    if limits.get(_LIMIT, peak) < peak:
        problems += _told(
            f"{peak} bytes of device {device} were held at once", limits[_LIMIT], use.sites_at_peak(device)
        )
    if limits.get(_LEAKS, leaked) < leaked:
        problems += _told(f"{leaked} bytes of device memory were not freed", limits[_LEAKS], use.leaks())
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
    return result


@pytest.fixture
def device_memory_use() -> Any:
    """What this test takes: ``peak()`` (bytes by device), ``sites_at_peak(device)`` and ``leaks()`` (by call site)."""
    return _use()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption(_OPTION):
        return
    rows = [
        (*value, report.nodeid)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == _PROPERTY and report.when == "call"
    ]
    rows.sort(key=lambda row: (-row[0], row[-1]))
    terminalreporter.section("device memory (cuplug)")
    if not any(peak for peak, *_ in rows):
        terminalreporter.write_line("No test has taken device memory from cuplug.")
        return
    terminalreporter.write_line(f"{'peak':>12}  {'not freed':>12}  test, and who asked for most")
    for peak, leaked, top, node in rows[:_SHOWN]:
        terminalreporter.write_line(f"{_size(peak):>12}  {_size(leaked) if leaked else '-':>12}  {node}")
        for where, blocks, nbytes in top:
            terminalreporter.write_line(f"{'':28}{_size(nbytes)} in {blocks} block{'s' * (blocks > 1)}: {where}")


def _use() -> Any:
    global _measure
    if _measure is None:
        from cuplug.plugins.manager import default_manager
        from cuplug.plugins.memory_use import MemoryUse

        _measure = MemoryUse()
        default_manager().register(_measure, "pytest: memory use")
    return _measure


def _is_too_late(use: Any) -> bool:
    """Whether a runtime is there that was started before anything was measured."""
    from cuplug.runtime.machine.default_runtime import default_runtime, is_initialized

    return is_initialized() and not use.observes(default_runtime())


def _is_measured(item: pytest.Item) -> bool:
    asked = item.config.getoption(_OPTION) or _FIXTURE in getattr(item, "fixturenames", ())
    return bool(asked or item.get_closest_marker(_LIMIT) or item.get_closest_marker(_LEAKS))


def _limits(item: pytest.Item) -> dict[str, int]:
    """The limits of a test, in bytes, by the marker's name."""
    found = {}
    for name in (_LIMIT, _LEAKS):
        marker = item.get_closest_marker(name)
        if marker is None:
            continue
        from cuplug.allocators.sizes import parse_size

        words = marker.args or (("0",) if name == _LEAKS else ())
        try:
            (size,) = words
            found[name] = parse_size(str(size))
        except ValueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {name} takes one size, such as '2 GiB': {error}") from None
    return found


def _told(what: str, limit: int, sites: Sequence[Any]) -> list[str]:
    lines = [f"{what}; the limit is {limit} bytes ({_size(limit)}). They were asked for at:"]
    lines += [f"  {_size(site.nbytes)} in {site.blocks} blocks: {_where(site)}" for site in sites[:_SHOWN]]
    return [*lines, *([f"  and {len(sites) - _SHOWN} more"] if len(sites) > _SHOWN else [])]


def _where(site: Any) -> str:
    from cuplug.tools.analysis.sites import site_of

    return site_of(site.stack)


def _size(nbytes: int) -> str:
    from cuplug.allocators.sizes import short_size

    return short_size(nbytes)
