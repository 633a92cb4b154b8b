/* Allocation for CuPy, whose CFunctionAllocator takes malloc(param, size, device) and free(param, pointer, device).
 *
 * CuPy calls them with the interpreter's lock held, and names no stream: the memory is for its current one, which a C
 * function of CuPy's tells. No Python runs where a block is at hand. What goes wrong is raised: malloc answers -1 with an
 * exception set, as CuPy's compiled callers expect (`cupy_probe` finds out whether they do). */
#include "allocators/binding/python_binding.h"

namespace cuplug::python {

namespace {

constexpr int MOST_DEVICES = 64;
constexpr intptr_t LEGACY = 1, PER_THREAD = 2; /* names of streams: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */

Allocator *served[MOST_DEVICES];       /* owned; null where CuPy is not served (any more) */
intptr_t (*current_stream)() = nullptr;
PyObject *own_stream = nullptr; /* asked for the calling thread's per-thread stream, as allocators know it */

void *failed() { return reinterpret_cast<void *>(intptr_t(-1)); }

/* CuPy's current stream, as allocators know it. -1 with an exception set. */
int find_stream(uint64_t *stream) {
  const intptr_t handle = current_stream();
  if (handle == -1 && PyErr_Occurred()) return -1;
  *stream = handle == LEGACY ? 0 : static_cast<uint64_t>(handle);
  if (handle != PER_THREAD) return 0;
  PyObject *key = PyObject_CallNoArgs(own_stream);
  if (key == nullptr) return -1;
  const int read = stream_of(key, stream);
  Py_DECREF(key);
  return read;
}

extern "C" void *cupy_malloc(void *, size_t nbytes, int device) {
  Allocator *allocator = device < 0 || device >= MOST_DEVICES ? nullptr : served[device];
  if (allocator == nullptr) {
    PyErr_Format(names.cuplug_error,
                 "CuPy's memory comes from cuplug, whose runtime was shut down, or does not know device %d", device);
    return failed();
  }
  uint64_t stream, address = 0;
  Py_INCREF(allocator); /* a hook may end the runtime */
  const bool made = find_stream(&stream) == 0 &&
                    allocate_address(allocator, nbytes, stream, CUPLUG_LIBRARY_CUPY, &address) == 0;
  Py_DECREF(allocator);
  return made ? reinterpret_cast<void *>(address) : failed();
}

extern "C" void cupy_free(void *, void *pointer, int device) {
  Allocator *allocator = device < 0 || device >= MOST_DEVICES ? nullptr : served[device];
  if (allocator == nullptr) return;
  PyObject *type, *value, *traceback; /* it may be called while an exception is on its way */
  PyErr_Fetch(&type, &value, &traceback);
  Py_INCREF(allocator);
  if (give_address_back(allocator, reinterpret_cast<uint64_t>(pointer)) < 0) PyErr_WriteUnraisable(nullptr);
  Py_DECREF(allocator);
  PyErr_Restore(type, value, traceback);
}

extern "C" void *raising_malloc(void *, size_t, int) {
  PyErr_SetString(PyExc_MemoryError, "a probe");
  return failed();
}

PyObject *publish(PyObject *, PyObject *arguments) {
  int device;
  PyObject *allocator;
  if (!PyArg_ParseTuple(arguments, "iO:cupy_publish", &device, &allocator)) return nullptr;
  if (device < 0 || device >= MOST_DEVICES) {
    return PyErr_Format(PyExc_ValueError, "device is %d; it must be at least 0 and below %d", device, MOST_DEVICES);
  }
  if (allocator != Py_None && !PyObject_TypeCheck(allocator, &AllocatorType)) {
    return PyErr_Format(PyExc_TypeError, "%R is not a native allocator", allocator);
  }
  Allocator *before = served[device];
  served[device] = allocator == Py_None ? nullptr : reinterpret_cast<Allocator *>(Py_NewRef(allocator));
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

PyObject *functions(PyObject *, PyObject *arguments) {
  PyObject *capsule, *key;
  const char *signature;
  if (!PyArg_ParseTuple(arguments, "OsO:cupy_functions", &capsule, &signature, &key)) return nullptr;
  void *found = PyCapsule_GetPointer(capsule, signature);
  if (found == nullptr) return nullptr;
  current_stream = reinterpret_cast<intptr_t (*)()>(found);
  PyObject *before = own_stream;
  own_stream = Py_NewRef(key);
  Py_XDECREF(before);
  return Py_BuildValue("NN", PyLong_FromVoidPtr(reinterpret_cast<void *>(cupy_malloc)),
                       PyLong_FromVoidPtr(reinterpret_cast<void *>(cupy_free)));
}

PyObject *probe(PyObject *, PyObject *) { return PyLong_FromVoidPtr(reinterpret_cast<void *>(raising_malloc)); }

PyMethodDef cupy_functions[] = {
    {"cupy_publish", publish, METH_VARARGS,
     "cupy_publish(device, allocator)\n--\n\nWhat CuPy allocates from on a device from now on; None for nothing."},
    {"cupy_functions", functions, METH_VARARGS,
     "cupy_functions(current_stream, signature, own_stream)\n--\n\nThe addresses of malloc and free for a "
     "CFunctionAllocator. `current_stream` is the capsule, of this signature, with CuPy's C function that tells the "
     "current stream's handle; `own_stream` is called for the calling thread's per-thread stream."},
    {"cupy_probe", probe, METH_NOARGS,
     "cupy_probe()\n--\n\nThe address of a malloc that always raises MemoryError."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(cupy_functions);

}  // namespace

}  // namespace cuplug::python
