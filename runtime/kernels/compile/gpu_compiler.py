"""Compiling CUDA C++ for GPUs: NVRTC, by NVIDIA's ``cuda-bindings``, where it is installed, else nvcc."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ....allocators.environment import read_choice
from ....allocators.errors import CompileError
from ..source.host_code import without_host_code
from ..source.includes import flattened, folders_of, included_files, included_names
from ..source.kernel_names import demangle
from .compile_cache import Cache, Entry, content_key, dependencies_of
from .diagnostics import with_source_lines
from .nvrtc_headers import IMPLIED, LIMITS, MIXED, headers_for, needs_host
from .source_file import SOURCE_NAME, folder_to_compile_in, write_source
from .stub_headers import write_stubs
from .texture_references import with_texture_references

_LAMBDA = re.compile(r"\](?:\s*__host__)?\s*__device__(?=\s*[({])")  # which NVRTC knows to be the device's
_DEVICE_BY_DEFAULT = "--device-as-default-execution-space"
_LIMITS_FIRST = f"--pre-include={LIMITS}"
_REMEDIES = (
    # What nvcc takes without being told, since it compiles for the host as well: functions and constants without
    # __device__, and what the host's headers declare.
    (r"not allowed in JIT mode|is undefined in device code|calling a __host__ function", _DEVICE_BY_DEFAULT),
    (r"more than one instance of overloaded function", f"--pre-include={MIXED}"),
    (r'"(u?int(8|16|32|64|ptr)_t|(FLT|DBL)_\w+)" is undefined', _LIMITS_FIRST),
    (r'"U?(CHAR|SHRT|INT|LONG|LLONG)_(MAX|MIN|BIT)" is undefined', _LIMITS_FIRST),
)


def compile_for_gpu(
    source: str,
    *,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    arch: str,
    cache: Cache | None = None,
) -> Entry:
    """Compile CUDA C++ into a cubin.

    Args:
        source: the text.
        options: the compiler's.
        name_expressions: instances of templates to compile.
        include_dirs: where ``#include`` looks.
        arch: for example ``sm_90``.
        cache: where to look first, and to keep the result.

    Returns:
        The cubin as ``payload``; in ``facts`` the mangled names of the name expressions.

    Raises:
        CompileError: it does not compile, or there is no compiler.
    """
    nvrtc = _nvrtc()
    folders = [os.path.abspath(path) for path in include_dirs]
    compiler = f"nvrtc {nvrtc.version}" if nvrtc else nvcc_version()

    own, files = folders_of(options)

    def make() -> Entry:
        included, complete = included_files(source, [*own, *folders], files)
        before = dependencies_of(included, absent=True)  # a change during compilation must count
        try:
            entry, by_nvcc = _compile(nvrtc, source, options, name_expressions, folders, arch)
            return entry if by_nvcc else replace(entry, dependencies=before, complete=complete)
        except CompileError:
            # What compilers for GPUs refuse may also stand in files that the source includes.
            whole = flattened(source, SOURCE_NAME, [*own, *folders])
            for_device = with_texture_references(without_host_code(whole, always=True))
            if for_device != whole:
                with suppress(CompileError):
                    entry, _ = _compile(nvrtc, for_device, options, name_expressions, folders, arch)
                    return replace(entry, dependencies=before, complete=complete)
            raise

    if cache is None:
        return make()
    key = content_key("gpu", source, list(options), list(name_expressions), folders, arch, compiler)
    return cache.get_or_make(key, make, facts=("lowered",))


def _compile(
    nvrtc: _Nvrtc | None,
    source: str,
    options: Sequence[str],
    expressions: Sequence[str],
    folders: Sequence[str],
    arch: str,
) -> tuple[Entry, bool]:
    """What a source becomes, and whether nvcc made it, which knows what it included."""
    if nvrtc is None:
        return _with_nvcc(source, options, expressions, folders, arch), True
    tried = list(options)
    while True:
        try:
            return nvrtc.compile(source, tried, expressions, folders, arch), False
        except CompileError as error:
            remedies = dict.fromkeys(it for said, it in _REMEDIES if it not in tried and re.search(said, error.log))
            if remedies:
                tried += remedies
                continue
            # A source that wants what NVRTC lacks needs nvcc.
            if find_nvcc() and (re.search("(could not|cannot) open source|JIT mode", error.log) or needs_host(source)):
                return _with_nvcc(source, options, expressions, folders, arch), True
            raise


# --- NVRTC


class _Nvrtc:
    def __init__(self, api: Any) -> None:
        self.api = api
        self.version = ".".join(map(str, self._call("nvrtcVersion")))

    def _call(self, name: str, *args: Any) -> tuple[Any, ...]:
        code, *results = getattr(self.api, name)(*args)
        if int(code):
            raise CompileError(f"{name} failed: {self.api.nvrtcGetErrorString(code)[1].decode()}")
        return tuple(results)

    def compile(
        self, source: str, options: Sequence[str], expressions: Sequence[str], folders: Sequence[str], arch: str
    ) -> Entry:
        source = _LAMBDA.sub("]", source)
        headers = headers_for([*folders_of(options)[0], *folders], _toolkit_headers()[:1])
        contents, names = [text.encode() for text in headers.values()], [name.encode() for name in headers]
        (program,) = self._call(
            "nvrtcCreateProgram", source.encode(), SOURCE_NAME.encode(), len(headers), contents, names
        )
        try:
            for expression in expressions:
                self._call("nvrtcAddNameExpression", program, expression.encode())
            arguments = [
                f"--pre-include={IMPLIED}",
                *options,
                f"--gpu-architecture={arch}",
                *(f"--include-path={folder}" for folder in folders),
            ]
            if not any(option.startswith(("-std", "--std")) for option in options):
                arguments.append("--std=c++17")
            arguments += [f"--include-path={folder}" for folder in _toolkit_headers()]
            encoded = [argument.encode() for argument in arguments]
            (code, *_) = self.api.nvrtcCompileProgram(program, len(encoded), encoded)
            log = self._text(program, "ProgramLog")
            if int(code):
                raise CompileError("the source does not compile with NVRTC", with_source_lines(log, source))
            lowered = {
                expression: self._call("nvrtcGetLoweredName", program, expression.encode())[0].decode()
                for expression in expressions
            }
            return Entry(self._bytes(program, "CUBIN"), {"lowered": lowered, "log": log})
        finally:
            self.api.nvrtcDestroyProgram(program)

    def _bytes(self, program: Any, what: str) -> bytes:
        (size,) = self._call(f"nvrtcGet{what}Size", program)
        buffer = bytearray(size)
        self._call(f"nvrtcGet{what}", program, buffer)
        return bytes(buffer)

    def _text(self, program: Any, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode(errors="replace").strip()


@functools.cache
def _nvrtc() -> _Nvrtc | None:
    if read_choice("CUPLUG_COMPILER", ("nvcc", "nvrtc")) == "nvcc":
        return None
    try:
        from cuda.bindings import nvrtc as api

        return _Nvrtc(api)
    except Exception:  # not installed, or without the library: it says so in many ways
        return None


@functools.cache
def _toolkit_headers() -> tuple[str, ...]:
    """Where CUDA's own headers are (cuda_fp16.h and others), if they can be found."""
    roots = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    nvcc = find_nvcc()
    if nvcc:
        roots.append(str(Path(nvcc).resolve().parent.parent))
    found = []
    for root in filter(None, roots):
        for folder in (Path(root) / "include", Path(root) / "targets" / "x86_64-linux" / "include"):
            if (folder / "cuda_fp16.h").exists():
                found.append(folder)
                break
    wheels = find_spec("nvidia")  # those of CUDA's runtime
    for root in (wheels.submodule_search_locations if wheels else None) or ():
        found += [path.parent for path in Path(root).glob("*/include/cuda_fp16.h")]
    folders = list(dict.fromkeys(map(str, found)))[:1]
    return tuple(folders + [str(Path(folder) / "cccl") for folder in folders if (Path(folder) / "cccl").exists()])


