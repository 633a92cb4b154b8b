"""Texture references, which CUDA had until version 11, for the compilers of later versions.

Such a reference becomes a variable that holds a texture object, which programs set by ``SourceModule.get_texref``. The
simulator's own headers do the same (``simulator/headers/textures.h``).
"""

from __future__ import annotations

import re

from .source_file import SOURCE_NAME

_DECLARED = re.compile(r"^([ \t]*)(?:static[ \t]+)?(?=texture[ \t]*<)", re.MULTILINE)
_NORMALIZED = "char uchar short ushort"


def with_texture_references(source: str) -> str:
    """A source whose texture references CUDA 12 and later compile; one without any stays as it is."""
    if not _DECLARED.search(source):
        return source
    prelude = "" if source.startswith(_PRELUDE) else _PRELUDE + f'#line 1 "{SOURCE_NAME}"\n'
    return prelude + _DECLARED.sub(r"\1__device__ ", source)


def _read_as(name: str) -> str:
    scalar = {"uchar": "unsigned char", "ushort": "unsigned short"}.get(name, name)
    types = {scalar: "float", **{f"{name}{count}": f"float{count}" for count in (1, 2, 4)}}
    return "".join(
        f"template <> struct Read<{of}, cudaReadModeNormalizedFloat> {{ typedef {to} type; }};\n"
        for of, to in types.items()
    )


def _function(name: str, parameters: dict[str, str]) -> str:
    declared = "".join(f", {kind} {parameter}" for parameter, kind in parameters.items())
    given = "".join(f", {parameter}" for parameter in parameters)
    return (
        "template <class T, int d, cudaTextureReadMode m>\n"
        f"inline __device__ typename __cuplug::Read<T, m>::type {name}(const texture<T, d, m>& t{declared}) "
        f"{{ return {name}<typename __cuplug::Read<T, m>::type>(t.object{given}); }}\n"
    )


_PRELUDE = (
    "template <class T, int d = 1, cudaTextureReadMode m = cudaReadModeElementType> struct texture {\n"
    "    cudaTextureObject_t object;\n};\n"
    "namespace __cuplug {\n"
    "template <class T, cudaTextureReadMode m> struct Read { typedef T type; };\n"
    + "".join(map(_read_as, _NORMALIZED.split()))
    + "}\n"
    + _function("tex1Dfetch", {"i": "int"})
    + _function("tex1D", {"x": "float"})
    + _function("tex2D", {"x": "float", "y": "float"})
    + _function("tex3D", {"x": "float", "y": "float", "z": "float"})
)
