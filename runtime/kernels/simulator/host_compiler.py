"""Compiling CUDA C++ for the host: finding a C++ compiler and calling it."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ....allocators.errors import CompileError
from ..compile.compile_cache import Cache, Entry, content_key, dependencies_of
from ..compile.source_file import folder_to_compile_in, write_source
from ..compile.stub_headers import write_stubs
from ..source.includes import folders_of, included_names
from .compiler_messages import failure
from .forwarding_headers import write_forwarding_headers

HEADERS = Path(__file__).parent / "headers"
SHADOW_OFFSET = 0x18000  # headers/engine/shadow.h
_COMMON = (
    # As nvcc treats sources: type punning and overflow do what the machine does, a*b+c is fused, no exceptions.
    *("-std=gnu++17", "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=fast", "-fno-exceptions", "-fno-rtti"),
    *("-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-fno-delete-null-pointer-checks"),
    "-gdwarf-4",  # in version 5, addr2line of binutils 2.40 names another file at the beginnings of functions
    "-g1",  # lines, for kernels that are ended; behind the version, which would ask for all that debuggers want, too
    "-fstack-clash-protection",  # a frame larger than the guard below a stack would pass over it
    *("-fno-stack-protector", "-fno-threadsafe-statics", "-U_FORTIFY_SOURCE", "-Werror=vla"),
    # LLVM's <array> includes by its own account <atomic> and threads, which ask more of the system than kernels see.
    "-D_LIBCPP_REMOVE_TRANSITIVE_INCLUDES",
)
OPTIMISED = "-O3"
"""How far kernels are optimised. It takes two to three times as long as ``-O2`` with large ones, once."""
_CHECKS = {
    "gcc": (
        *("-fsanitize=kernel-address,alignment", "-fno-sanitize-recover=alignment"),
        f"-fasan-shadow-offset={SHADOW_OFFSET:#x}",
        *("--param=asan-instrumentation-with-call-threshold=1000000", "--param=asan-globals=0"),
        *("--param=asan-stack=1", "-fno-sanitize-address-use-after-scope"),  # see engine/local_arrays.h
    ),
    "clang": (
        *("-fsanitize=kernel-address,alignment", "-fno-sanitize-recover=alignment"),
        *("-mllvm", f"-asan-mapping-offset={SHADOW_OFFSET:#x}"),
        *("-mllvm", "-asan-instrumentation-with-call-threshold=1000000"),
        *("-mllvm", "-asan-stack=0", "-mllvm", "-asan-globals=0", "-mllvm", "-asan-kernel-mem-intrinsic-prefix=1"),
    ),
}
_TOLD_FAULTS, _TOLD_ACCESSES = "told_faults", "told_accesses"
"""Of ``headers/engine``: what is linked to modules that are checked, and to those whose races are looked for."""
_FACTS = ("parameters", "checked", "races", "source")
_RACES = {
    kind: (
        *("-O1", "-fsanitize=thread,alignment", "-fno-sanitize-recover=alignment", "-fno-inline-small-functions"),
        *options,
    )
    for kind, options in {
        "gcc": ("--param=tsan-distinguish-volatile=1", "--param=tsan-instrument-func-entry-exit=0"),
        "clang": (
            *("-mllvm", "-tsan-distinguish-volatile=1", "-mllvm", "-tsan-instrument-func-entry-exit=0"),
            *("-mllvm", "-tsan-instrument-memintrinsics=0", "-mllvm", "-tsan-instrument-read-before-write=1"),
        ),
    }.items()
}
"""Every access becomes a call."""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler."""

    command: tuple[str, ...]
    kind: str
    """``gcc`` or ``clang`` (zig is clang): which options it takes."""
    version: str

    def flags(self) -> list[str]:
        """The options that every compilation gets, besides those that optimise."""
        flags = [*_COMMON]
        if not self.is_zig:  # zig compiles for this processor by itself
            flags.append("-mcpu=native" if platform.machine() == "aarch64" else "-march=native")
        # Errors in spite of -w, of which nvcc warns.
        flags.append("-Wno-c++11-narrowing" if self.kind == "clang" else "-Wno-narrowing")
        if platform.machine() in ("x86_64", "AMD64"):
            flags.append("-fcf-protection=none")
        return flags

    @property
    def is_zig(self) -> bool:
        """Whether it is zig's."""
        return "ziglang" in self.command

    def link(self, arguments: Sequence[str], directory: str) -> subprocess.CompletedProcess[str]:
        """Call it to make a library of object files, which need nothing of the C++ library."""
        if not self.is_zig:
            return self.run(arguments, directory)
        # As a compiler of C: as one of C++, zig would first build its C++ library, which takes most of a minute. What
        # has no need of clang's own functions (for __int128, say) is linked without those, too, and without waiting.
        linker = replace(self, command=(*self.command[:-1], "cc"))
        linked = linker.run([*arguments, "-O2", "-nostdlib"], directory)
        return linker.run([*arguments, "-O2"], directory) if linked.returncode else linked

    def run(self, arguments: Sequence[str], directory: str) -> subprocess.CompletedProcess[str]:
        """Call it. ``directory`` becomes the current one."""
        environment = {**os.environ, "LC_ALL": "C"}
        return subprocess.run(
            [*self.command, *arguments],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )


