/* Times allocations of threads that know no interpreter, for benchmarks: as another library's threads allocate. */
#include "allocators/binding/python_binding.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace cuplug::python {

namespace {

using Clock = std::chrono::steady_clock;

uint64_t since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

/* One thread's part: allocations of the sizes in turn, of which the last `held` are kept; what each took. */
void work(cuplug_allocator *allocator, const std::vector<uint64_t> &sizes, uint64_t stream, size_t calls, size_t held,
          size_t evicted, std::vector<uint64_t> &times, std::atomic<bool> &failed) {
  std::vector<unsigned char> memory(evicted, 1);
  std::vector<uint64_t> addresses(held, 0);
  times.reserve(calls);
  for (size_t i = 0; i < calls; ++i) {
    for (size_t at = 0; at < evicted; at += 64) ++memory[at];
    uint64_t &address = addresses[i % held];
    const Clock::time_point start = Clock::now();
    if (address != 0) cuplug_free_address(allocator, address);
    if (cuplug_allocate_address(allocator, sizes[i % sizes.size()], stream, &address) != CUPLUG_OK) {
      address = 0;
      failed = true;
    }
    times.push_back(since(start));
  }
  for (uint64_t address : addresses) cuplug_free_address(allocator, address);
}

PyObject *time_threads(PyObject *, PyObject *arguments) {
  unsigned long long handle;
  PyObject *list;
  Py_ssize_t threads, calls, held, evicted;
  if (!PyArg_ParseTuple(arguments, "KO!nnnn:time_threads", &handle, &PyList_Type, &list, &threads, &calls, &held,
                        &evicted)) {
    return nullptr;
  }
  std::vector<uint64_t> sizes;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    uint64_t nbytes;
    if (size_of(PyList_GET_ITEM(list, i), &nbytes) < 0) return nullptr;
    sizes.push_back(nbytes);
  }
  if (sizes.empty() || threads < 1 || calls < 0 || held < 1 || evicted < 0) {
    PyErr_SetString(PyExc_ValueError, "time_threads needs sizes, a thread or more, and a block or more to hold");
    return nullptr;
  }
  std::vector<std::vector<uint64_t>> times(static_cast<size_t>(threads));
  std::atomic<bool> failed{false};
  PyThreadState *saved = PyEval_SaveThread();
  std::vector<std::thread> running;
  for (Py_ssize_t i = 0; i < threads; ++i) {
    running.emplace_back(work, reinterpret_cast<cuplug_allocator *>(handle), std::cref(sizes), uint64_t{0},
                         static_cast<size_t>(calls), static_cast<size_t>(held), static_cast<size_t>(evicted),
                         std::ref(times[static_cast<size_t>(i)]), std::ref(failed));
  }
  for (std::thread &thread : running) thread.join();
  take_lock(saved);
  if (failed) {
    PyErr_SetString(names.out_of_memory_error, "an allocation of a timed thread failed");
    return nullptr;
  }
  PyObject *result = PyList_New(0);
  for (const std::vector<uint64_t> &own : times) {
    for (uint64_t time : own) {
      PyObject *number = PyLong_FromUnsignedLongLong(time);
      if (result != nullptr && (number == nullptr || PyList_Append(result, number) < 0)) Py_CLEAR(result);
      Py_XDECREF(number);
    }
  }
  return result;
}

PyMethodDef timing_functions[] = {
    {"time_threads", time_threads, METH_VARARGS,
     "time_threads(handle, sizes, threads, calls, held, evicted)\n--\n\nNanoseconds of each free and allocation of C "
     "threads, which touch `evicted` bytes before each."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(timing_functions);

}  // namespace

}  // namespace cuplug::python
