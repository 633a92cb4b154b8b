/* Allocation for libraries that take two C functions: malloc(size, device, stream) and free(pointer, size, device,
 * stream), as PyTorch's pluggable allocator does. They need no interpreter. */
#include "allocators/binding/python_binding.h"

#include <atomic>

#include <sys/types.h>

namespace cuplug::python {

namespace {

constexpr int MOST_DEVICES = 64;
std::atomic<cuplug_allocator *> published[MOST_DEVICES]; /* none of them is ever destroyed */

cuplug_allocator *on_device(int device) {
  return device < 0 || device >= MOST_DEVICES ? nullptr : published[device].load(std::memory_order_acquire);
}

extern "C" void *device_malloc(ssize_t nbytes, int device, void *stream) {
  cuplug_allocator *allocator = on_device(device);
  uint64_t address = 0;
  if (allocator == nullptr || nbytes <= 0) return nullptr;
  const int answer = cuplug_allocate_address(allocator, static_cast<uint64_t>(nbytes),
                                             reinterpret_cast<uint64_t>(stream), &address);
  return answer == CUPLUG_OK ? reinterpret_cast<void *>(address) : nullptr;
}

extern "C" void device_free(void *pointer, ssize_t, int device, void *) {
  cuplug_allocator *allocator = on_device(device);
  if (allocator != nullptr && pointer != nullptr) cuplug_free_address(allocator, reinterpret_cast<uint64_t>(pointer));
}

PyObject *publish(PyObject *, PyObject *arguments) {
  int device;
  unsigned long long handle;
  if (!PyArg_ParseTuple(arguments, "iK:publish", &device, &handle)) return nullptr;
  if (device < 0 || device >= MOST_DEVICES) {
    PyErr_Format(PyExc_ValueError, "device is %d; it must be at least 0 and below %d", device, MOST_DEVICES);
    return nullptr;
  }
  published[device].store(reinterpret_cast<cuplug_allocator *>(handle), std::memory_order_release);
  Py_RETURN_NONE;
}

PyObject *withdraw(PyObject *, PyObject *arguments) {
  int device;
  unsigned long long handle;
  if (!PyArg_ParseTuple(arguments, "iK:withdraw", &device, &handle)) return nullptr;
  cuplug_allocator *expected = reinterpret_cast<cuplug_allocator *>(handle);
  if (device >= 0 && device < MOST_DEVICES) published[device].compare_exchange_strong(expected, nullptr);
  Py_RETURN_NONE;
}

PyObject *function_pointers(PyObject *, PyObject *) {
  return Py_BuildValue("NN", PyLong_FromVoidPtr(reinterpret_cast<void *>(device_malloc)),
                       PyLong_FromVoidPtr(reinterpret_cast<void *>(device_free)));
}

PyMethodDef pointer_functions[] = {
    {"publish", publish, METH_VARARGS,
     "publish(device, handle)\n--\n\nWhat the two functions use for a device from now on: a core's handle."},
    {"withdraw", withdraw, METH_VARARGS,
     "withdraw(device, handle)\n--\n\nThe two functions use it no more; another one that was published since stays."},
    {"function_pointers", function_pointers, METH_NOARGS,
     "function_pointers()\n--\n\nThe addresses of malloc(size, device, stream) and free(pointer, size, device, stream)."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(pointer_functions);

}  // namespace

}  // namespace cuplug::python
