"""Compilers' messages, with the lines of the source that they speak of."""

from __future__ import annotations

import re

_MISSING = re.compile(r"error: '?([\w./-]+)'?:? (?:No such file|file not found)|open source file .([\w./-]+)")
_OPEN_STRING = re.compile(r"missing (?:terminating .?[\"'].? character|closing quote)")
_OF_CUDA = re.compile("(cuda|cub|thrust|cooperative_groups|crt|nv|nvtx3)/")
_OTHER_TYPE = re.compile(r"conflicting declaration '|declaration is incompatible with previous|with a different type")
_DYNAMIC = re.compile(r"\bextern\b[^;(]*\b__shared__\b")
_PLACE = re.compile(r"^[^\n:(]*\.cu(?::(\d+)|\((\d+)\))")


def with_source_lines(log: str, source: str) -> str:
    """Show the source's line below each message that names one, unless the compiler did so itself."""
    lines = source.splitlines()
    shown: list[str] = []
    messages = log.splitlines()
    for index, message in enumerate(messages):
        shown.append(message)
        match = _PLACE.match(message)
        if not match:
            continue
        number = int(match[1] or match[2])
        if not 1 <= number <= len(lines):
            continue
        text = lines[number - 1].strip()
        following = messages[index + 1].strip() if index + 1 < len(messages) else ""
        if text and text not in following:
            shown.append(f"    {number} | {text}")
    missing = _MISSING.search(log)
    if missing:
        name = missing[1] or missing[2]
        if name.startswith("helper_"):
            shown.append(
                f"{name} is not CUDA's, but of NVIDIA's cuda-samples (Common/): name its folder in include_dirs"
            )
        elif f'"{name}"' in source:
            shown.append(f"sources are compiled in a folder of their own: name the folder of {name} in include_dirs")
        elif f"<{name}>" in source and "/" in name and not _OF_CUDA.match(name):
            shown.append(f"name the folder that holds {name} in include_dirs")
    if re.search("exception handling disabled|with exceptions disabled", log):
        shown.append("kernels cannot throw or catch exceptions")
    if _OTHER_TYPE.search(log) and _DYNAMIC.search(source):
        shown.append("extern __shared__ arrays of one name have one type in all kernels: name those of another apart")
    if _OPEN_STRING.search(log):
        shown.append(
            r'a line ends within a string: where the source has "\n", write it in Python as r"""…""", so that it stays'
        )
    return "\n".join(shown)
