"""``GPUArray``: an array in device memory that works like NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .array_strides import dense_strides, is_contiguous, lie_alike, shape_of, strides_of
from .cuda_arrays import dtype_to_array_format
from .device_arithmetic import Region, queue
from .device_contexts import current_ordinal, runtime
from .driver_constants import TRSF_READ_AS_INTEGER, array_format
from .driver_errors import LogicError, translated
from .linear_memory import address_of, mem_alloc, memcpy_dtod_async, memcpy_dtoh_async, memcpy_htod_async
from .page_locked import pagelocked_empty
from .queues import handle_of

_THREADS, _EACH, _BLOCKS = 32, 64, 64


def _operator(name: str, function: Any, *, swapped: bool = False, quotient: bool = False) -> Any:
    """The method of an operator: ``function`` of an array and another one, or a number, as a new array."""

    def operate(self: GPUArray, other: Any) -> Any:
        if not isinstance(other, (GPUArray, int, float, complex, np.generic)):
            return NotImplemented
        dtype = _quotient(self, other) if quotient else common_type(self, other)
        return elementwise(name, function, (other, self) if swapped else (self, other), dtype)

    return operate


def _in_place(name: str, function: Any) -> Any:
    """The method of an operator that writes its result to the array on its left."""

    def operate(self: GPUArray, other: Any) -> GPUArray:
        return elementwise(name, function, (self, other), self.dtype, self)

    return operate


class GPUArray:
    """An array in device memory. Arithmetic takes contiguous arrays of one shape, and numbers.

    ``gpudata`` is the memory, ``ptr`` its address; ``base`` is the array that a view shows a part of.
    """

    __array_priority__ = 100

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        allocator: Callable[[int], Any] | None = None,
        base: Any = None,
        gpudata: Any = None,
        strides: tuple[int, ...] | None = None,
        order: str = "C",
    ) -> None:
        """An array of this shape and type, uninitialised, or over memory that is there.

        Args:
            shape: its lengths.
            dtype: NumPy's type.
            allocator: gives memory for a size in bytes, by default ``pycuda.driver.mem_alloc``.
            base: what is kept alive with it.
            gpudata: the memory, if it is there already.
            strides: bytes from one element to the next in each dimension, by default those of ``order``.
            order: ``C`` or ``F``.

        Raises:
            MemoryError: there is not that much left.
            ValueError: the order is neither ``C`` nor ``F``.
        """
        if order not in ("C", "F", "A", "K"):
            raise ValueError(f"order={order!r}: say C or F")
        self.shape = shape_of(shape)
        self.dtype = np.dtype(dtype)
        self.strides = strides or strides_of(self.shape, self.dtype.itemsize, order)
        self.size = int(np.prod(self.shape, dtype=np.int64))
        self.mem_size = self.size
        self.nbytes = self.size * self.dtype.itemsize
        self.allocator = allocator or mem_alloc
        self.base = base
        if gpudata is None and self.size:
            gpudata = self.allocator(self.nbytes)
        self.gpudata = gpudata
        self._grid, self._block = splay(self.mem_size)
        self._flags: Any = None

    # --- what it is

    @property
    def ptr(self) -> int:
        """Its address. 0 for no elements."""
        return 0 if self.gpudata is None else address_of(self.gpudata)

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return int(self.dtype.itemsize)

    @property
    def flags(self) -> Any:
        """``c_contiguous``, ``f_contiguous`` and ``forc``: either of them."""
        if self._flags is None:
            c, f = (is_contiguous(self.shape, self.strides, self.itemsize, order) for order in "CF")
            self._flags = SimpleNamespace(c_contiguous=c, f_contiguous=f, forc=c or f)
        return self._flags

    @property
    def region(self) -> Region:
        """Where it lies."""
        return Region(self.ptr, self.shape, self.dtype, self.strides)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.ptr, False),
            "stream": None,
            "version": 3,
        }

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("an array of several elements is neither true nor false: use any() or all()")
        return bool(self.get().reshape(-1)[0])

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    __hash__ = None  # type: ignore[assignment]

    # --- from and to the host

    @translated
    def set(self, ary: Any, async_: bool = False, stream: Any = None) -> None:
        """Copy an array of the same size and type to this one.

        Raises:
            ValueError: size or type are others.
        """
        if ary.size != self.size or ary.dtype != self.dtype:
            raise ValueError(f"{ary.size} elements of {ary.dtype} cannot fill {self.size} of {self.dtype}")
        if not self.size:
            return
        if self.flags.forc and lie_alike(self, ary):
            memcpy_htod_async(self.gpudata, ary, stream)
        else:
            queue("set", np.copyto, (self.region,), (ary.reshape(self.shape).copy(),), stream)
        if not async_:
            _wait(stream)

    def set_async(self, ary: Any, stream: Any = None) -> None:
        """Queue the same on a stream. Raises as ``set``."""
        self.set(ary, async_=True, stream=stream)

    @translated
    def get(self, ary: Any = None, pagelocked: bool = False, async_: bool = False, stream: Any = None) -> Any:
        """A copy in host memory.

        Args:
            ary: where to copy it to: an array of the same size and type. By default a new one.
            pagelocked: whether a new one is in page-locked memory.
            async_: only queue the copy.
            stream: where to queue it.

        Raises:
            ValueError: size or type of ``ary`` are others.
            LaunchError: what queued work did.
        """
        if ary is None:
            fortran = self.flags.f_contiguous and not self.flags.c_contiguous
            make: Any = pagelocked_empty if pagelocked else np.empty
            ary = make(self.shape, self.dtype, order="F" if fortran else "C")
        elif ary.size != self.size or ary.dtype != self.dtype:
            raise ValueError(f"{self.size} elements of {self.dtype} cannot fill {ary.size} of {ary.dtype}")
        if not self.size:
            return ary
        if self.flags.forc and lie_alike(self, ary):
            memcpy_dtoh_async(ary, self.gpudata, stream)
        else:
            queue("get", lambda seen: np.copyto(ary.reshape(self.shape), seen), (), (self.region,), stream)
            async_ = False
        if not async_:
            _wait(stream)
        return ary

    def get_async(self, stream: Any = None, ary: Any = None) -> Any:
        """A copy in page-locked memory, queued on a stream. Raises as ``get``."""
        return self.get(ary, pagelocked=True, async_=True, stream=stream)

    @translated
    def copy(self, order: str = "K") -> GPUArray:
        """Another array with the same elements."""
        made = empty_like(self, order=order)
        if self.flags.forc and made.strides == self.strides:
            if self.size:
                memcpy_dtod_async(made.gpudata, self.gpudata, self.nbytes)
        else:
            queue("copy", np.copyto, (made.region,), (self.region,))
        return made

    # --- views

    def _view(self, shape: Any, strides: Any, offset: int = 0, dtype: Any = None) -> GPUArray:
        base = self if self.base is None else self.base
        data = self.gpudata if not offset else self.ptr + offset
        return GPUArray(
            shape, dtype or self.dtype, self.allocator, base=(base, self.gpudata), gpudata=data, strides=tuple(strides)
        )

    def _like(self, view: Any, stand_in: Any) -> GPUArray:
        """The part of this array that ``view`` is of ``stand_in``, which has the same layout in host memory."""
        offset = view.__array_interface__["data"][0] - stand_in.__array_interface__["data"][0] if view.size else 0
        return self._view(view.shape, view.strides, offset, view.dtype)

    def _stand_in(self) -> Any:
        """An array of the same layout, whose elements nobody looks at."""
        return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)

    def reshape(self, *shape: Any, order: str = "C") -> GPUArray:
        """The same elements in another shape; one length may be -1. Raises ValueError if they do not fit."""
        wanted = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        sizes = [int(each) for each in shape_of(wanted)]
        if sizes.count(-1) > 1 or (-1 not in sizes and int(np.prod(sizes, dtype=np.int64)) != self.size):
            raise ValueError(f"{self.size} elements do not fit into {tuple(sizes)}")
        if -1 in sizes:
            rest = -int(np.prod(sizes, dtype=np.int64))
            if not rest or self.size % rest:
                raise ValueError(f"{self.size} elements do not fit into {tuple(sizes)}")
            sizes[sizes.index(-1)] = self.size // rest
        flags = self.flags
        if not (flags.forc if self.ndim < 2 else flags.c_contiguous or flags.f_contiguous):
            raise ValueError("only a contiguous array can be given another shape")
        return self._view(tuple(sizes), strides_of(tuple(sizes), self.itemsize, order))

    def ravel(self) -> GPUArray:
        """The same elements in one dimension."""
        return self.reshape(self.size)

    def view(self, dtype: Any = None) -> GPUArray:
        """The same memory as elements of another type. Raises ValueError if those do not fit."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        if dtype.itemsize == self.itemsize:
            return self._view(self.shape, self.strides, 0, dtype)
        seen = self._stand_in().view(dtype)
        return self._view(seen.shape, seen.strides, 0, dtype)

    def squeeze(self) -> GPUArray:
        """The same without dimensions of length 1."""
        kept = [(size, stride) for size, stride in zip(self.shape, self.strides, strict=True) if size != 1]
        return self._view(tuple(size for size, _ in kept), tuple(stride for _, stride in kept))

    def transpose(self, axes: Any = None) -> GPUArray:
        """The same with its dimensions in another order, by default the reverse."""
        seen = self._stand_in().transpose(axes)
        return self._view(seen.shape, seen.strides)

    @property
    def T(self) -> GPUArray:  # noqa: N802 - NumPy's name
        """The same with its dimensions reversed."""
        return self.transpose()

    def __getitem__(self, index: Any) -> GPUArray:
        if isinstance(index, (GPUArray, np.ndarray, list)):
            raise NotImplementedError("arrays of indices: use pycuda.gpuarray.take")
        whole = self._stand_in()
        items = index if isinstance(index, tuple) else (index,)
        # with an ellipsis what NumPy gives is an array in any case
        return self._like(whole[items if Ellipsis in items else (*items, Ellipsis)], whole)

    @translated
    def __setitem__(self, index: Any, value: Any) -> None:
        part = self[index]
        if isinstance(value, GPUArray):
            if value.shape != part.shape and value.shape != ():
                raise ValueError(f"an array of shape {value.shape} cannot be written to {part.shape}")
            value = value.region
        elif isinstance(value, np.ndarray):
            value = value.copy()  # as it is now
        queue("setitem", np.copyto, (part.region,), (value,))

    # --- arithmetic

    def fill(self, value: Any, stream: Any = None) -> GPUArray:
        """Set all elements to one value. Returns this array."""
        value = np.asarray(value).astype(self.dtype)
        queue("fill", np.copyto, (self.region,), (value,), stream)
        return self

    def astype(self, dtype: Any, stream: Any = None) -> GPUArray:
        """The elements converted to another type."""
        made = empty_like(self, dtype=dtype)
        queue("astype", _converted, (made.region,), (self.region,), stream)
        return made

    def mul_add(
        self,
        selffac: Any,
        other: GPUArray,
        otherfac: Any,
        add_timer: Any = None,
        stream: Any = None,
        out: GPUArray | None = None,
    ) -> GPUArray:
        """``selffac * self + otherfac * other``."""
        del add_timer
        return elementwise(
            "mul_add", lambda x, y: selffac * x + otherfac * y, (self, other), common_type(self, other), out, stream
        )

    __add__ = __radd__ = _operator("add", np.add)
    __sub__, __rsub__ = _operator("subtract", np.subtract), _operator("subtract", np.subtract, swapped=True)
    __mul__ = __rmul__ = _operator("multiply", np.multiply)
    __truediv__ = _operator("divide", np.true_divide, quotient=True)
    __rtruediv__ = _operator("divide", np.true_divide, swapped=True, quotient=True)
    __pow__, __rpow__ = _operator("power", np.power), _operator("power", np.power, swapped=True)
    __iadd__, __isub__ = _in_place("add", np.add), _in_place("subtract", np.subtract)
    __imul__, __itruediv__ = _in_place("multiply", np.multiply), _in_place("divide", np.true_divide)
    __ipow__ = _in_place("power", np.power)
    __gt__, __ge__ = _operator("greater", np.greater), _operator("greater_equal", np.greater_equal)
    __lt__, __le__ = _operator("less", np.less), _operator("less_equal", np.less_equal)
    __eq__, __ne__ = _operator("equal", np.equal), _operator("not_equal", np.not_equal)

    def __pos__(self) -> GPUArray:
        return self.copy()

    def __neg__(self) -> GPUArray:
        return elementwise("negative", np.negative, (self,), self.dtype)

    def __abs__(self) -> GPUArray:
        return elementwise("absolute", np.absolute, (self,), _real(self.dtype))

    def reverse(self, stream: Any = None) -> GPUArray:
        """The elements of one dimension from the last to the first. Raises ValueError for more dimensions."""
        if self.ndim != 1:
            raise ValueError(f"an array of {self.ndim} dimensions cannot be reversed")
        return elementwise("reverse", lambda x: x[::-1], (self,), self.dtype, None, stream)

    def rand_like(self) -> GPUArray:
        """Random numbers from 0 to 1 in an array of the same shape and type."""
        made = empty_like(self)
        queue("rand", lambda out: np.copyto(out, np.random.random_sample(out.shape)), (made.region,), ())
        return made

    # --- parts of complex numbers

    @property
    def real(self) -> GPUArray:
        """The real parts; this array, if it is real."""
        if self.dtype.kind != "c":
            return self
        return elementwise("real", lambda x: x.real, (self,), _real(self.dtype))

    @property
    def imag(self) -> GPUArray:
        """The imaginary parts; zeros, if it is real."""
        if self.dtype.kind != "c":
            return cleared(empty_like(self))
        return elementwise("imag", lambda x: x.imag, (self,), _real(self.dtype))

    def conj(self, out: GPUArray | None = None) -> GPUArray:
        """The conjugate numbers; this array, if it is real and ``out`` is left out."""
        if self.dtype.kind != "c" and out is None:
            return self
        return elementwise("conj", np.conj, (self,), self.dtype, out)

    conjugate = conj

    # --- all elements together

    def any(self, stream: Any = None, allocator: Any = None) -> GPUArray:
        """Whether an element is not zero, as an array without dimensions."""
        return _all_of("any", np.any, self, np.bool_, stream, allocator)

    def all(self, stream: Any = None, allocator: Any = None) -> GPUArray:
        """Whether no element is zero, as an array without dimensions."""
        return _all_of("all", np.all, self, np.bool_, stream, allocator)

    # --- textures

    def bind_to_texref(self, texref: Any, allow_offset: bool = False) -> int:
        """Let a texture reference read this array. Returns the offset in elements, which is always 0 here."""
        return int(texref.set_address(self.gpudata, self.nbytes, allow_offset=allow_offset)) // self.itemsize

    def bind_to_texref_ext(
        self,
        texref: Any,
        channels: int = 1,
        allow_double_hack: bool = False,
        allow_complex_hack: bool = False,
        allow_offset: bool = False,
    ) -> int:
        """The same, and the reference gets this array's type with ``channels`` of them in a texel.

        Raises:
            LogicError: textures have no such type, and no hack for it is allowed: ``pycuda-helpers.hpp`` reads double
                precision as pairs of integers.
        """
        name = self.dtype.name
        if name in ("float64", "complex64", "complex128") and not (allow_double_hack or allow_complex_hack):
            raise LogicError(f"textures know no {name}: pass allow_double_hack=True, and read it by fp_tex1Dfetch")
        forms = {"float64": (array_format.SIGNED_INT32, 2), "complex64": (array_format.FLOAT, 2)}
        forms["complex128"] = (array_format.SIGNED_INT32, 4)
        form, count = forms.get(name) or (dtype_to_array_format(self.dtype), channels)
        texref.set_format(form, count)
        if self.dtype.kind in "iu":
            texref.set_flags(texref.get_flags() | TRSF_READ_AS_INTEGER)
        return self.bind_to_texref(texref, allow_offset)