def find_compiler(cache: Cache | None = None) -> Compiler:
    """``$CXX``, else g++, clang++ or c++, else the zig that the package ``ziglang`` holds.

    Args:
        cache: remembers what compilers say of themselves, for as long as their files do not change.

    Raises:
        CompileError: there is none, or ``$CXX`` does not work.
    """
    wanted, path = os.environ.get("CXX", ""), os.environ.get("PATH", "")
    found = _found.get((wanted, path))
    if found is None:
        found = _found[wanted, path] = _find_compiler(wanted, path, cache)
    return found


_found: dict[tuple[str, str], Compiler] = {}


def _find_compiler(wanted: str, path: str, cache: Cache | None) -> Compiler:
    for command in _candidates(wanted, path):
        try:
            answer = _ask_version(command, path, cache)
        except (OSError, subprocess.SubprocessError) as error:
            if wanted:
                raise CompileError(f"the C++ compiler that CXX names does not work: CXX={wanted!r}: {error}") from error
            continue
        clang = "clang" in answer or "ziglang" in command
        return Compiler(tuple(command), "clang" if clang else "gcc", answer.strip())
    raise CompileError(
        "kernels run on the simulator by compiling them for this machine, and there is no C++ compiler: install g++ or "
        "clang++ (Debian, Ubuntu: apt install g++), or pip install 'cuplug[sim]', which brings one; or name one in CXX"
    )


def _ask_version(command: list[str], path: str, cache: Cache | None) -> str:
    def ask() -> Entry:
        answer = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=True)
        return Entry(answer.stdout)

    identity = []
    for word in command:
        file = shutil.which(word, path=path)
        if word == "ziglang":
            spec = importlib.util.find_spec(word)
            file = spec.origin if spec else None
        if file:
            status = os.stat(file)
            identity.append(f"{os.path.realpath(file)} {status.st_size} {status.st_mtime_ns}")
    key = content_key("compiler", command, identity)
    return (cache.get_or_make(key, ask) if cache and identity else ask()).payload.decode(errors="replace")


def _candidates(wanted: str, path: str) -> Iterator[list[str]]:
    if wanted:
        yield shlex.split(wanted)
        return
    for name in ("g++", "clang++", "c++"):
        found = shutil.which(name, path=path)
        if found:
            yield [found]
    if importlib.util.find_spec("ziglang") is not None:
        yield [sys.executable, "-m", "ziglang", "c++"]


