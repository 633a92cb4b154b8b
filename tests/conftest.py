"""What the tests need and how they are multiplied.

Tests are grouped by what they need: nothing; a driver (the fixtures ``driver``, ``make_driver``, ``allocator``: every
schedule of the simulator, or what ``--driver`` says); the simulator itself (``needs_sim``); a GPU (``needs_gpu``: run
with ``--driver cuda``); another library (``needs_torch`` and its kin). No test asks for a GPU unless ``--driver`` does.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from cuplug.allocators.errors import CompileError
from cuplug.plugins.selection import parse_selection
from cuplug.runtime.kernels.simulator import host_compiler

from .timers import Cut, timers

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests press Ctrl-C, in child processes too

pytest_plugins = ["cuplug.plugins.conformance"]

SLOWEST = (
    "conformance/test_contract.py",
    "tensor/backends/test_generated_kernels.py",
    "native/test_sanitizers.py",
    "allocators/test_interrupts.py",
    "conformance/test_third_party.py",
    "runtime/test_growth.py",
    "docs/test_code_blocks.py",
    "tools/test_outputs.py",
    "tools/replaying/test_work_on_dask.py",
    "typing/test_type_checkers.py",
    "conformance/test_kit_accepts.py",
    "tensor/backends/test_row_kernels.py",
    "tensor/ops/test_along_dimensions.py",
    "training/test_fused_kernels.py",
)
"""Files that take most processor time: 15 s to a minute and a half, on two cores that others use too."""
THOROUGH = "CUPLUG_THOROUGH" in os.environ
"""Whether two to three times as many random programs are tried, and kernels compiled as for users. ``.ci/run`` does
both, besides the default run."""
LIBRARIES = ("torch", "cupy", "numba", "rmm", "pycuda")


def write_to_memory(shared: Path = Path("/dev/shm")) -> None:
    """Let what the run writes lie in memory, where Linux has a file system for that: of this process and its children.

    Tests write some ten thousand small files, many of them over others: for each of those ext4 waits for the disk,
    3 to 5 ms. Where ``TMPDIR`` is set, or there is little room, or nothing could be run from there, or the user may not
    write there, nothing changes. What runs that were killed have left there for a day is removed: it takes memory.
    """
    if "TMPDIR" in os.environ or not shared.is_dir():
        return
    about = os.statvfs(shared)
    if about.f_flag & (os.ST_NOEXEC | os.ST_RDONLY) or about.f_bavail * about.f_frsize < 4 << 30:
        return
    folder = shared / f"tests-of-cuplug-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        return
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    for left in folder.iterdir():
        with suppress(OSError):  # another run may remove it, too
            if left.lstat().st_mtime < time.time() - 24 * 60 * 60:
                shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def keep_bytecode(config: pytest.Config) -> None:
    """Where Python is told to keep no bytecode, it is kept for the run: else each of the many processes that tests
    start compiles cuplug anew, which takes about as long as all the rest of its start, and each that runs tests
    compiles them all."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        folder = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="bytecode-")
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))


class RootIsNoTestPackage:
    """Keeps pytest from importing the repository's root, which is the package, a second time and by another name."""

    @pytest.hookimpl
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if path != Path(__file__).parents[1]:
            return None
        directory: pytest.Dir = pytest.Dir.from_parent(parent, path=path)
        return directory


class Environment:
    """A virtual environment that also sees what the tests' own one has installed."""

    def __init__(self, root: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
        self.python = root / ("Scripts" if os.name == "nt" else "bin") / "python"
        self.root = root
        site = self.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
        # As a .pth line that runs: so that .pth files there (editable installs) are followed too.
        paths = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
        lines = [f"import site; site.addsitedir({path!r})\n" for path in sorted(paths)]
        (Path(site) / "the_tests_own.pth").write_text("".join(lines))

    def install(self, *what: str, **variables: str) -> None:
        """Install from folders at hand, without the network."""
        options = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q")
        done = self.run("-m", "pip", "install", *options, *what, **variables)
        assert done.returncode == 0, done.stderr

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CUPLUG_", "PYTEST_"))}
        return subprocess.run(
            [str(self.python), *arguments],
            capture_output=True,
            text=True,
            cwd=self.root,
            env={**kept, **variables},
            check=False,
        )


def _builds_wheels(setuptools: str) -> bool:
    major, minor, *_ = setuptools.split(".")
    return (int(major), int(minor)) >= (70, 1)


@pytest.fixture(scope="session")
def make_environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Environment]:
    """Makes an environment with packages installed from copies of their folders: ``make_environment(folder, ...)``."""
    if find_spec("pip") is None or find_spec("setuptools") is None or not _builds_wheels(version("setuptools")):
        pytest.skip("needs pip, and setuptools 70.1 or later, to install a package")

    def make(*folders: Path) -> Environment:
        environment = Environment(tmp_path_factory.mktemp("environment"))
        for folder in folders:
            source = tmp_path_factory.mktemp("source") / "package"
            shutil.copytree(folder, source)
            environment.install(str(source))
        return environment

    return make