# --- arrays alike


def empty_like(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
    """An array of the shape, type and order of another, uninitialised.

    Args:
        other_ary: the other array.
        dtype: another type.
        order: ``C`` or ``F``; ``A`` for ``F`` if the other one is so, else ``C``; ``K`` as near to it as can be.

    Raises:
        MemoryError: there is not that much left.
        ValueError: the order is none of them.
    """
    dtype = np.dtype(dtype or other_ary.dtype)
    if order in ("A", "K"):
        flags = other_ary.flags
        if flags.c_contiguous or order == "A" or other_ary.ndim < 2:
            order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    strides = dense_strides(other_ary, dtype.itemsize) if order == "K" else None
    return GPUArray(
        other_ary.shape,
        dtype,
        getattr(other_ary, "allocator", None),
        strides=strides,
        order="C" if order == "K" else order,
    )


def splay(n: int, dev: Any = None) -> tuple[tuple[int, int], tuple[int, int, int]]:
    """A grid and a block for ``n`` elements, of which each thread takes several."""
    del dev
    return (min(max(-(-n // (_THREADS * _EACH)), 1), _BLOCKS), 1), (_THREADS, 1, 1)


# --- helpers


def _name_operators() -> None:
    """Give the methods of operators their names: errors, ``help()`` and pickle read them."""
    for name, method in vars(GPUArray).items():
        if getattr(method, "__name__", "") == "operate":
            method.__name__, method.__qualname__ = name, f"GPUArray.{name}"


_name_operators()


@translated
def elementwise(
    name: str, function: Any, operands: tuple[Any, ...], dtype: Any, out: GPUArray | None = None, stream: Any = None
) -> GPUArray:
    """``function`` of arrays of one shape and numbers, in ``out`` or a new array of a type.

    Raises:
        RuntimeError: an array is not contiguous.
        ValueError: shapes do not agree.
    """
    arrays = [each for each in operands if isinstance(each, GPUArray)]
    if not all(each.flags.forc for each in arrays):
        # PyCUDA's own error, which is Python's
        raise RuntimeError("only contiguous arrays may be used as arguments to this operation")
    like = max(arrays, key=lambda each: each.size)
    if any(each.shape != like.shape and each.size != 1 for each in arrays):
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise ValueError(f"the arrays' shapes {shapes} must be the same")
    if out is None:
        out = empty_like(like, dtype=dtype)

    def work(made: Any, *values: Any) -> None:
        computed = [value.reshape(()) if region_of(value) else value for value in values]
        _converted(made, function(*computed))

    def region_of(value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.size == 1 and like.size != 1

    places = [each.region if isinstance(each, GPUArray) else each for each in operands]
    queue(name, work, (out.region,), places, stream)
    return out


def _all_of(name: str, function: Any, array: GPUArray, dtype: Any, stream: Any, allocator: Any) -> GPUArray:
    made = GPUArray((), dtype, allocator or array.allocator)
    queue(name, lambda out, values: np.copyto(out, function(values)), (made.region,), (array.region,), stream)
    return made


def _converted(out: Any, values: Any) -> None:
    np.copyto(out, values.real if out.dtype.kind != "c" and np.iscomplexobj(values) else values, casting="unsafe")


def common_type(*operands: Any) -> np.dtype[Any]:
    """The type of what is computed of them: numbers of Python's give way to arrays."""
    return np.result_type(*(each.dtype if isinstance(each, (GPUArray, np.generic)) else each for each in operands))


def _quotient(*operands: Any) -> np.dtype[Any]:
    common = common_type(*operands)
    return np.dtype(np.float64) if common.kind in "iub" else common


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.empty(0, dtype).real.dtype


def cleared(array: GPUArray) -> GPUArray:
    """The array, filled with zeros."""
    if array.dtype.kind == "V":
        queue("fill", lambda out: np.copyto(out, np.zeros((), out.dtype)), (array.region,), ())
        return array
    return array.fill(0)


def _wait(stream: Any) -> None:
    with runtime().on_device(current_ordinal()):
        runtime().driver.stream_synchronize(handle_of(stream))
