/* What the core's answers mean, as exceptions of Python's. */
#include "python_binding.h"

#include <unistd.h>

namespace cuplug::python {

namespace {

void raise_closed(Allocator *self) {
  PyObject *exiting = PyImport_ImportModule("cuplug.allocators.exiting"); /* it is there: who closes has imported it */
  PyObject *waited = exiting == nullptr ? nullptr : PyObject_CallMethod(exiting, "wait_if_exiting", nullptr);
  Py_XDECREF(exiting);
  Py_XDECREF(waited);
  PyErr_Clear();
  if (self->closed != nullptr) {
    PyErr_Format(names.cuplug_error, "this allocator cannot be used: %U", self->closed);
  } else if (self->process != getpid()) { /* by C: Python's own forks abandon it with a reason */
    PyErr_SetString(names.cuplug_error,
                    "this allocator cannot be used: the process was forked after its first use of CUDA; start workers "
                    "with multiprocessing's 'spawn' or 'forkserver' method, or fork before the first use");
  } else {
    PyErr_SetString(names.cuplug_error, "this allocator cannot be used: it was closed");
  }
}

/* Raises what a call of the CUDA driver has failed with: its upstream knows the names of the results. */
void raise_driver_error(Allocator *self) {
  PyObject *error = PyObject_CallMethod(self->upstream, "native_error", "i", cuplug_cuda_last_result());
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

}  // namespace

void raise_reentered() {
  PyErr_SetString(names.cuplug_error,
                  "an allocator was used from a finaliser, or from an observer, while the same thread was inside it; "
                  "there, only free() may be called");
}

int raise_answer(Allocator *self, int answer, Operation &operation) {
  if (operation.raise()) return -1;
  switch (answer) {
    case CUPLUG_FAILED:
      if (self->enters_python) {
        PyErr_SetString(names.cuplug_error, "a call upstream failed");
      } else {
        raise_driver_error(self);
      }
      break;
    case CUPLUG_CLOSED: raise_closed(self); break;
    case CUPLUG_REENTERED: raise_reentered(); break;
    case CUPLUG_NO_HOST_MEMORY: PyErr_NoMemory(); break;
    case CUPLUG_NOT_SUPPORTED: {
      PyObject *error = PyObject_CallFunction(names.driver_error, "iss", 801, "CUDA_ERROR_NOT_SUPPORTED",
                                              "the allocator expandable needs virtual memory, which this device lacks; "
                                              "the allocator caching does without");
      if (error != nullptr) PyErr_SetObject(names.driver_error, error);
      Py_XDECREF(error);
      break;
    }
    case CUPLUG_ASLEEP:
      raise_told(self, names.cuplug_error, "_why_asleep", "K", cuplug_memory_tag() & CUPLUG_MOST_TAGS);
      break;
    case CUPLUG_INVALID: PyErr_SetString(PyExc_ValueError, cuplug_last_error()); break;
    default: PyErr_Format(names.cuplug_error, "the native core answered %d: %s", answer, cuplug_last_error());
  }
  return -1;
}

int raise_out_of_memory(Allocator *self) {
  cuplug_shortage shortage;
  cuplug_get_shortage(&shortage);
  raise_told(self, names.out_of_memory_error, "_out_of_memory_message", "KKKKKKKKK", shortage.requested, shortage.stream,
             shortage.free_bytes, shortage.total_bytes, shortage.allocated_bytes, shortage.requested_bytes,
             shortage.reserved_bytes, shortage.largest_free, shortage.lost_bytes);
  return -1;
}

}  // namespace cuplug::python
