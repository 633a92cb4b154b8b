/* Replays of recorded histories in the core, over an upstream of the core's own without a device. */
#include "python_binding.h"

#include <vector>

namespace cuplug::python {

namespace {

/* replay(allocator, steps, sizes, streams, stop_at_failure): see cuplug_replay. The arrays are of 64-bit integers. */
PyObject *replay(PyObject *, PyObject *arguments) {
  PyObject *object;
  Py_buffer steps, sizes, streams;
  int stop;
  if (!PyArg_ParseTuple(arguments, "O!y*y*y*p:replay", &AllocatorType, &object, &steps, &sizes, &streams, &stop)) {
    return nullptr;
  }
  Allocator *self = reinterpret_cast<Allocator *>(object);
  const size_t count = static_cast<size_t>(steps.len) / sizeof(int64_t);
  const size_t allocations = static_cast<size_t>(sizes.len) / sizeof(uint64_t);
  const int64_t *taken = static_cast<const int64_t *>(steps.buf);
  bool fine = self->core != nullptr && !self->enters_python && streams.len == sizes.len;
  for (size_t i = 0; fine && i < count; ++i) {
    const int64_t number = taken[i] > 0 ? taken[i] : -taken[i];
    fine = number >= 1 && static_cast<uint64_t>(number) <= allocations;
  }
  PyObject *result = nullptr;
  if (!fine) {
    PyErr_SetString(PyExc_ValueError,
                    "replay takes an allocator over an upstream of the core's own, steps that number the allocations from "
                    "1, and a size and a stream for each of these");
  } else {
    cuplug_replay_result replayed;
    int answer;
    Py_BEGIN_ALLOW_THREADS;
    std::vector<cuplug_block *> blocks(allocations, nullptr);
    answer = cuplug_replay(self->core, taken, count, static_cast<const uint64_t *>(sizes.buf),
                           static_cast<const uint64_t *>(streams.buf), blocks.data(), stop, &replayed);
    Py_END_ALLOW_THREADS;
    result = Py_BuildValue("iKKK", answer, static_cast<unsigned long long>(replayed.done),
                           static_cast<unsigned long long>(replayed.out_of_memory),
                           static_cast<unsigned long long>(replayed.first_failure));
  }
  PyBuffer_Release(&steps);
  PyBuffer_Release(&sizes);
  PyBuffer_Release(&streams);
  return result;
}

/* The figures of an allocator's null upstream, by NullUpstream's names. */
PyObject *null_counts(PyObject *, PyObject *object) {
  cuplug_null_counts counts;
  if (!PyObject_TypeCheck(object, &AllocatorType) || !reinterpret_cast<Allocator *>(object)->over_null ||
      cuplug_null_upstream_counts(&reinterpret_cast<Allocator *>(object)->table, &counts) != CUPLUG_OK) {
    PyErr_SetString(PyExc_ValueError, "null_counts takes a native allocator over the core's null upstream");
    return nullptr;
  }
  return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsdsK}", "cuMemAlloc", counts.mem_alloc, "cuMemFree", counts.mem_free,
                       "cuMemAddressReserve", counts.mem_address_reserve, "cuMemAddressFree", counts.mem_address_free,
                       "cuMemCreate", counts.mem_create, "cuMemMap", counts.mem_map, "cuMemSetAccess",
                       counts.mem_set_access, "cuMemUnmap", counts.mem_unmap, "cuMemRelease", counts.mem_release, "fences",
                       counts.fences, "driver_time_us", counts.driver_time_us, "used_bytes", counts.used_bytes);
}

}  // namespace

PyMethodDef replay_functions[] = {
    {"replay", replay, METH_VARARGS,
     "replay(allocator, steps, sizes, streams, stop_at_failure)\n--\n\nThe core's answer, how many steps were taken, how "
     "many allocations failed, and the first step that did."},
    {"null_counts", null_counts, METH_O, "null_counts(allocator)\n--\n\nThe calls that a driver would have got."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace cuplug::python