# --- nvcc


def find_nvcc() -> str | None:
    """The path of nvcc: in ``CUDA_HOME`` or ``CUDA_PATH``, on the path, or where CUDA installs it."""
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")):
        if root and os.access(os.path.join(root, "bin", "nvcc"), os.X_OK):
            return os.path.join(root, "bin", "nvcc")
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc") or (usual if os.access(usual, os.X_OK) else None)


def nvcc_version() -> str:
    """What nvcc says of itself.

    Raises:
        CompileError: there is no compiler at all.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise CompileError(
            "there is no CUDA compiler: install NVRTC and its bindings (pip install 'cuplug[cuda]' nvidia-cuda-nvrtc), "
            "or the CUDA toolkit with nvcc, and name its folder in CUDA_HOME"
        )
    return _version_of(nvcc, os.stat(nvcc).st_mtime_ns)


@functools.lru_cache
def _version_of(nvcc: str, _changed: int) -> str:
    return subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout


def _with_nvcc(
    source: str, options: Sequence[str], expressions: Sequence[str], folders: Sequence[str], arch: str
) -> Entry:
    nvcc_version()  # raises where there is none
    nvcc = find_nvcc()
    assert nvcc is not None
    pointers = ", ".join(f"(const void*)({expression.lstrip('& ')})" for expression in expressions)
    instances = (  # a reference from the host's side makes nvcc compile the instance
        '\n#line 1 "name expressions"\n'
        f"__attribute__((used)) static const void* const __cuplug_instances[] = {{{pointers}}};\n"
        if expressions
        else ""
    )
    with folder_to_compile_in() as directory:
        folder = Path(directory)
        path = write_source(source + instances, folder)
        stubs = folder / "stubs"
        own, files = folders_of(options)
        write_stubs(included_names(source, [*own, *folders], files), stubs)
        command = [nvcc, "-cubin", f"-arch={arch}", *options, *(f"-I{path}" for path in folders)]
        command += ["-Xcompiler", f"-idirafter,{stubs}"]
        # As NVRTC does: std::max and its like in kernels.
        command += ["--expt-relaxed-constexpr", "--extended-lambda"]
        command += ["-MD", "-MF", "dependencies", "-o", "module.cubin", path]
        result = subprocess.run(command, cwd=directory, capture_output=True, text=True, errors="replace", check=False)
        if result.returncode:
            log = (result.stderr + result.stdout).strip()
            raise CompileError("the source does not compile with nvcc", with_source_lines(log, source))
        cubin = (folder / "module.cubin").read_bytes()
        included = _included(folder / "dependencies", folder)
    symbols = kernel_symbols(cubin)
    lowered = {expression: match_instance(expression, symbols) for expression in expressions}
    return Entry(cubin, {"lowered": lowered, "log": result.stderr}, dependencies_of(included))


def _included(rule: Path, folder: Path) -> list[str]:
    try:
        names = rule.read_text().replace("\\\n", " ").partition(":")[2].split()
    except OSError:
        return []
    toolkit = (str(folder) + os.sep, "/usr/", *(os.path.realpath(path) for path in _toolkit_headers()))
    paths = [os.path.realpath(folder / name) for name in names]
    return [path for path in paths if not path.startswith(toolkit)]


# --- names


def kernel_symbols(cubin: bytes) -> list[str]:
    """The (mangled) names of a cubin's kernels: each has a section of its own."""
    names = re.findall(rb"\0\.text\.([A-Za-z_$][\w$.]*)(?=\0)", cubin)
    return sorted({name.decode() for name in names})


