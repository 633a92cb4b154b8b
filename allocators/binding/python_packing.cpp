/* Packing for Python: buffers are arrays of 64-bit integers. */
#include <chrono>
#include <vector>

#include "allocators/native/packing.h"
#include "python_binding.h"

namespace cuplug::python {

namespace {

constexpr auto BETWEEN_SIGNALS = std::chrono::milliseconds(50);

/* Arrays of 64-bit integers, equally long, held while they are used. */
struct Columns {
  Py_buffer lower{}, upper{}, size{}, order{}, offsets{};
  ~Columns() {
    for (Py_buffer *each : {&lower, &upper, &size, &order, &offsets}) PyBuffer_Release(each);
  }
  size_t count() const { return static_cast<size_t>(lower.len) / sizeof(int64_t); }
  bool fit() const { return upper.len == lower.len && size.len == lower.len && offsets.len == lower.len; }
  std::vector<Buffer> buffers() const {
    std::vector<Buffer> made(count());
    for (size_t i = 0; i < made.size(); ++i) made[i] = {at(lower, i), at(upper, i), at(size, i)};
    return made;
  }
  static int64_t at(const Py_buffer &column, size_t place) { return static_cast<const int64_t *>(column.buf)[place]; }
  std::vector<int64_t> given() const {
    const int64_t *first = static_cast<const int64_t *>(offsets.buf);
    return std::vector<int64_t>(first, first + count());
  }
  void answer(const std::vector<int64_t> &found) const {
    std::copy(found.begin(), found.end(), static_cast<int64_t *>(offsets.buf));
  }
};

PyObject *refuse() {
  PyErr_SetString(PyExc_ValueError, "the arrays differ in length, or the order names a buffer that is not there");
  return nullptr;
}

/* What `work` returns; null with MemoryError where the host has no more memory. */
template <class Work>
PyObject *guarded(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
}

/* Runs `work` without the interpreter's lock, and hands it what tells whether to go on: until the time is over or a signal
 * raised something. -1 with an exception set. */
template <class Work>
int run_for(double seconds, Work work) {
  using Clock = std::chrono::steady_clock;
  bool raised = false;
  PyThreadState *state = PyEval_SaveThread();
  const auto begin = Clock::now();
  auto next_look = begin + BETWEEN_SIGNALS;
  const GoesOn goes_on = [&] {
    const auto now = Clock::now();
    if (now >= next_look) {
      next_look = now + BETWEEN_SIGNALS;
      take_lock(state);
      raised = PyErr_CheckSignals() < 0;
      state = PyEval_SaveThread();
    }
    return !raised && std::chrono::duration<double>(now - begin).count() < seconds;
  };
  try {
    work(goes_on);
  } catch (...) {
    take_lock(state);
    throw;
  }
  take_lock(state);
  return raised ? -1 : 0;
}

/* search_packing(lower, upper, size, capacity, seconds, offsets) */
PyObject *search(PyObject *, PyObject *arguments) {
  Columns columns;
  long long capacity;
  double seconds;
  if (!PyArg_ParseTuple(arguments, "y*y*y*Ldw*:search_packing", &columns.lower, &columns.upper, &columns.size, &capacity,
                        &seconds, &columns.offsets)) {
    return nullptr;
  }
  if (!columns.fit()) return refuse();
  return guarded([&]() -> PyObject * {
    Search answer = Search::GAVE_UP;
    const std::vector<Buffer> buffers = columns.buffers();
    std::vector<int64_t> offsets;
    const auto work = [&](const GoesOn &goes_on) { answer = search_packing(buffers, capacity, goes_on, &offsets); };
    if (run_for(seconds, work) < 0) return nullptr;
    if (answer == Search::FOUND) columns.answer(offsets);
    if (answer == Search::GAVE_UP) Py_RETURN_NONE;
    return PyBool_FromLong(answer == Search::FOUND);
  });
}

/* place_in_order(lower, upper, size, order, seconds, offsets) */
PyObject *place(PyObject *, PyObject *arguments) {
  Columns columns;
  double seconds;
  if (!PyArg_ParseTuple(arguments, "y*y*y*y*dw*:place_in_order", &columns.lower, &columns.upper, &columns.size,
                        &columns.order, &seconds, &columns.offsets)) {
    return nullptr;
  }
  if (!columns.fit()) return refuse();
  return guarded([&]() -> PyObject * {
    const int64_t *first = static_cast<const int64_t *>(columns.order.buf);
    const std::vector<int64_t> order(first, first + static_cast<size_t>(columns.order.len) / sizeof(int64_t));
    for (int64_t number : order) {
      if (number < 0 || static_cast<size_t>(number) >= columns.count()) return refuse();
    }
    const std::vector<Buffer> buffers = columns.buffers();
    std::vector<int64_t> offsets = columns.given();
    int64_t highest = 0;
    const auto work = [&](const GoesOn &goes_on) { highest = place_in_order(buffers, order, &offsets, goes_on); };
    if (run_for(seconds, work) < 0) return nullptr;
    if (highest < 0) Py_RETURN_NONE;
    columns.answer(offsets);
    return PyLong_FromLongLong(highest);
  });
}

/* load_peak(lower, upper, size) */
PyObject *measure(PyObject *, PyObject *arguments) {
  Columns columns;
  if (!PyArg_ParseTuple(arguments, "y*y*y*:load_peak", &columns.lower, &columns.upper, &columns.size)) return nullptr;
  if (columns.upper.len != columns.lower.len || columns.size.len != columns.lower.len) return refuse();
  return guarded([&]() -> PyObject * { return PyLong_FromLongLong(load_peak(columns.buffers())); });
}

/* place_in_time(lower, upper, size, offsets) */
PyObject *place_by_begin(PyObject *, PyObject *arguments) {
  Columns columns;
  if (!PyArg_ParseTuple(arguments, "y*y*y*w*:place_in_time", &columns.lower, &columns.upper, &columns.size,
                        &columns.offsets)) {
    return nullptr;
  }
  if (!columns.fit()) return refuse();
  return guarded([&]() -> PyObject * {
    const std::vector<Buffer> buffers = columns.buffers();
    std::vector<int64_t> offsets(buffers.size());
    const int64_t highest = place_in_time(buffers, &offsets);
    columns.answer(offsets);
    return PyLong_FromLongLong(highest);
  });
}

}  // namespace

PyMethodDef packing_functions[] = {
    {"search_packing", search, METH_VARARGS,
     "search_packing(lower, upper, size, capacity, seconds, offsets)\n--\n\nPlaces buffers within `capacity` and fills "
     "`offsets`: True; False if that cannot be; None if it was not found in `seconds`. The arrays are of 64-bit integers."},
    {"place_in_order", place, METH_VARARGS,
     "place_in_order(lower, upper, size, order, seconds, offsets)\n--\n\nPlaces the buffers whose offset is negative, in "
     "order, each as low as it can be. Returns the end of the highest, or None after `seconds`."},
    {"load_peak", measure, METH_VARARGS,
     "load_peak(lower, upper, size)\n--\n\nThe most bytes that live at once."},
    {"place_in_time", place_by_begin, METH_VARARGS,
     "place_in_time(lower, upper, size, offsets)\n--\n\nPlaces the buffers in the order of their begins, each in the "
     "smallest gap that it fits into. Returns the end of the highest."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace cuplug::python
