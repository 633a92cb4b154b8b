"""Pickles of others: read by an unpickler that calls what its owner names, changes what it has made itself, and takes
time and memory in proportion to the pickle.

It is Python's unpickler in Python: the one in C makes a table as long as the largest number that a pickle gives to an
object, and lets a pickle set attributes of whatever it names, such as functions.
"""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from ...core.tensor_errors import ArgumentError
from .numpy_pickles import fill_array, set_byte_order

_MOST_OF_A_KEY = 1000
"""Parts of a dictionary's key, where that is a tuple of tuples: whoever looks it up walks over all of them."""
_DEEPEST_KEY = 20
_IN_PYTHON: Any = pickle._Unpickler


class RestrictedUnpickler(_IN_PYTHON):  # type: ignore[misc]
    """Reads one pickle.

    What is called has to be what ``find`` returned. Only dictionaries, lists and sets are filled, and attributes set of
    nothing but ``OrderedDict``, NumPy's arrays and element types (``fill_array``, ``set_byte_order``) and objects of
    the classes that ``find`` returned.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(_IN_PYTHON.dispatch)

    def __init__(self, file: Any, find: Callable[[str, str], Any]) -> None:
        """Read from ``file``, an object with ``read`` and ``readline``; ``find`` gives what a module's name means."""
        super().__init__(file)
        self._find = find
        self._named: dict[int, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        """What ``find`` gives for a name, which may be called from then on. Raises what ``find`` does."""
        found = self._find(module, name)
        self._named[id(found)] = found
        return found

    def _load_reduce(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = self._made(self.stack[-1], arguments)

    def _load_newobj(self) -> None:
        arguments = self.stack.pop()
        self.stack[-1] = self._new(self.stack[-1], arguments, {})

    def _load_newobj_ex(self) -> None:
        by_name = self.stack.pop()
        arguments = self.stack.pop()
        self.stack[-1] = self._new(self.stack[-1], arguments, by_name)

    def _instantiate(self, kind: Any, arguments: Any) -> None:
        self.append(self._made(kind, tuple(arguments)))

    def _load_build(self) -> None:
        changed = self.stack[-2]
        if isinstance(changed, (np.ndarray, np.dtype)):
            fill: Any = fill_array if isinstance(changed, np.ndarray) else set_byte_order
            fill(changed, self.stack.pop())
            return
        if type(changed) is not OrderedDict and id(type(changed)) not in self._named:
            _refuse(f"it sets attributes of an object of type {type(changed).__name__}")
        super().load_build()

    def _load_append(self) -> None:
        value = self.stack.pop()
        self._filled(list).append(value)

    def _load_appends(self) -> None:
        items = self.pop_mark()
        self._filled(list).extend(items)

    def _load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._filled(dict)[_checked_key(key)] = value

    def _load_setitems(self) -> None:
        self._set(self.pop_mark())

    def _load_dict(self) -> None:
        items = self.pop_mark()
        self.append({})
        self._set(items)

    def _load_additems(self) -> None:
        items = self.pop_mark()
        self._filled(set).update(map(_checked_key, items))

    def _load_frozenset(self) -> None:
        self.append(frozenset(map(_checked_key, self.pop_mark())))

    def _load_bytearray8(self) -> None:
        length = int.from_bytes(self.read(8), "little")
        content = self.read(min(length, sys.maxsize))
        if len(content) != length:
            raise EOFError(f"a bytearray has {len(content)} bytes, and should have {length}")
        self.append(bytearray(content))

    def get_extension(self, code: int) -> None:
        """Refuse what ``copyreg`` knows by a number.

        Raises:
            ArgumentError: always.
        """
        _refuse(f"it names something by a number, {code}")

    for _code, _method in (
        (pickle.REDUCE, _load_reduce), (pickle.NEWOBJ, _load_newobj), (pickle.NEWOBJ_EX, _load_newobj_ex),
        (pickle.BUILD, _load_build), (pickle.APPEND, _load_append), (pickle.APPENDS, _load_appends),
        (pickle.SETITEM, _load_setitem), (pickle.SETITEMS, _load_setitems), (pickle.DICT, _load_dict),
        (pickle.ADDITEMS, _load_additems), (pickle.FROZENSET, _load_frozenset),
        (pickle.BYTEARRAY8, _load_bytearray8),
    ):  # fmt: skip
        dispatch[_code[0]] = _method
    del _code, _method

    def _made(self, called: Any, arguments: Any) -> Any:
        if id(called) not in self._named or type(arguments) is not tuple:
            _refuse(f"it calls an object of type {type(called).__name__}")
        if called is OrderedDict or called is set:
            for given in arguments:
                for item in given:
                    _checked_key(item[0] if called is OrderedDict else item)
        return called(*arguments)

    def _new(self, kind: Any, arguments: Any, by_name: Any) -> Any:
        if id(kind) not in self._named or not isinstance(kind, type) or type(arguments) is not tuple:
            _refuse(f"it makes an object of what is no class, {type(kind).__name__}")
        return kind.__new__(kind, *arguments, **by_name)

    def _filled(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            _refuse(f"it fills an object of type {type(self.stack[-1]).__name__} as if it were a {kind.__name__}")
        return self.stack[-1]

    def _set(self, items: list[Any]) -> None:
        filled = self._filled(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            filled[_checked_key(key)] = value


def _checked_key(key: Any) -> Any:
    """A key, unless it is a tuple that is too deep or too large to be looked up: its hash has no bounds of its own."""
    left, level = _MOST_OF_A_KEY, [key]
    for _ in range(_DEEPEST_KEY):
        if not (level := [part for part in level if isinstance(part, tuple)]):
            return key
        if (left := left - sum(map(len, level))) < 0:
            break
        level = [part for each in level for part in each]
    return _refuse("it has a dictionary's key of too many parts")


def _refuse(why: str) -> NoReturn:
    raise ArgumentError(f"load: the file is damaged, or not to be trusted: {why}")
