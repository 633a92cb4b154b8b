"""Installing cuplug under libraries: one clear error for each thing that forbids it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import cuplug
import pytest
from cuplug.runtime.interop import installations


def test_the_package_is_found_by_its_public_name():
    import cuplug.interop.cupy
    from cuplug.interop import cupy, install

    assert cuplug.interop.cupy is cupy
    assert install is cuplug.interop.install
    assert sys.modules["cuplug.interop.cupy"] is sys.modules["cuplug.runtime.interop.cupy"]


def test_importing_cuplug_imports_none_of_the_libraries(run_program):
    done = run_program(
        "import sys, cuplug, cuplug.interop; print(*{'torch', 'cupy', 'numba', 'rmm', 'pycuda'} & set(sys.modules))"
    )
    assert done.stdout.strip() == "", done.stderr


def test_an_unknown_library_is_an_error_that_lists_the_known():
    with pytest.raises(cuplug.CuplugError, match=r"cannot be put under 'jax'; it can under: .*cupy"):
        cuplug.interop.install("jax")


def test_no_library_is_an_error():
    with pytest.raises(cuplug.CuplugError, match="needs the names of libraries"):
        cuplug.interop.install()


@pytest.mark.parametrize("library", ["cupy", "numba", "rmm", "pycuda"])
def test_a_library_that_is_not_installed_is_named_with_what_to_install(library, monkeypatch):
    monkeypatch.setattr(installations, "find_spec", lambda name: None)
    with pytest.raises(cuplug.CuplugError, match=r"which is not installed: pip install"):
        cuplug.interop.install(library)


@pytest.mark.parametrize("library", ["cupy", "numba", "rmm", "pycuda"])
def test_an_installation_that_is_repeated_as_in_a_notebook_changes_nothing(library, monkeypatch, make_simulated):
    monkeypatch.setitem(installations._installed, library, make_simulated("caching"))
    cuplug.interop.install(library)
    cuplug.interop.install(library, allocator="caching")


@pytest.mark.parametrize("library", ["cupy", "numba", "rmm", "pycuda"])
def test_an_installation_with_another_allocator_is_refused(library, monkeypatch, make_simulated):
    monkeypatch.setitem(installations._installed, library, make_simulated("caching"))
    with pytest.raises(cuplug.CuplugError, match=r"allocator 'caching', which cannot become 'expandable'"):
        cuplug.interop.install(library, allocator="expandable")


def test_nothing_is_changed_where_one_of_the_libraries_has_another_allocator(monkeypatch, make_simulated):
    monkeypatch.setitem(installations._installed, "cupy", make_simulated("caching"))
    changed = []
    monkeypatch.setattr(cuplug.interop.numba, "check", lambda _: None)
    monkeypatch.setattr(cuplug.interop.numba, "install", changed.append)
    with pytest.raises(cuplug.CuplugError, match=r"CuPy allocates from cuplug already, with the allocator 'caching'"):
        cuplug.interop.install("numba", "cupy", allocator="expandable")
    assert changed == []


@pytest.mark.parametrize("library", ["cupy", "numba", "rmm", "pycuda"])
def test_an_installation_after_the_runtime_was_shut_down_says_so(library, monkeypatch, make_simulated):
    runtime = make_simulated("caching")
    runtime.close()
    monkeypatch.setitem(installations._installed, library, runtime)
    with pytest.raises(cuplug.CuplugError, match="from a runtime of cuplug's that was shut down"):
        cuplug.interop.install(library)


def test_the_simulator_is_refused_for_libraries_that_need_a_device(monkeypatch):
    monkeypatch.setenv("CUPLUG_DRIVER", "sim")
    try:
        with pytest.raises(
            cuplug.CuplugError, match="needs memory of a CUDA device, and cuplug runs on the driver 'sim'"
        ):
            installations.runtime_for("CuPy", None)
    finally:
        cuplug.shutdown()


def test_no_visible_device_is_told_before_a_library_is_changed(monkeypatch):
    driver = SimpleNamespace(name="cuda", device_count=lambda: 0)
    monkeypatch.setattr(installations, "init", lambda allocator: SimpleNamespace(driver=driver))
    with pytest.raises(cuplug.CuplugError, match="CuPy needs memory of a CUDA device, and there is none"):
        installations.runtime_for("CuPy", None)


def test_an_unknown_allocator_is_an_error_that_lists_the_known(monkeypatch):
    monkeypatch.setenv("CUPLUG_DRIVER", "sim")
    with pytest.raises(cuplug.UnknownAllocatorError, match="caching"):
        installations.runtime_for("CuPy", "no_such_thing")


@pytest.mark.needs_sim
@pytest.mark.needs_cupy
def test_cupy_without_a_device_is_refused():
    import cupy

    if cupy.cuda.is_available():
        pytest.skip("CuPy finds a GPU here")
    with pytest.raises(cuplug.CuplugError, match="which sees no CUDA device"):
        cuplug.interop.install("cupy")


@pytest.mark.needs_sim
@pytest.mark.needs_numba
def test_numba_without_a_device_is_refused():
    from numba import cuda

    if cuda.is_available():
        pytest.skip("Numba finds a GPU here")
    with pytest.raises(cuplug.CuplugError, match="which sees no CUDA device"):
        cuplug.interop.install("numba")


@pytest.mark.needs_rmm
def test_a_resource_that_rmm_has_already_is_not_replaced(run_program):
    done = run_program(
        "import cuplug, cuplug.interop, rmm\n"
        "rmm.mr.set_per_device_resource(0, rmm.mr.CallbackMemoryResource(lambda *a: 0, lambda *a: None))\n"
        "cuplug.interop.install('rmm')"
    )
    assert "RMM has a resource already, CallbackMemoryResource" in done.stderr
