"""What NumPy's types are called in C, and arguments of generated kernels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .vector_types import vec

__all__ = [
    "ScalarArg",
    "VectorArg",
    "dtype_to_ctype",
    "get_arg_type",
    "get_or_register_dtype",
    "parse_c_arg",
    "register_dtype",
]

_NAMES: dict[np.dtype[Any], str] = {
    np.dtype(kind): name
    for kind, name in {
        "bool": "bool",
        "int8": "signed char",
        "uint8": "unsigned char",
        "int16": "short",
        "uint16": "unsigned short",
        "int32": "int",
        "uint32": "unsigned",
        "int64": "long",
        "uint64": "unsigned long",
        "float32": "float",
        "float64": "double",
        "complex64": "pycuda::complex<float>",
        "complex128": "pycuda::complex<double>",
    }.items()
}
_TYPES: dict[str, np.dtype[Any]] = {name: dtype for dtype, name in _NAMES.items()}
_TYPES |= {
    name: np.dtype(kind)
    for name, kind in {
        "char": "int8",
        "short int": "int16",
        "unsigned short int": "uint16",
        "signed": "int32",
        "signed int": "int32",
        "unsigned int": "uint32",
        "long int": "int64",
        "unsigned long int": "uint64",
        "long long": "int64",
        "long long int": "int64",
        "unsigned long long": "uint64",
        "unsigned long long int": "uint64",
        "size_t": "uint64",
        "ptrdiff_t": "int64",
        **{f"{sign}int{8 * size}_t": f"{sign[:1]}int{8 * size}" for sign in ("", "u") for size in (1, 2, 4, 8)},
    }.items()
}
_TYPES |= vec.types
for _name, _dtype in vec.types.items():
    _NAMES.setdefault(_dtype, _name)
_FP_TEXTURES = {"double": "fp_tex_double", "pycuda::complex<float>": "fp_tex_cfloat"}
_FP_TEXTURES["pycuda::complex<double>"] = "fp_tex_cdouble"

DTypeDict = dict[str, np.dtype[Any]]


def dtype_to_ctype(dtype: Any, with_fp_tex_hack: bool = False) -> str:
    """What a type is called in kernels.

    Args:
        dtype: a type of NumPy's.
        with_fp_tex_hack: the name for textures, which know neither double precision nor complex numbers.

    Raises:
        ValueError: it has no name: see ``register_dtype``.
    """
    dtype = np.dtype(dtype)
    name = _NAMES.get(dtype)
    if name is None:
        raise ValueError(f"no type of C is known for {dtype}: name it with pycuda.tools.register_dtype")
    return _FP_TEXTURES.get(name, name) if with_fp_tex_hack else name


def get_or_register_dtype(c_names: str | list[str], dtype: Any = None) -> np.dtype[Any]:
    """The type of these names, which are given to ``dtype`` if they are new.

    Raises:
        TypeError: a name is another type's, or unknown while no type is given.
    """
    names = [c_names] if isinstance(c_names, str) else list(c_names)
    if dtype is None:
        if names[0] not in _TYPES:
            raise TypeError(f"no type is called {names[0]!r}: name one with pycuda.tools.register_dtype")
        return _TYPES[names[0]]
    wanted: np.dtype[Any] = np.dtype(dtype)
    for name in names:
        if _TYPES.setdefault(name, wanted) != wanted:
            raise TypeError(f"{name!r} is {_TYPES[name]} already, and cannot become {wanted}")
    _NAMES.setdefault(wanted, names[0])
    return wanted


def register_dtype(dtype: Any, name: str | list[str]) -> None:
    """Say what a type is called in kernels. Raises TypeError if the name is another type's."""
    get_or_register_dtype(name, dtype)


class Argument:
    """A parameter of a generated kernel."""

    def __init__(self, dtype: Any, name: str) -> None:
        self.dtype, self.name = np.dtype(dtype), name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.dtype})"


class VectorArg(Argument):
    """An array."""

    struct_char = "P"

    def declarator(self) -> str:
        """The parameter in C. Raises ValueError if its type has no name."""
        return f"{dtype_to_ctype(self.dtype)} *{self.name}"


class ScalarArg(Argument):
    """A number, or a structure."""

    @property
    def struct_char(self) -> str:
        """The character of its type, for ``prepare``."""
        return str(self.dtype.char)

    def declarator(self) -> str:
        """The parameter in C. Raises ValueError if its type has no name."""
        return f"{dtype_to_ctype(self.dtype)} {self.name}"


def parse_c_arg(c_arg: str) -> Argument:
    """The parameter that a declaration in C says, such as ``const float *x``.

    Raises:
        ValueError: that is no declaration, or its type is unknown.
    """
    text = re.sub(r"\b(const|volatile|__restrict__|restrict)\b", " ", c_arg)
    found = re.fullmatch(r"\s*([\w:<>,\s]+?)\s*(\**)\s*\b(\w+)\s*", text)
    if found is None or len(found[2]) > 1:
        raise ValueError(f"{c_arg.strip()!r} declares neither a number nor an array: write 'float x' or 'float *x'")
    name = " ".join(found[1].split())
    if name not in _TYPES:
        raise ValueError(f"the type {name!r} of {c_arg.strip()!r} is unknown: name it with pycuda.tools.register_dtype")
    return (VectorArg if found[2] else ScalarArg)(_TYPES[name], found[3])


def parse_arguments(arguments: Any) -> list[Any]:
    """The parameters that a text in C, or a list of arguments, says. Raises ValueError as ``parse_c_arg``."""
    if isinstance(arguments, str):
        return [parse_c_arg(each) for each in re.split(r",(?![^<]*>)", arguments) if each.strip()]
    return list(arguments)


def get_arg_type(c_arg: str) -> str:
    """The character of the type that a declaration in C says. Raises ValueError as ``parse_c_arg``."""
    return str(parse_c_arg(c_arg).struct_char)  # type: ignore[attr-defined]
