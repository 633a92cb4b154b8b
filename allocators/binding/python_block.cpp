/* Block: a piece of memory in the program's hands, for reading. One that is dropped stays allocated, but for one that
 * its caller never got: see deallocate. */
#include "python_binding.h"

#include <cinttypes>
#include <cstdio>

namespace cuplug::python {

namespace {

/* What was freed last is made again first: an allocation as a rule follows a free. */
constexpr int MOST_SPARE = 128;
Block *spare[MOST_SPARE];
int spare_count = 0;

Handle *handle_of(PyObject *self) { return &reinterpret_cast<Block *>(self)->handle; }

void deallocate(PyObject *self) {
  Block *block = reinterpret_cast<Block *>(self);
  if (block->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Handle *handle = &block->handle;
  if (handle->live) {
    unlink_handle(handle);
    /* Nobody can ask for a block of no bytes any more. And the interpreter looks for signals right after a call in C,
     * before it stores the result: an exception raised there drops a block that its caller never got. In Python there is
     * no such moment (base.py: allocate). Who has not read the address cannot miss the memory, so that this is right for
     * any exception. */
    const bool unseen = !block->seen && PyErr_Occurred() != nullptr;
    if (unseen || (handle->nbytes == 0 && !handle->allocator->observed)) {
      cuplug_free(handle->allocator->core, handle->block, 0);
    }
    handle->live = false;
  }
  Py_XDECREF(reinterpret_cast<PyObject *>(handle->allocator));
  if (spare_count < MOST_SPARE) {
    spare[spare_count++] = block;
  } else {
    PyObject_Free(block);
  }
}

PyObject *represent(PyObject *self) {
  const Handle *handle = handle_of(self);
  char text[160];
  std::snprintf(text, sizeof text, "<Block 0x%" PRIx64 " %" PRIu64 " of %" PRIu64 " bytes, stream 0x%" PRIx64 ", %s>",
                handle->address, handle->requested, handle->nbytes, handle->stream, handle->live ? "live" : "free");
  return PyUnicode_FromString(text);
}

PyObject *get_address(PyObject *self, void *) {
  reinterpret_cast<Block *>(self)->seen = true;
  return PyLong_FromUnsignedLongLong(handle_of(self)->address);
}
PyObject *get_nbytes(PyObject *self, void *) { return PyLong_FromUnsignedLongLong(handle_of(self)->nbytes); }
PyObject *get_requested(PyObject *self, void *) { return PyLong_FromUnsignedLongLong(handle_of(self)->requested); }
PyObject *get_stream(PyObject *self, void *) { return PyLong_FromUnsignedLongLong(handle_of(self)->stream); }
PyObject *get_live(PyObject *self, void *) { return PyBool_FromLong(handle_of(self)->live); }
PyObject *get_orphan(PyObject *self, void *) { return PyBool_FromLong(handle_of(self)->orphan); }

PyObject *get_allocator(PyObject *self, void *) {
  return Py_NewRef(reinterpret_cast<PyObject *>(handle_of(self)->allocator));
}

PyObject *as_int(PyObject *self) { return get_address(self, nullptr); }

PyObject *refuse_copies(PyObject *, PyObject *) {
  PyErr_SetString(PyExc_TypeError,
                  "a Block cannot be copied or pickled: two owners would free it; allocate a second one instead");
  return nullptr;
}

PyGetSetDef attributes[] = {
    {"address", get_address, nullptr, "The device address.", nullptr},
    {"nbytes", get_nbytes, nullptr, "The size in bytes, rounded by the allocator.", nullptr},
    {"requested", get_requested, nullptr, "The size in bytes that the program asked for.", nullptr},
    {"stream", get_stream, nullptr, "The stream on which the memory is reusable as soon as it is freed.", nullptr},
    {"live", get_live, nullptr, "Whether it is in the program's hands: allocated, and not yet freed.", nullptr},
    {"orphan", get_orphan, nullptr, "Whether its own stream has been destroyed.", nullptr},
    {"allocator", get_allocator, nullptr, "The allocator that it belongs to.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"__reduce__", refuse_copies, METH_NOARGS, nullptr},
    {"__reduce_ex__", refuse_copies, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyNumberMethods block_number() {
  PyNumberMethods number = {};
  number.nb_int = as_int;
  return number;
}

PyNumberMethods number = block_number();

PyTypeObject block_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.Block";
  type.tp_basicsize = sizeof(Block);
  type.tp_dealloc = deallocate;
  type.tp_repr = represent;
  type.tp_as_number = &number;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_doc = "A piece of device memory in the program's hands; see cuplug.allocators.block.Block.";
  type.tp_weaklistoffset = offsetof(Block, weak_references);
  type.tp_methods = methods;
  type.tp_getset = attributes;
  return type;
}

}  // namespace

PyTypeObject BlockType = block_type();

PyObject *new_block() {
  Block *block;
  if (spare_count > 0) {
    block = spare[--spare_count];
#if defined(Py_REF_DEBUG) || defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
    PyObject_Init(reinterpret_cast<PyObject *>(block), &BlockType);
#else /* its type is what it was, and is not counted */
    Py_SET_REFCNT(reinterpret_cast<PyObject *>(block), 1);
#endif
  } else {
    block = PyObject_New(Block, &BlockType);
    if (block == nullptr) return nullptr;
  }
  block->weak_references = nullptr;
  block->seen = false;
  block->handle.allocator = nullptr;
  block->handle.live = false;
  block->handle.in_owner = false;
  return reinterpret_cast<PyObject *>(block);
}

PyObject *block_from(Handle *handle) {
  PyObject *made = new_block();
  if (made == nullptr) return nullptr;
  reinterpret_cast<Block *>(made)->seen = true; /* an owner had it */
  Handle *own = handle_of(made);
  *own = *handle;
  own->in_owner = false;
  if (own->live) {
    unlink_handle(handle);
    link_handle(own);
  }
  handle->allocator = nullptr; /* its reference has moved */
  handle->live = false;
  return made;
}

}  // namespace cuplug::python
