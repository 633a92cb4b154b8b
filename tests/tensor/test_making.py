"""Tensors and storages are made from their parts."""

from __future__ import annotations

import pytest
from cuplug.runtime.machine.device_name import device
from cuplug.runtime.tensor.core.storage import Storage, make_storage
from cuplug.runtime.tensor.core.tensor import Tensor, make_tensor


def test_objects_made_from_their_slots_are_those_that_the_class_makes():
    place, owner = device("cpu"), object()
    storage, same = make_storage(place, 12, owner, 4096), Storage(place, 12, owner, 4096)
    assert type(storage) is Storage
    for name in Storage.__slots__:
        if name != "__weakref__":
            assert getattr(storage, name) == getattr(same, name)
    layout = object()
    for values in ((storage, 3, layout), (storage, 3, layout, owner)):
        tensor = make_tensor(*values)
        assert type(tensor) is Tensor
        kept = (tensor._storage, tensor._offset, tensor._layout, tensor._array, tensor._gradient)
        assert kept == (storage, 3, layout, values[3] if len(values) > 3 else None, None)


def test_an_object_is_not_made_of_too_few_or_too_many_values():
    for count in (2, 5):
        with pytest.raises(TypeError):
            make_tensor(*range(count))
