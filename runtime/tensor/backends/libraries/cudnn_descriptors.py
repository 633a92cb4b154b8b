"""What cuDNN's graphs are described by: descriptors with attributes, and the numbers that its headers name.

Each kind of descriptor and attribute, with the type of its values, is documented in ``cudnn_graph.h`` (NVIDIA cuDNN
Backend, "cudnn_graph Library"). The names here are NVIDIA's, less what all have in common.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ....kernels.launch.quick_calls import quick_execute
from .cudnn import Dnn

DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "int32": 4, "bfloat16": 9, "int64": 10, "bool": 11}
"""``cudnnDataType_t`` by the names of our types."""


class Kind(IntEnum):
    """``cudnnBackendDescriptorType_t``."""

    POINTWISE = 0
    CONVOLUTION = 1
    ENGINE = 2
    ENGINECFG = 3
    ENGINEHEUR = 4
    EXECUTION_PLAN = 5
    CONVOLUTION_FORWARD = 10
    CONVOLUTION_BACKWARD_FILTER = 11
    CONVOLUTION_BACKWARD_DATA = 12
    OPERATION_POINTWISE = 13
    OPERATIONGRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17
    MATMUL = 18
    OPERATION_MATMUL = 19
    REDUCTION = 21
    OPERATION_REDUCTION = 22
    OPERATION_RESHAPE = 31


class Attribute(NamedTuple):
    """One of ``cudnnBackendAttributeName_t``, with the ``cudnnBackendAttributeType_t`` of its values."""

    name: int
    kind: int

    @property
    def value(self) -> Any:
        """The C type of its values."""
        return _C_TYPES.get(self.kind, ctypes.c_int)


_HANDLE, _DATA, _BOOL, _INT64, _FLOAT, _DOUBLE, _POINTER, _MODE, _HEURISTIC = range(9)
_NOTE, _POINTWISE, _DESCRIPTOR, _OPERATOR = 11, 14, 15, 18
_C_TYPES: dict[int, Any] = {
    _HANDLE: ctypes.c_void_p,
    _BOOL: ctypes.c_bool,
    _INT64: ctypes.c_int64,
    _FLOAT: ctypes.c_float,
    _DOUBLE: ctypes.c_double,
    _POINTER: ctypes.c_void_p,
    _DESCRIPTOR: ctypes.c_void_p,
}  # all others are enumerations


class Named:
    """The attributes that are used here."""

    POINTWISE_MODE = Attribute(0, _POINTWISE)
    POINTWISE_MATH_PREC = Attribute(1, _DATA)
    POINTWISE_AXIS = Attribute(9, _INT64)
    CONVOLUTION_COMP_TYPE = Attribute(100, _DATA)
    CONVOLUTION_CONV_MODE = Attribute(101, _MODE)
    CONVOLUTION_DILATIONS = Attribute(102, _INT64)
    CONVOLUTION_FILTER_STRIDES = Attribute(103, _INT64)
    CONVOLUTION_POST_PADDINGS = Attribute(104, _INT64)
    CONVOLUTION_PRE_PADDINGS = Attribute(105, _INT64)
    CONVOLUTION_SPATIAL_DIMS = Attribute(106, _INT64)
    ENGINEHEUR_MODE = Attribute(200, _HEURISTIC)
    ENGINEHEUR_OPERATION_GRAPH = Attribute(201, _DESCRIPTOR)
    ENGINEHEUR_RESULTS = Attribute(202, _DESCRIPTOR)
    ENGINECFG_ENGINE = Attribute(300, _DESCRIPTOR)
    EXECUTION_PLAN_HANDLE = Attribute(400, _HANDLE)
    EXECUTION_PLAN_ENGINE_CONFIG = Attribute(401, _DESCRIPTOR)
    EXECUTION_PLAN_WORKSPACE_SIZE = Attribute(402, _INT64)
    OPERATION_POINTWISE_DESCRIPTOR = Attribute(750, _DESCRIPTOR)
    OPERATION_POINTWISE_X = Attribute(751, _DESCRIPTOR)
    OPERATION_POINTWISE_B = Attribute(752, _DESCRIPTOR)
    OPERATION_POINTWISE_Y = Attribute(753, _DESCRIPTOR)
    OPERATION_POINTWISE_T = Attribute(758, _DESCRIPTOR)
    OPERATIONGRAPH_HANDLE = Attribute(800, _HANDLE)
    OPERATIONGRAPH_OPS = Attribute(801, _DESCRIPTOR)
    TENSOR_BYTE_ALIGNMENT = Attribute(900, _INT64)
    TENSOR_DATA_TYPE = Attribute(901, _DATA)
    TENSOR_DIMENSIONS = Attribute(902, _INT64)
    TENSOR_STRIDES = Attribute(903, _INT64)
    TENSOR_UNIQUE_ID = Attribute(906, _INT64)
    TENSOR_IS_VIRTUAL = Attribute(907, _BOOL)
    TENSOR_IS_BY_VALUE = Attribute(908, _BOOL)
    VARIANT_PACK_UNIQUE_IDS = Attribute(1000, _INT64)
    VARIANT_PACK_DATA_POINTERS = Attribute(1001, _POINTER)
    VARIANT_PACK_WORKSPACE = Attribute(1003, _POINTER)
    ENGINE_NUMERICAL_NOTE = Attribute(1303, _NOTE)
    MATMUL_COMP_TYPE = Attribute(1500, _DATA)
    OPERATION_MATMUL_A = Attribute(1520, _DESCRIPTOR)
    OPERATION_MATMUL_B = Attribute(1521, _DESCRIPTOR)
    OPERATION_MATMUL_C = Attribute(1522, _DESCRIPTOR)
    OPERATION_MATMUL_DESCRIPTOR = Attribute(1523, _DESCRIPTOR)
    REDUCTION_OPERATOR = Attribute(1600, _OPERATOR)
    REDUCTION_COMP_TYPE = Attribute(1601, _DATA)
    OPERATION_REDUCTION_X = Attribute(1610, _DESCRIPTOR)
    OPERATION_REDUCTION_Y = Attribute(1611, _DESCRIPTOR)
    OPERATION_REDUCTION_DESCRIPTOR = Attribute(1612, _DESCRIPTOR)
    OPERATION_RESHAPE_X = Attribute(2200, _DESCRIPTOR)
    OPERATION_RESHAPE_Y = Attribute(2201, _DESCRIPTOR)

    @staticmethod
    def convolution_scale(name: int, double: bool) -> Attribute:
        """The factors of a convolution, which are of the type that it computes in."""
        return Attribute(name, _DOUBLE if double else _FLOAT)

    @staticmethod
    def part(name: int) -> Attribute:
        """A descriptor that is part of another."""
        return Attribute(name, _DESCRIPTOR)


class Descriptor:
    """A descriptor of cuDNN's, which is destroyed with this object. It keeps those that it was made of."""

    def __init__(self, dnn: Dnn, kind: int, attributes: Mapping[Attribute, Sequence[Any]] | None = None) -> None:
        """A descriptor with these attributes, or one without any, to be filled by cuDNN.

        Raises:
            DnnError: cuDNN does not take it so.
        """
        self._library, self._dnn = dnn.library, dnn
        made = ctypes.c_void_p()
        self._kept: list[Any] = []
        self.address = 0
        dnn.call("cudnnBackendCreateDescriptor", int(kind), ctypes.byref(made))
        self.address = made.value or 0
        if attributes is None:
            return
        for attribute, values in attributes.items():
            given = [each.address if isinstance(each, Descriptor) else each for each in values]
            self._kept += [each for each in values if isinstance(each, Descriptor)]
            array = (attribute.value * len(given))(*given)
            dnn.call("cudnnBackendSetAttribute", self.address, *attribute, len(given), ctypes.addressof(array))
        dnn.call("cudnnBackendFinalize", self.address)

    def __del__(self) -> None:
        try:
            if self.address:
                self._library.cudnnBackendDestroyDescriptor(self.address)
        except Exception:  # at the interpreter's end
            pass

    def number(self, attribute: Attribute) -> int:
        """The value of an attribute that is one number."""
        return self._numbers(attribute, 1)[0]

    def notes(self, attribute: Attribute) -> list[int]:
        """The values of an attribute that is any number of notes."""
        return self._numbers(attribute, _NOTES)

    def _numbers(self, attribute: Attribute, most: int) -> list[int]:
        room = (attribute.value * most)()
        return [int(each) for each in room[: self._fill(attribute, room)]]

    def parts(self, attribute: Attribute, kind: Kind) -> list[Descriptor]:
        """The descriptors of an attribute, at most as many as cuDNN has."""
        count = ctypes.c_int64()
        address = self.address
        if kind is Kind.ENGINE:
            count.value = 1
        else:
            self._dnn.call("cudnnBackendGetAttribute", address, *attribute, 0, ctypes.addressof(count), None)
        made = [Descriptor(self._dnn, kind) for _ in range(count.value)]
        room = (ctypes.c_void_p * len(made))(*[each.address for each in made])
        return made[: self._fill(attribute, room)] if made else []

    def _fill(self, attribute: Attribute, room: Any) -> int:
        count = ctypes.c_int64()
        given = *attribute, len(room), ctypes.addressof(count), ctypes.addressof(room)
        self._dnn.call("cudnnBackendGetAttribute", self.address, *given)
        return min(count.value, len(room))