def match_instance(expression: str, symbols: Sequence[str]) -> str:
    """The mangled name of a template's instance.

    Raises:
        CompileError: none of the symbols is one.
    """
    wanted = _canonical(expression)
    demangled = {symbol: _instance_name(demangle(symbol)) for symbol in symbols}
    exact = [symbol for symbol, name in demangled.items() if name == wanted or name.endswith(f"::{wanted}")]
    base = wanted.split("<")[0].split("::")[-1]
    longer = [symbol for symbol, name in demangled.items() if name.startswith(f"{wanted[:-1]},")]  # default arguments
    similar = [symbol for symbol, name in demangled.items() if name.split("<")[0].split("::")[-1] == base]
    for candidates in (exact, longer, similar):
        if len(candidates) == 1:
            return candidates[0]
    raise CompileError(
        f"name expression {expression!r} matches none of the compiled kernels: {sorted(demangled.values())}"
    )


def _instance_name(demangled: str) -> str:
    """``void ns::k<float>(float*)`` as ``ns::k<float>``."""
    depth = 0
    for index, character in enumerate(demangled):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            demangled = demangled[:index]
            break
    return _canonical(demangled.removeprefix("void "))


def _canonical(text: str) -> str:
    text = re.sub(r"\((?:unsigned |signed )?(?:int|long|short|char|bool|unsigned)(?: long)*(?: int)?\)", "", text)
    text = re.sub(r"\bunsigned\b(?! (?:int|long|short|char))", "unsigned int", text)
    text = re.sub(r"(?<=\d)(?:[uUlL]+)\b", "", text)
    return re.sub(r"\s+", "", text).lstrip("&:")