def _folder_of_the_run(factory: pytest.TempPathFactory, name: str) -> Path:
    """A folder that the tests of one run share, in whichever process they run."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of compiled kernels that the tests of one run share, in whichever process they run."""
    return _folder_of_the_run(tmp_path_factory, "kernels")


@pytest.fixture
def timer() -> Iterator[Cut]:
    """Cuts functions short by a timer's signal: see ``timers``."""
    with timers() as cut:
        yield cut


@pytest.fixture(scope="module")
def quick_compiler(kernel_cache: Path) -> Iterator[None]:
    """A compiler for the simulator that keeps for the run what it makes of a module's kernels; or a reason to skip."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUPLUG_CACHE_DIR", str(kernel_cache))
        try:
            host_compiler.find_compiler()
        except CompileError as error:
            pytest.skip(str(error))
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run everything in two processes, where pytest-xdist is installed and there are two cores.

    Only when nothing is said of it, neither which tests (so that a few run in this process, under a debugger too) nor
    how many processes, and not on a GPU, whose memory the processes would share.
    """
    write_to_memory()
    keep_bytecode(config)
    if (
        getattr(config.option, "numprocesses", 0) is None
        and not hasattr(config, "workerinput")  # this is one of the two
        and config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and parse_selection(config.getoption("--driver")).name == "sim"
        and not config.getoption("usepdb")
        and (os.cpu_count() or 1) > 1
    ):
        config.option.numprocesses = 2
        config.option.dist = "loadfile"
        config.option.loadscopereorder = False  # files of few tests would come last, and those are the slowest
    if getattr(config.option, "numprocesses", 0):
        # NumPy's products, also of the processes that tests start. Its threads wait by spinning: on cores that others
        # use too, small products take ten times as long in two threads as in one.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where two processes run everything, begin with the slowest files, so that both end at the same time."""
    if hasattr(config, "workerinput"):
        first = {Path(__file__).parent / name for name in SLOWEST}
        items.sort(key=lambda item: item.path not in first)


def pytest_collection_finish() -> None:
    """Take what there is once all tests are known out of what the garbage collector looks at: a third of a million
    objects, of which each full collection takes a sixth of a second, here and in each child of a fork."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    if not THOROUGH:
        host_compiler.OPTIMISED = "-O1"  # it takes half as long as "-O3", and no test runs a kernel for long
    os.environ.pop("COLUMNS", None)  # which processes that run tests side by side are given: outputs are compared
    config.pluginmanager.register(RootIsNoTestPackage(), "cuplug-root")
    config.addinivalue_line("markers", "needs_sim: tests what only the simulator does")
    config.addinivalue_line("markers", "needs_gpu: needs a GPU; runs with --driver cuda")
    config.addinivalue_line("markers", "needs_device_alone: asks what the whole device has free; runs with -n 0")
    for library in LIBRARIES:
        config.addinivalue_line("markers", f"needs_{library}: needs the library {library}")


def pytest_sessionstart(session: pytest.Session) -> None:
    # Here and not in pyproject.toml: what other plugins that are installed warn of when they are set up is not ours.
    # They may be set up after this file.
    session.config.addinivalue_line("filterwarnings", "error")
    # pytest-xdist has a thread in each process. Tests fork all the same, for children that leave by os._exit.
    fork = "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"
    session.config.addinivalue_line("filterwarnings", fork)
    # How many processors there are is the machine's.
    session.config.addinivalue_line("filterwarnings", "ignore:This DataLoader will create:UserWarning")


def pytest_runtest_setup(item: pytest.Item) -> None:
    driver = parse_selection(item.config.getoption("--driver")).name
    if item.get_closest_marker("needs_gpu") and driver != "cuda":
        pytest.skip("needs a GPU: run with --driver cuda")
    if item.get_closest_marker("needs_device_alone") and driver == "cuda" and "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("asks what the whole device has free, which tests in other processes change: run with -n 0")
    if item.get_closest_marker("needs_sim") and driver != "sim":
        pytest.skip("tests the simulator: run with --driver sim")
    for library in LIBRARIES:
        if item.get_closest_marker(f"needs_{library}") and find_spec(library) is None:
            pytest.skip(f"needs {library}, which is not installed")


# As the conformance kit's "reproducible", with the same examples in every run, of which each new one costs time.
hypothesis.settings.register_profile(
    "tests",
    max_examples=30 if THOROUGH else 10,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    print_blob=True,
)
hypothesis.settings.load_profile("tests")
