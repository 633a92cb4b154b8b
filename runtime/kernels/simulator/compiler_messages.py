"""What compilers for this machine say of a translated source, as an error that speaks of the source itself."""

from __future__ import annotations

import re
import subprocess

from ....allocators.errors import CompileError
from ..compile.diagnostics import with_source_lines
from ..source.includes import included_names


def failure(result: subprocess.CompletedProcess[str], source: str) -> CompileError:
    """The error of a compiler that refused ``source``, in terms of the source alone."""
    log = _PASSED.sub("(", result.stderr.strip() or result.stdout.strip())
    log = _COMPUTED.sub("a __device__ or __constant__ variable needs a constant as its initialiser", log)
    if "expected '}' at end of input" in log or "error: expected '}'\n" in log:
        log = re.sub(r"^<cuplug>:.*\n?", "", log, flags=re.MULTILINE)
        log = log.replace("note: to match this '{'", "error: no '}' closes this '{'")
    kept = [line for line in log.splitlines() if not _UNTOLD.match(line)]
    kept = [_FORGOTTEN.sub(lambda match: _for_host(match, source), line) for line in kept]
    of_source = [line for line in kept if not line.startswith("<cuplug>:")]
    kept = _undefined(log) or (of_source if any(": error:" in line for line in of_source) else kept)
    missing = _MISSING.search(log)
    if missing:
        kept.append(f"the simulator has no <{missing[1]}> of CUDA's: kernels that need it need a GPU")
    absent = _ABSENT.search(log)
    if absent:
        name, namespace = absent[1] or absent[4], absent[2] or absent[3] or absent[5]
        kept.append(f"the simulator's part of {namespace}:: has no {name}: if CUDA's has, the kernel needs a GPU")
    if _CALLED.search(log):
        kept.append("a __global__ function is launched, and not called: declare what kernels call __device__")
    return CompileError("the source does not compile for the simulator", with_source_lines("\n".join(kept), source))


_FORGOTTEN = re.compile(r"note: ('\S+') is defined in header '<(\S+)>'; did you forget to .*")


def _for_host(match: re.Match[str], source: str) -> str:
    """A compiler's note that a header is missing; what it says if the source includes that header."""
    if match[2] not in included_names(source, ()):
        return match[0]
    return f"note: {match[1]} of <{match[2]}> is for the host, not for kernels"


_UNDEFINED = re.compile(
    r"^.*?(?P<line>[^\s:/]+:\d+): undefined reference to [`'](?P<name>.*)'$"  # GNU's linker
    r"|^.*undefined symbol: (?P<lld_name>.*)\n>>> referenced by (?:[^\s:]*/)?(?P<lld_line>[^\s:/]+:\d+)",
    re.MULTILINE,
)


def _undefined(log: str) -> list[str]:
    """What linkers' messages about functions without a body say of the source."""
    messages = dict[str, None]()  # linkers speak of object files, and twice
    for match in _UNDEFINED.finditer(log):
        line, name = match["line"] or match["lld_line"], match["name"] or match["lld_name"]
        why = (
            "for the host, not for kernels"
            if name.startswith("std::")
            else "declared, and nothing in the source defines it"
        )
        if not line.startswith("translated.cpp:"):
            messages[f"{line}: error: '{name}' is {why}"] = None
    return list(messages)


_PASSED = re.compile(r"\(uint3, uint3, dim3, dim3(?:, )?")
"""What every kernel gets besides its parameters."""
_COMPUTED = re.compile(r"'constinit' variable '\w+' does not have a constant initializer")
_MISSING = re.compile(
    r"error: '?((?:cuda|cub|thrust|cooperative_groups|crt|nv)/[\w./]+|cuda_(?:fp\d|awbarrier)\w*\.h|curand_\w+\.h)"
    "'?:? (?:No such file|file not found)"
)
"""What a compiler says of a header that is missing, if that is CUDA's."""
_OF_CUDA = r"((?:cub|thrust|cuda|cooperative_groups|nvcuda)(?:::\w+)*)"
_ABSENT = re.compile(
    rf"error: '(\w+)' (?:in namespace '{_OF_CUDA}' does not name|is not a member of '{_OF_CUDA}')"
    rf"|error: no (?:member|template|type) named '(\w+)' in namespace '{_OF_CUDA}'"
)
"""The same of a name in one of CUDA's namespaces."""
_CALLED = re.compile(
    r"error: (could not convert .* to 'uint3'|no viable conversion from .* to 'uint3'|too (few|many) arg)"
)
_UNTOLD = re.compile(
    r"\s*(\d+ \||\||compilation terminated|\d+ (warning|error)s? .*generated\.$)|.*: warning: "
    r"|.*: At global scope:$|cc1plus: some warnings"
    r"|(In file included|\s+) from (\S*/(headers|forwarding)/|translated\.cpp)|.*: note: in expansion of macro 'CUPLUG_"
    r"|\S*/headers/\S+:\s+(In instantiation of|required from) "
)
"""What is left out of compilers' messages: their excerpts of the translated source, warnings, and what leads from
cuplug's headers to the source."""
