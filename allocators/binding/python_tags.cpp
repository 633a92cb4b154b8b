/* Tags of memory: what sleeps, and what moves between the device and the host. */
#include "python_binding.h"

#include <vector>

namespace cuplug::python {

namespace {

/* Raises the CuplugError of which a method of the allocator's says why, for a tag. Always null. */
PyObject *raise_for_tag(Allocator *self, const char *method, unsigned long long tag) {
  raise_told(self, names.cuplug_error, method, "K", tag);
  return nullptr;
}

PyObject *set_memory_tag(PyObject *, PyObject *number) {
  const unsigned long long tag = PyLong_AsUnsignedLongLong(number);
  if (tag > (CUPLUG_MOST_TAGS | CUPLUG_TAG_ON_HOST)) {
    if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%R is no memory tag", number);
    return nullptr;
  }
  return PyLong_FromUnsignedLongLong(cuplug_set_memory_tag(tag));
}

PyObject *is_capturing(PyObject *, PyObject *) { return PyBool_FromLong(cuplug_cuda_is_capturing()); }

}  // namespace

PyObject *put_to_sleep(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  unsigned long long tag;
  PyObject *keep;
  if (!PyArg_ParseTuple(arguments, "KO:_sleep", &tag, &keep) || check_entry(self) < 0) return nullptr;
  Operation operation(self);
  const cuplug_keeper keeper = keeper_of(self);
  operation.keep = keep;
  uint64_t nbytes = 0;
  const int answer = cuplug_sleep(self->core, tag, keep == Py_None ? nullptr : &keeper, &nbytes);
  if (answer == CUPLUG_NOT_SUPPORTED) return raise_for_tag(self, "_why_shared", tag);
  return conclude(self, answer, operation, answer == CUPLUG_OK ? PyLong_FromUnsignedLongLong(nbytes) : nullptr);
}

PyObject *wake(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  unsigned long long tag;
  if (!PyArg_ParseTuple(arguments, "K:_wake", &tag) || check_entry(self) < 0) return nullptr;
  Operation operation(self);
  uint64_t nbytes = 0;
  const int answer = cuplug_wake(self->core, tag, &nbytes);
  if (answer == CUPLUG_OUT_OF_MEMORY && !operation.interrupted) {
    raise_out_of_memory(self);
    if (self->delivers) deliver(self);
    return nullptr;
  }
  return conclude(self, answer, operation, answer == CUPLUG_OK ? PyLong_FromUnsignedLongLong(nbytes) : nullptr);
}

/* What was taken; where the host has no room, how much it would have been, below zero. */
PyObject *move_tagged(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  unsigned long long tag;
  int to_host;
  PyObject *copier;
  if (!PyArg_ParseTuple(arguments, "KpO:_move", &tag, &to_host, &copier) || check_entry(self) < 0) return nullptr;
  Operation operation(self);
  const cuplug_copier functions = copier_of(self);
  operation.keep = copier;
  uint64_t nbytes = 0;
  const int answer = cuplug_move(self->core, tag, to_host, &functions, &nbytes);
  if (answer == CUPLUG_OUT_OF_MEMORY && !operation.interrupted) {
    if (!to_host) raise_out_of_memory(self);
    if (self->delivers) deliver(self);
    return to_host ? PyLong_FromLongLong(-static_cast<long long>(nbytes)) : nullptr;
  }
  if (answer == CUPLUG_ASLEEP) return raise_for_tag(self, "_why_not_moved", tag);
  if (answer == CUPLUG_NOT_SUPPORTED) return raise_for_tag(self, "_why_shared", tag);
  return conclude(self, answer, operation, answer == CUPLUG_OK ? PyLong_FromUnsignedLongLong(nbytes) : nullptr);
}

/* A list of (tag, blocks, nbytes, kept_bytes). */
PyObject *read_sleeping(PyObject *object, PyObject *) {
  std::vector<cuplug_sleeping> found;
  size_t count = 0;
  const auto read = [&](cuplug_allocator *core) {
    int answer;
    do {
      found.resize(count + 16);
      answer = cuplug_get_sleeping(core, found.data(), found.size(), &count);
    } while (answer == CUPLUG_OK && count > found.size());
    return answer;
  };
  return operated(object, read, [&] {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != nullptr && i < count; ++i) {
      const cuplug_sleeping &one = found[i];
      append(list, Py_BuildValue("KKKK", static_cast<unsigned long long>(one.tag),
                                 static_cast<unsigned long long>(one.blocks),
                                 static_cast<unsigned long long>(one.nbytes),
                                 static_cast<unsigned long long>(one.kept_bytes)));
    }
    return list;
  });
}

PyMethodDef tag_functions[] = {
    {"set_memory_tag", set_memory_tag, METH_O, nullptr},
    {"is_capturing", is_capturing, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace cuplug::python