class Packs:
    """Runs plans with tensors that are numbered from 1 on.

    cuDNN takes them in a descriptor of their own, a variant pack, which can be filled once only: each run makes one, of
    arrays whose types are settled here.
    """

    def __init__(self, dnn: Dnn, count: int) -> None:
        """For graphs of ``count`` tensors in memory."""
        self._dnn = dnn
        self._numbers = (ctypes.c_int64 * count)(*range(1, count + 1))
        self._array = ctypes.c_void_p * count
        self._first = (*Named.VARIANT_PACK_UNIQUE_IDS, count, ctypes.addressof(self._numbers))
        self._second = (*Named.VARIANT_PACK_DATA_POINTERS, count)
        self._third = (*Named.VARIANT_PACK_WORKSPACE, 1)

    def runner(self, plan: Descriptor) -> Callable[..., None]:
        """``run(handle, workspace, *addresses)``: runs a plan with tensors at these addresses, and memory at
        ``workspace`` to work with. It raises DnnError where cuDNN fails.
        """
        place = self._dnn.place

        def run(handle: int, workspace: int, *addresses: int) -> None:
            driver = place.driver
            before = driver.current_device()
            driver.set_device(place.ordinal)  # also where another library has made its own context current
            try:
                self._run(plan, handle, workspace, addresses)
            finally:
                if before != place.ordinal:
                    driver.set_device(before)

        named = Named.VARIANT_PACK_UNIQUE_IDS, Named.VARIANT_PACK_DATA_POINTERS, Named.VARIANT_PACK_WORKSPACE
        attributes = [(each.name, each.kind) for each in named]
        kind, count = int(Kind.VARIANT_PACK), len(self._numbers)
        return quick_execute(run, place.driver, self._dnn.library, plan.address, count, kind, attributes, place.ordinal)

    def _run(self, plan: Descriptor, handle: int, workspace: int, addresses: Sequence[int]) -> None:
        call, address_of = self._dnn.call, ctypes.addressof
        made, pointers, room = ctypes.c_void_p(), self._array(*addresses), ctypes.c_void_p(workspace)
        call("cudnnBackendCreateDescriptor", int(Kind.VARIANT_PACK), ctypes.byref(made))
        pack = made.value
        try:
            call("cudnnBackendSetAttribute", pack, *self._first)
            call("cudnnBackendSetAttribute", pack, *self._second, address_of(pointers))
            call("cudnnBackendSetAttribute", pack, *self._third, address_of(room))
            call("cudnnBackendFinalize", pack)
            call("cudnnBackendExecute", handle, plan.address, pack)
        finally:
            self._dnn.library.cudnnBackendDestroyDescriptor(pack)


_NOTES = 10
"""``CUDNN_NUMERICAL_NOTE_TYPE_COUNT``."""