@functools.cache
def translator_digest() -> str:
    """A digest of all that makes modules besides the compiler: headers, engine, and the translation itself."""
    package = Path(__file__).parents[1]
    rooms = [package / room for room in ("source", "compile", "simulator")]
    files = sorted(path for room in rooms for path in room.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return content_key(*[part for path in files for part in (str(path.relative_to(package)), path.read_bytes())])


@functools.cache
def processor() -> str:
    """What the compiler may have used of this processor: code for one need not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    about = {line.split(":")[0].strip(): line for line in reversed(lines) if ":" in line}
    keys = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join([platform.machine(), *(about.get(key, "") for key in keys)])


def compile_for_host(
    source: str,
    *,
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
    arch: str = "sm_90",
    checked: bool = True,
    races: bool = False,
    cache: Cache | None = None,
) -> Entry:
    """Compile CUDA C++ into a shared library for this machine.

    Args:
        source: the text.
        options: as nvcc takes them; ``-D``, ``-U``, ``-I``, ``-std`` and ``-fmad`` count, the rest concerns GPUs.
        name_expressions: instances of templates to compile.
        include_dirs: where ``#include`` looks.
        arch: what ``__CUDA_ARCH__`` says.
        checked: whether accesses are checked.
        races: whether they are also compared with one another, to find races.
        cache: where to look first, and to keep the result.

    Returns:
        The library as ``payload``; in ``facts`` the parameters' names and whether it is checked.

    Raises:
        CompileError: it does not compile, or there is no compiler.
    """
    compiler = find_compiler(cache)
    flags = [*host_options(options), *(f"-I{os.path.abspath(path)}" for path in include_dirs)]
    flags.append(f"-D__CUDA_ARCH__={re.sub('[^0-9]', '', arch) or '90'}0")

    told = [*[_TOLD_FAULTS] * (checked or races), *[_TOLD_ACCESSES] * races]

    def make() -> Entry:
        with folder_to_compile_in() as directory:
            for name in told:
                made = _compiled_once(name, cache)
                Path(directory, f"{name}.o").write_bytes(made)
            return _compile(
                compiler, source, flags, name_expressions, directory, told, checked=checked or races, races=races
            )

    if cache is None:
        return make()
    checks = _RACES if races else _CHECKS
    identity = (
        *compiler.command,
        compiler.version,
        *compiler.flags(),
        OPTIMISED,
        *(checks[compiler.kind] * (checked or races)),
    )
    key = content_key("host", source, flags, name_expressions, identity, translator_digest(), processor())
    return cache.get_or_make(key, make, facts=_FACTS)


def _compile(
    compiler: Compiler,
    source: str,
    flags: list[str],
    expressions: Sequence[str],
    directory: str,
    told: Sequence[str],
    *,
    checked: bool,
    races: bool,
) -> Entry:
    from ..source.host_code import without_host_code
    from .translate import translate  # what is cached needs none of it

    folder = Path(directory)
    path = write_source(source, folder)
    stubs = folder / "stubs"
    own, files = folders_of(flags)
    names = included_names(source, own, files)
    write_stubs(names, stubs)
    write_forwarding_headers(folder / "forwarding", names)
    include = ["-I", str(HEADERS), "-I", str(HEADERS / "include"), "-I", str(folder / "forwarding")]
    # A program's own "complex.h" is not the engine's, but CUDA's headers are, also where a folder of CUDA's is named.
    include += [part for root in own if not _is_toolkit(root) for part in ("-iquote", root)]
    # After the program's own folders, and before those that the compiler is told by -isystem: what ``CXX`` names may be
    # a script that names the standard library's so. The marks below make them the system's all the same.
    flags = [*flags, "-I", str(stubs)]
    standard = [flag for flag in flags if flag.startswith("-std=")]
    scan = ["-E", *_COMMON, *standard, "-DCUPLUG_SCAN", *include, "-imacros", str(HEADERS / "cuda_host.h"), *flags]
    scan += ["-MD", "-MF", "dependencies", "-x", "c++", path]
    scanned = compiler.run(scan, directory)
    if scanned.returncode:  # headers may be named by macros, and in headers of CPATH
        write_forwarding_headers(folder / "forwarding")
        scanned = compiler.run(scan, directory)
    missing = [option for header in _not_included(scanned.stdout) for option in ("-include", header)]
    if missing:
        scanned = compiler.run([*missing, *scan], directory)
    if scanned.returncode:
        raise failure(scanned, source)
    forced = "-DCUPLUG_BARRIERS" in flags or "-DCUPLUG_BARRIERS=1" in flags
    mentioned = re.findall(r"\w+", " ".join(expressions))
    marked = re.sub(rf'^# \d+ "{re.escape(str(stubs))}/.*', r"\g<0> 3", scanned.stdout, flags=re.MULTILINE)
    for_device = without_host_code(marked, preprocessed=True, also=mentioned)
    translated = folder / "translated.cpp"
    checks = _RACES[compiler.kind] if races else _CHECKS[compiler.kind] if checked else ()
    link = ["-shared", "-nodefaultlibs", "-Wl,--no-undefined,-Bsymbolic", "-o", "module.so"]
    libraries = [*(f"{name}.o" for name in told), "-lm", "-lc", *["-lgcc"] * (compiler.kind == "gcc")]
    # In two steps where clang would link a runtime of its own for -fsanitize=thread, which told_accesses.cpp is here.
    apart = compiler.is_zig or (races and compiler.kind == "clang")
    shifts = guarded = loops = True
    defined: list[str] = []
    refused: subprocess.CompletedProcess[str] | None = None
    while True:
        translation = translate(
            for_device,
            expressions,
            checked=checked,
            races=races,
            fibres=forced,
            shifts=shifts,
            guarded=guarded,
            loops=loops,
        )
        translated.write_text(translation.text)
        options = [*compiler.flags(), OPTIMISED, *standard, *checks, *defined, *include, "-I", str(stubs)]
        if apart:
            compiled = compiler.run([*options, "-c", "-o", "translated.o", "translated.cpp"], directory)
            if not compiled.returncode:
                compiled = compiler.link([*link, "translated.o", *libraries], directory)
        else:
            compiled = compiler.run([*options, *link, "translated.cpp", *libraries], directory)
        if compiled.returncode and shifts and _NOT_SHIFTED.search(compiled.stderr):
            shifts = False
        elif compiled.returncode and _RECURSIVE not in defined and _IS_RECURSIVE.search(compiled.stderr):
            defined.append(_RECURSIVE)
        elif compiled.returncode and _MEMBERS not in defined and _NAMES_MEMBERS.search(compiled.stderr):
            defined.append(_MEMBERS)
        elif compiled.returncode and guarded and _NOT_GUARDED.search(compiled.stderr):
            guarded = False
        elif compiled.returncode and translation.loops:
            loops = False  # the compiler sees more than the translation did; and it is to speak of the source as it is
        elif compiled.returncode and refused is None:
            refused = compiled
            less = without_host_code(marked, preprocessed=True, also=mentioned, always=True)
            if less == for_device:
                break
            for_device, shifts, guarded, loops = less, True, True, True
        else:
            break
    if compiled.returncode:
        raise failure(refused or compiled, source)
    said = translation.parameters, checked, races, source
    facts = dict(zip(_FACTS, said, strict=True))
    included = _dependencies((folder / "dependencies").read_text(), folder)
    return Entry(_written(folder / "module.so", compiler), facts, dependencies_of(included))


def _is_toolkit(folder: str) -> bool:
    """Whether a folder holds CUDA's own headers."""
    return Path(folder, "cuda_runtime.h").exists() or Path(folder, "cuda_fp16.h").exists()


def _written(library: Path, compiler: Compiler) -> bytes:
    """What a compiler that reported no error has written."""
    try:
        return library.read_bytes()
    except FileNotFoundError:
        command = " ".join(compiler.command)
        raise CompileError(
            f"{command!r} reported no error and wrote no library, so that it is no C++ compiler; name one in CXX (now "
            f"{os.environ.get('CXX', '')!r}), or unset it"
        ) from None


def compile_engine(cache: Cache | None) -> bytes:
    """The engine that runs modules, as a shared library.

    Raises:
        CompileError: there is no compiler.
    """
    return _compiled_once("engine", cache, link=["-shared", "-lpthread", "-lm", "-lc"])


def _compiled_once(name: str, cache: Cache | None, link: Sequence[str] = ()) -> bytes:
    """What is made of a file of ``headers/engine``, the same for all kernels: an object file, or a library if ``link``
    says how."""
    compiler = find_compiler(cache)

    def make() -> Entry:
        with folder_to_compile_in() as directory:
            made = f"{name}.o"
            file = str(HEADERS / "engine" / f"{name}.cpp")
            compiled = compiler.run([*compiler.flags(), "-O2", "-c", file, "-o", made], directory)
            if link and not compiled.returncode:
                made = f"{name}.so"
                compiled = compiler.link([f"{name}.o", *link, "-o", made], directory)
            if compiled.returncode:
                raise CompileError(
                    f"the engine for kernels does not compile with {compiler.command[0]}", compiled.stderr
                )
            return Entry(_written(Path(directory) / made, compiler))

    if cache is None:
        return make().payload
    identity = (*compiler.command, compiler.version, *compiler.flags())
    return cache.get_or_make(content_key("engine", name, identity, translator_digest(), processor()), make).payload


def host_options(options: Sequence[str]) -> list[str]:
    """nvcc's and NVRTC's options as the host's compiler takes them. Those that concern GPUs alone are left out."""
    kept = []
    rest = iter(options)
    for option in rest:
        name, _, value = option.partition("=")
        if option in ("-D", "-U", "-I", "--define-macro", "--undefine-macro", "--include-path", "-include"):
            argument = next(rest, "")
            kept += (
                [_SHORT.get(option, option), argument]
                if option == "-include"
                else [_absolute(_SHORT.get(option, option) + argument)]
            )
        elif name in _SHORT and value:
            kept.append(_absolute(_SHORT[name] + value))
        elif option.startswith(("-D", "-U", "-I")):
            kept.append(_absolute(option))
        elif name in ("-std", "--std"):
            version = value.removeprefix("gnu").removeprefix("c")
            older = version in ("++03", "++11", "++14")  # as which the simulator's headers do not compile
            kept.append(f"-std=gnu{'++17' if older else version}" if "++" in value else f"-std={value}")
        elif option in ("-fmad=false", "--fmad=false"):
            kept.append("-ffp-contract=off")
        elif option in ("-Xptxas", "-Xcompiler", "--compiler-options", "--ptxas-options", "-arch", "-code", "-gencode"):
            next(rest, "")
    return kept


_NOT_SHIFTED = re.compile(r"__cuplug::(shift|Shift|Left|Other|Count|Cast|to_integer)\b|cannot bind bit-field")
"""What a compiler says of what ``headers/shifts.h`` or ``integers.h`` does not take, of a bit-field for example."""
_RECURSIVE, _MEMBERS = "-DCUPLUG_RECURSIVE", "-DCUPLUG_LOCKSTEP_MEMBERS"
_IS_RECURSIVE = re.compile(r"inlining failed in call to 'always_inline'")
"""What a compiler says of a ``__forceinline__`` function that calls itself, for which nvcc takes it as a wish."""
_NAMES_MEMBERS = re.compile(r"LockstepElement<.*has no member named|no member named .*LockstepElement<")
"""What a compiler says of a member of a structure that ``headers/lockstep.h`` takes for a number."""
_NOT_GUARDED = re.compile(r"__cuplug_(local|guarded)_|jump to|crosses initialization")
"""What a compiler says of an array that ``guarded_arrays.py`` cannot take out of its function."""


def _absolute(option: str) -> str:
    """An option whose folder is meant from where the program is, not from where the compiler runs."""
    return f"-I{os.path.abspath(option[2:])}" if option.startswith("-I") else option


def _not_included(preprocessed: str) -> list[str]:
    """The headers of the standard library that a source uses without having included them before."""
    missing = []
    for known, header in _KNOWN_WITHOUT_INCLUDE:
        used, included = known.search(preprocessed), preprocessed.find(f'/{header}"')
        if used and not 0 <= included < used.start():
            missing.append(header)
    return missing


_KNOWN_WITHOUT_INCLUDE = (
    (re.compile(r"\bstd\s*::\s*(common_type|conditional|decay|enable_if|is_\w+|remove_\w+)\b"), "type_traits"),
    (re.compile(r"\bstd\s*::\s*(move|forward|swap|pair|make_pair)\b"), "utility"),
    (re.compile(r"\bstd\s*::\s*numeric_limits\b"), "limits"),
    (re.compile(r"\bstd\s*::\s*(max|min)\b"), "algorithm"),
    (re.compile(r"\bstd\s*::\s*(size_t|ptrdiff_t|nullptr_t|byte)\b"), "cstddef"),
    (re.compile(r"\bstd\s*::\s*u?int(ptr|(_fast|_least)?(8|16|32|64))_t\b"), "cstdint"),
)
"""Of the standard library, what nvcc's sources see without including it."""
_SHORT = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}


def _dependencies(rule: str, folder: Path) -> list[str]:
    """The user's files in a rule for make."""
    names = rule.replace("\\\n", " ").partition(":")[2].split()
    paths = [os.path.normpath(folder / name) for name in names]
    ours = (str(HEADERS) + os.sep, str(folder) + os.sep, "/usr/include/", "/usr/lib/")
    return [path for path in paths if not path.startswith(ours)]
