/* Replays of recorded histories in the core, over an upstream of the core's own without a device. */
#include "allocators/binding/python_binding.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "allocators/native/policy.h"

namespace cuplug::python {

namespace {

constexpr size_t STEPS_AT_ONCE = 1 << 16; /* between two looks at signals */

/* The arrays of a replay, held while it runs. */
struct Arrays {
  Py_buffer steps{}, sizes{}, streams{}, reserved{};
  PyThreadState *own = state_in_force();
  ~Arrays() {
    stay_if_ended(own);
    for (Py_buffer *each : {&steps, &sizes, &streams, &reserved}) PyBuffer_Release(each);
  }
  /* Whether every step is about an allocation that has a size and a stream. */
  bool fit() const {
    const size_t allocations = static_cast<size_t>(sizes.len) / sizeof(uint64_t);
    const int64_t *taken = static_cast<const int64_t *>(steps.buf);
    if (streams.len != sizes.len || (reserved.obj != nullptr && reserved.len != steps.len)) return false;
    for (size_t i = 0; i < count(); ++i) {
      if (taken[i] < CUPLUG_LIMITS) continue;
      const uint64_t number = static_cast<uint64_t>(taken[i] > 0 ? taken[i] : -taken[i]);
      if (number > allocations) return false;
    }
    return true;
  }
  size_t count() const { return static_cast<size_t>(steps.len) / sizeof(int64_t); }
};

/* Takes the steps from `first` to `end`, as cuplug_replay; notes after each what is reserved, where that is asked for. */
int take_steps(Allocator *self, const Arrays &arrays, size_t first, size_t end, cuplug_block **blocks, int stop,
               cuplug_replay_result *result) {
  const int64_t *steps = static_cast<const int64_t *>(arrays.steps.buf);
  const uint64_t *sizes = static_cast<const uint64_t *>(arrays.sizes.buf);
  const uint64_t *streams = static_cast<const uint64_t *>(arrays.streams.buf);
  if (arrays.reserved.obj == nullptr) {
    return cuplug_replay(self->core, steps + first, end - first, sizes, streams, blocks, stop, result);
  }
  int64_t *reserved = static_cast<int64_t *>(arrays.reserved.buf);
  cuplug_replay_result whole{};
  int answer = CUPLUG_OK;
  for (size_t at = first; at < end && answer == CUPLUG_OK; ++at) {
    cuplug_replay_result one;
    answer = cuplug_replay(self->core, steps + at, 1, sizes, streams, blocks, stop, &one);
    if (one.out_of_memory != 0 && whole.out_of_memory++ == 0) {
      whole.first_failure = at - first;
      whole.shortage = one.shortage;
    }
    whole.done += one.done;
    cuplug_statistics settled; /* a free takes effect at the next operation */
    cuplug_get_statistics(self->core, &settled);
    cuplug_null_counts counts;
    cuplug_null_upstream_counts(&self->table, &counts);
    reserved[at] = static_cast<int64_t>(counts.used_bytes);
  }
  *result = whole;
  return answer;
}

/* replay(allocator, steps, sizes, streams, stop_at_failure, progress, reserved, setup=0): see cuplug_replay. */
PyObject *replay(PyObject *, PyObject *arguments) {
  PyObject *object, *progress, *reserved;
  Arrays arrays;
  int stop;
  unsigned long long setup = 0;
  if (!PyArg_ParseTuple(arguments, "O!y*y*y*pOO|K:replay", &AllocatorType, &object, &arrays.steps, &arrays.sizes,
                        &arrays.streams, &stop, &progress, &reserved, &setup)) {
    return nullptr;
  }
  if (reserved != Py_None && PyObject_GetBuffer(reserved, &arrays.reserved, PyBUF_WRITABLE) < 0) return nullptr;
  Allocator *self = reinterpret_cast<Allocator *>(object);
  if (self->core == nullptr || !self->over_null || !arrays.fit()) {
    PyErr_SetString(PyExc_ValueError,
                    "replay takes an allocator over an upstream of the core's own, steps that number the allocations from "
                    "1 (0 empties the cache), and a size and a stream for each of these");
    return nullptr;
  }
  std::vector<cuplug_block *> blocks;
  try {
    blocks.assign(static_cast<size_t>(arrays.sizes.len) / sizeof(uint64_t), nullptr);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  cuplug_replay_result whole{};
  int answer = CUPLUG_OK;
  for (size_t first = 0, end = 0; first < arrays.count() && answer == CUPLUG_OK; first = end) {
    end = std::min(first + STEPS_AT_ONCE, arrays.count());
    if (first < setup) end = std::min(end, static_cast<size_t>(setup)); /* progress is told when the setup is done */
    cuplug_replay_result part;
    PyThreadState *saved = PyEval_SaveThread();
    answer = take_steps(self, arrays, first, end, blocks.data(), stop, &part);
    take_lock(saved);
    if (part.out_of_memory != 0 && whole.out_of_memory == 0) {
      whole.first_failure = first + part.first_failure;
      whole.shortage = part.shortage;
    }
    whole.out_of_memory += part.out_of_memory;
    whole.done += part.done;
    if (PyErr_CheckSignals() < 0) return nullptr;
    PyObject *told = progress == Py_None ? Py_NewRef(Py_None) : PyObject_CallFunction(progress, "n", end - first);
    if (told == nullptr) return nullptr;
    Py_DECREF(told);
  }
  const cuplug_shortage &shortage = whole.shortage;
  return Py_BuildValue("iKKK(KKKKKKKKK)", answer, static_cast<unsigned long long>(whole.done),
                       static_cast<unsigned long long>(whole.out_of_memory),
                       static_cast<unsigned long long>(whole.first_failure), shortage.requested, shortage.stream,
                       shortage.free_bytes, shortage.total_bytes, shortage.allocated_bytes, shortage.requested_bytes,
                       shortage.reserved_bytes, shortage.largest_free, shortage.lost_bytes);
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

/* set_figure(name, value): one of constants.def is another from here on, to measure what it is worth. */
PyObject *set_figure(PyObject *, PyObject *arguments) {
  const char *asked;
  unsigned long long figure;
  if (!PyArg_ParseTuple(arguments, "sK:set_figure", &asked, &figure)) return nullptr;
#define FIGURE(strategy, name, value, unit, without, meaning) \
  if (std::strcmp(asked, #name) == 0) {                       \
    policy::name = figure;                                    \
    Py_RETURN_NONE;                                           \
  }
#include "allocators/native/constants.def"
#undef FIGURE
  return PyErr_Format(PyExc_ValueError, "there is no figure %s", asked);
}

PyMethodDef replay_functions[] = {
    {"replay", replay, METH_VARARGS,
     "replay(allocator, steps, sizes, streams, stop_at_failure, progress, reserved, setup=0)\n--\n\nTakes the steps of a history on "
     "an allocator over the core's null upstream. The arrays are of 64-bit integers. `progress` is None, or called now and "
     "then with how many more steps were taken; `reserved` is None, or an array of a place for each step, for the bytes "
     "that are reserved after it; `progress` is called, among others, after the first `setup` steps. Returns the core's answer, how many steps were taken, how many allocations failed, the "
     "first step that did, and what was short then (the arguments of _out_of_memory_message)."},
    {"set_figure", set_figure, METH_VARARGS,
     "set_figure(name, value)\n--\n\nGives a figure of the strategies another value, in bytes where it is a size, for allocators to "
     "come. Only for measurements, in a process of their own."},
    {"null_counts", null_counts, METH_O, "null_counts(allocator)\n--\n\nThe calls that a driver would have got."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(replay_functions);

}  // namespace

}  // namespace cuplug::python
