/* Owner: gives its block back when it goes. The base of buffers, and how one comes about without entering Python. */
#include "allocators/binding/python_binding.h"

namespace cuplug::python {

namespace {

/* Owns a block and gives it back when it goes: `handle` where that is a native one nobody has asked for yet, else
 * `block`. A closed one has neither. */
struct Owner {
  PyObject_HEAD
  PyObject *weak_references;
  PyObject *block;
  Handle handle; /* `handle.allocator` is null where it is not in use */
};

extern PyTypeObject OwnerType, QuickType;

Owner *as_owner(PyObject *object) { return reinterpret_cast<Owner *>(object); }

/* Memory of owners that have gone, of classes made in Python that add nothing to Owner: for these the interpreter's own
 * steps (to look for slots and a dictionary, to ask for memory and give it back) take as long as an allocation. */
constexpr int MOST_SPARE = 128;
Owner *spare[MOST_SPARE];
int spare_count = 0;

void deallocate_simple(PyObject *self);

/* Whether its objects are Owners and no more, to the collector a class like others. */
bool adds_nothing(PyTypeObject *type) {
  return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && PyType_IS_GC(type) && type->tp_basicsize == sizeof(Owner) &&
         type->tp_itemsize == 0 && type->tp_dictoffset == 0 && type->tp_del == nullptr &&
         type->tp_weaklistoffset == offsetof(Owner, weak_references) && type->tp_alloc == PyType_GenericAlloc &&
         type->tp_free == PyObject_GC_Del;
}

/* An owner of nothing. */
PyObject *new_owner(PyTypeObject *type) {
  Owner *owner;
  if (spare_count > 0 && type->tp_dealloc == deallocate_simple) {
    owner = as_owner(PyObject_Init(reinterpret_cast<PyObject *>(spare[--spare_count]), type));
    PyObject_GC_Track(owner);
  } else {
    owner = as_owner(type->tp_alloc(type, 0));
    if (owner == nullptr) return nullptr;
    if (adds_nothing(type)) type->tp_dealloc = deallocate_simple;
  }
  owner->weak_references = nullptr;
  owner->block = nullptr;
  owner->handle.allocator = nullptr;
  owner->handle.live = false;
  owner->handle.in_owner = true;
  return reinterpret_cast<PyObject *>(owner);
}

/* The Block of an owner, made now if it had none yet: borrowed; null with an exception set. Py_None if it is closed. */
PyObject *block_of_owner(Owner *owner) {
  if (owner->handle.allocator != nullptr) owner->block = block_from(&owner->handle);
  if (owner->block != nullptr) return owner->block;
  return PyErr_Occurred() ? nullptr : Py_None;
}

PyObject *block_of_handle(Handle *handle) {
  return block_of_owner(reinterpret_cast<Owner *>(reinterpret_cast<char *>(handle) - offsetof(Owner, handle)));
}

PyObject *allocate_owner(Allocator *self, PyTypeObject *type, uint64_t nbytes, uint64_t stream) {
  PyObject *owner = new_owner(type);
  if (owner == nullptr) return nullptr;
  if (allocate_handle(self, nbytes, stream, &as_owner(owner)->handle) < 0) {
    Py_DECREF(owner);
    return nullptr;
  }
  return owner;
}

PyObject *leave = nullptr; /* takes the blocks that are to be given back later; see owner.py */

/* Gives back a block of Python's. Where that is interrupted, it is left to be given back later. -1 with an exception. */
int give_back(PyObject *block) {
  PyObject *allocator = PyObject_GetAttr(block, names.allocator);
  PyObject *given = allocator == nullptr ? nullptr : PyObject_CallMethodOneArg(allocator, names.give_back, block);
  Py_XDECREF(allocator);
  if (given != nullptr) {
    Py_DECREF(given);
    return 0;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *left = leave == nullptr ? nullptr : PyObject_CallOneArg(leave, block);
  Py_XDECREF(left);
  PyErr_Restore(type, value, traceback);
  return -1;
}

/* Gives back what the owner has. -1 with an exception set, and given back all the same, or left to be. */
int give_up(Owner *owner) {
  if (owner->handle.allocator != nullptr) {
    const int result = give_handle_back(&owner->handle);
    PyObject *allocator = reinterpret_cast<PyObject *>(owner->handle.allocator);
    owner->handle.allocator = nullptr;
    Py_XDECREF(allocator);
    return result;
  }
  PyObject *block = owner->block;
  if (block == nullptr) return 0;
  owner->block = nullptr; /* first: of two threads that close one owner, one gives it back */
  int result = 0;
  if (PyObject_TypeCheck(block, &BlockType)) {
    result = give_handle_back(&reinterpret_cast<Block *>(block)->handle);
  } else if (!is_finalising()) {
    result = give_back(block);
  }
  Py_DECREF(block);
  return result;
}

/* The owner goes: what it has is given back. */
void end(PyObject *self) {
  Owner *owner = as_owner(self);
  if (owner->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  if (owner->handle.allocator != nullptr && !owner->handle.allocator->observed &&
      !owner->handle.allocator->enters_python) {
    give_up(owner); /* enters no Python: cannot raise, and leaves what exception is set alone */
  } else if (owner->handle.allocator != nullptr || owner->block != nullptr) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (give_up(owner) < 0) PyErr_WriteUnraisable(nullptr);
    PyErr_Restore(type, value, traceback);
  }
}

void deallocate(PyObject *self) { /* of a class made in Python the interpreter drops the reference */
  end(self);
  Py_TYPE(self)->tp_free(self);
}

/* For a class that adds nothing, in place of the interpreter's own; a class derived from that one comes here too, once
 * the interpreter has dealt with what it adds. */
void deallocate_simple(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  if (type->tp_finalize != nullptr && PyObject_CallFinalizerFromDealloc(self) < 0) return; /* it lives on */
  PyObject_GC_UnTrack(self);
  end(self);
  if (spare_count < MOST_SPARE && type->tp_dealloc == deallocate_simple && type->tp_finalize == nullptr) {
    spare[spare_count++] = as_owner(self);
  } else {
    type->tp_free(self);
  }
  Py_DECREF(type);
}

PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
  if (PyTuple_GET_SIZE(arguments) != 0 || (keywords != nullptr && PyDict_GET_SIZE(keywords) != 0)) {
    PyErr_Format(PyExc_TypeError, "%s takes no arguments", type->tp_name);
    return nullptr;
  }
  return new_owner(type);
}

PyObject *close_owner(PyObject *self, PyObject *) {
  return give_up(as_owner(self)) < 0 ? nullptr : Py_NewRef(Py_None);
}

/* Whether there is memory: 1 or 0; -1 with an exception set. */
int is_live(Owner *owner) {
  if (owner->handle.allocator != nullptr) return owner->handle.live;
  if (owner->block == nullptr) return 0;
  if (PyObject_TypeCheck(owner->block, &BlockType)) return reinterpret_cast<Block *>(owner->block)->handle.live;
  PyObject *live = PyObject_GetAttr(owner->block, names.live);
  const int answer = live == nullptr ? -1 : PyObject_IsTrue(live);
  Py_XDECREF(live);
  return answer;
}

PyObject *get_closed(PyObject *self, void *) {
  const int live = is_live(as_owner(self));
  return live < 0 ? nullptr : PyBool_FromLong(!live);
}

PyObject *get_block(PyObject *self, void *) {
  PyObject *block = block_of_owner(as_owner(self));
  if (block != Py_None) return Py_XNewRef(block);
  PyErr_SetString(PyExc_AttributeError, "it was closed");
  return nullptr;
}

PyObject *get_address(PyObject *self, void *) {
  PyObject *block = get_block(self, nullptr);
  PyObject *address = block == nullptr ? nullptr : PyObject_GetAttrString(block, "address");
  Py_XDECREF(block);
  return address;
}

/* allocate(allocator, nbytes, /, *, stream): a class method. */
PyObject *allocate(PyObject *type, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  PyTypeObject *made = reinterpret_cast<PyTypeObject *>(type);
  if (count != 2 || keywords == nullptr || PyTuple_GET_SIZE(keywords) != 1 ||
      PyUnicode_Compare(PyTuple_GET_ITEM(keywords, 0), names.stream) != 0) {
    PyErr_SetString(PyExc_TypeError, "allocate() takes an allocator, bytes, and the keyword stream");
    return nullptr;
  }
  PyObject *allocator = arguments[0];
  if (PyObject_TypeCheck(allocator, &AllocatorType)) {
    uint64_t nbytes, stream;
    if (size_of(arguments[1], &nbytes) < 0 || stream_of(arguments[2], &stream) < 0) return nullptr;
    return allocate_owner(reinterpret_cast<Allocator *>(allocator), made, nbytes, stream);
  }
  PyObject *owner = new_owner(made);
  if (owner == nullptr) return nullptr;
  PyObject *passed[] = {allocator, arguments[1], arguments[2]};
  as_owner(owner)->block = PyObject_VectorcallMethod(names.allocate, passed, 2, keywords);
  if (as_owner(owner)->block == nullptr) Py_CLEAR(owner);
  return owner;
}

/* The owner of a block, a class method. */
PyObject *own(PyObject *type, PyObject *block) {
  PyObject *owner = new_owner(reinterpret_cast<PyTypeObject *>(type));
  if (owner == nullptr) return nullptr;
  if (PyObject_TypeCheck(block, &BlockType)) reinterpret_cast<Block *>(block)->seen = true;
  as_owner(owner)->block = Py_NewRef(block);
  return owner;
}

PyObject *as_int(PyObject *self) {
  Owner *owner = as_owner(self);
  if (owner->handle.live) return PyLong_FromUnsignedLongLong(owner->handle.address);
  const int live = is_live(owner);
  if (live < 0) return nullptr;
  if (live == 0) return PyObject_GetAttr(self, names.address); /* the class says what is wrong */
  return PyObject_GetAttr(owner->block, names.address);
}

PyObject *get_live_address(PyObject *self, void *) { return as_int(self); }

PyMethodDef methods[] = {
    {"close", close_owner, METH_NOARGS, "close($self)\n--\n\nGive the memory up. Closing again, also from another thread at the same time, does nothing."},
    {"allocate", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(allocate)),
     METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     "allocate($type, allocator, nbytes, /, *, stream)\n--\n\nAn owner of bytes from an allocator, for use on a stream."},
    {"_of", own, METH_O | METH_CLASS, "_of($type, block, /)\n--\n\nThe owner of a block. There must be only one."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"closed", get_closed, nullptr, "Whether the memory is gone: closed here, or with its allocator.", nullptr},
    {"address", get_address, nullptr, "The device address.", nullptr},
    {"_live_address", get_live_address, nullptr, "As int(owner), in fewer steps.", nullptr},
    {"_block", get_block, nullptr, "The block, possibly one that is live no more; unset once closed.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyNumberMethods owner_number() {
  PyNumberMethods number = {};
  number.nb_int = as_int;
  number.nb_index = as_int;
  return number;
}

PyNumberMethods number = owner_number();

PyTypeObject owner_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.Owner";
  type.tp_basicsize = sizeof(Owner);
  type.tp_dealloc = deallocate;
  type.tp_as_number = &number;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_doc = "Owns a block, and gives it back when it is closed or dropped.";
  type.tp_weaklistoffset = offsetof(Owner, weak_references);
  type.tp_methods = methods;
  type.tp_getset = attributes;
  type.tp_new = make;
  return type;
}

/* --- a function that allocates where the calling thread is, and enters Python where it is nowhere */

uint64_t generation = 1; /* raised when shortcuts become invalid */

void forget_shortcuts() { ++generation; }

struct Shortcut {
  uint64_t generation;
  Allocator *allocator; /* borrowed: an allocator that goes raises the generation */
  uint64_t stream;
};
CUPLUG_THREAD_LOCAL Shortcut shortcut = {0, nullptr, 0};

struct Quick {
  PyObject_HEAD
  PyObject *dictionary;
  vectorcallfunc call;
  PyObject *function;
  PyTypeObject *made;
};

PyObject *call_quick(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  Quick *quick = reinterpret_cast<Quick *>(self);
  if (keywords == nullptr && PyVectorcall_NARGS(flags) == 1 && PyLong_CheckExact(arguments[0])) {
    const Shortcut here = shortcut;
    uint64_t nbytes;
    if (here.generation == generation) {
      if (size_of(arguments[0], &nbytes) < 0) { /* the function says it in its own words */
        PyErr_Clear();
        return PyObject_Vectorcall(quick->function, arguments, flags, keywords);
      }
      Py_INCREF(here.allocator); /* a thread may close its runtime while this one waits */
      PyObject *owner = allocate_owner(here.allocator, quick->made, nbytes, here.stream);
      Py_DECREF(here.allocator);
      return owner;
    }
  }
  return PyObject_Vectorcall(quick->function, arguments, flags, keywords);
}

void deallocate_quick(PyObject *self) {
  Quick *quick = reinterpret_cast<Quick *>(self);
  PyObject_GC_UnTrack(self);
  Py_XDECREF(quick->dictionary);
  Py_XDECREF(quick->function);
  Py_XDECREF(reinterpret_cast<PyObject *>(quick->made));
  Py_TYPE(self)->tp_free(self);
}

int traverse_quick(PyObject *self, visitproc visit, void *arg) {
  Quick *quick = reinterpret_cast<Quick *>(self);
  Py_VISIT(quick->dictionary);
  Py_VISIT(quick->function);
  Py_VISIT(quick->made);
  return 0;
}

PyObject *reduce_quick(PyObject *self, PyObject *) { /* by its name, as functions are */
  return PyObject_GetAttrString(reinterpret_cast<Quick *>(self)->function, "__qualname__");
}

PyMethodDef quick_methods[] = {
    {"__reduce__", reduce_quick, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyObject *represent_quick(PyObject *self) { return PyObject_Repr(reinterpret_cast<Quick *>(self)->function); }

PyGetSetDef quick_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject quick_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.Quick";
  type.tp_basicsize = sizeof(Quick);
  type.tp_dealloc = deallocate_quick;
  type.tp_repr = represent_quick;
  type.tp_vectorcall_offset = offsetof(Quick, call);
  type.tp_call = PyVectorcall_Call;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_traverse = traverse_quick;
  type.tp_dictoffset = offsetof(Quick, dictionary);
  type.tp_methods = quick_methods;
  type.tp_getset = quick_attributes;
  return type;
}

PyObject *quicken(PyObject *, PyObject *arguments) {
  PyObject *function;
  PyTypeObject *made;
  if (!PyArg_ParseTuple(arguments, "OO!:quicken", &function, &PyType_Type, &made)) return nullptr;
  if (!PyType_IsSubtype(made, &OwnerType)) {
    PyErr_Format(PyExc_TypeError, "%R does not derive from Owner", made);
    return nullptr;
  }
  Quick *quick = PyObject_GC_New(Quick, &QuickType);
  if (quick == nullptr) return nullptr;
  quick->dictionary = nullptr;
  quick->call = call_quick;
  quick->function = Py_NewRef(function);
  quick->made = reinterpret_cast<PyTypeObject *>(Py_NewRef(reinterpret_cast<PyObject *>(made)));
  PyObject_GC_Track(reinterpret_cast<PyObject *>(quick));
  return reinterpret_cast<PyObject *>(quick);
}

PyObject *set_shortcut(PyObject *, PyObject *arguments) {
  PyObject *allocator, *value;
  uint64_t stream;
  if (!PyArg_ParseTuple(arguments, "OO:set_shortcut", &allocator, &value) || stream_of(value, &stream) < 0) return nullptr;
  if (PyObject_TypeCheck(allocator, &AllocatorType)) {
    shortcut = {generation, reinterpret_cast<Allocator *>(allocator), stream};
  } else {
    shortcut = {0, nullptr, 0};
  }
  Py_RETURN_NONE;
}

PyObject *leave_to(PyObject *, PyObject *function) {
  Py_XSETREF(leave, Py_NewRef(function));
  Py_RETURN_NONE;
}

PyObject *forget_shortcuts_method(PyObject *, PyObject *) {
  forget_shortcuts();
  Py_RETURN_NONE;
}

PyTypeObject OwnerType = owner_type();
PyTypeObject QuickType = quick_type();

PyMethodDef quick_functions[] = {
    {"quicken", quicken, METH_VARARGS,
     "quicken(function, made)\n--\n\nA function as `function`, which takes bytes and makes an owner of class `made`, "
     "that enters no Python where the calling thread has a shortcut."},
    {"set_shortcut", set_shortcut, METH_VARARGS,
     "set_shortcut(allocator, stream)\n--\n\nSay where the calling thread allocates; an allocator that is none of the "
     "core's means nowhere."},
    {"leave_to", leave_to, METH_O,
     "leave_to(function)\n--\n\nSay what takes the blocks in Python whose give_back was interrupted."},
    {"forget_shortcuts", forget_shortcuts_method, METH_NOARGS, "forget_shortcuts()\n--\n\nNo thread has a shortcut any more."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(quick_functions, &OwnerType, &QuickType);
[[maybe_unused]] const bool is_told = (owners = {block_of_handle, forget_shortcuts}, true);

}  // namespace

}  // namespace cuplug::python
