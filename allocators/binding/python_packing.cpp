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

/* search_packing(lower, upper, size, capacity, seconds, offsets) */
PyObject *search(PyObject *, PyObject *arguments) {
  using Clock = std::chrono::steady_clock;
  Columns columns;
  long long capacity;
  double seconds;
  if (!PyArg_ParseTuple(arguments, "y*y*y*Ldw*:search_packing", &columns.lower, &columns.upper, &columns.size, &capacity,
                        &seconds, &columns.offsets)) {
    return nullptr;
  }
  if (!columns.fit()) return refuse();
  Search answer = Search::GAVE_UP;
  bool raised = false;
  try {
    const std::vector<Buffer> buffers = columns.buffers();
    std::vector<int64_t> offsets;
    PyThreadState *state = PyEval_SaveThread();
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    auto next_look = Clock::now() + BETWEEN_SIGNALS;
    const GoesOn goes_on = [&] {
      const auto now = Clock::now();
      if (now >= next_look) {
        next_look = now + BETWEEN_SIGNALS;
        take_lock(state);
        raised = PyErr_CheckSignals() < 0;
        state = PyEval_SaveThread();
      }
      return !raised && now < end;
    };
    try {
      answer = search_packing(buffers, capacity, goes_on, &offsets);
    } catch (...) {
      take_lock(state);
      throw;
    }
    take_lock(state);
    if (answer == Search::FOUND) columns.answer(offsets);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  if (raised) return nullptr;
  if (answer == Search::GAVE_UP) Py_RETURN_NONE;
  return PyBool_FromLong(answer == Search::FOUND);
}

/* place_in_order(lower, upper, size, order, offsets) */
PyObject *place(PyObject *, PyObject *arguments) {
  Columns columns;
  if (!PyArg_ParseTuple(arguments, "y*y*y*y*w*:place_in_order", &columns.lower, &columns.upper, &columns.size,
                        &columns.order, &columns.offsets)) {
    return nullptr;
  }
  if (!columns.fit()) return refuse();
  try {
    const int64_t *first = static_cast<const int64_t *>(columns.order.buf);
    const std::vector<int64_t> order(first, first + static_cast<size_t>(columns.order.len) / sizeof(int64_t));
    for (int64_t number : order) {
      if (number < 0 || static_cast<size_t>(number) >= columns.count()) return refuse();
    }
    const std::vector<Buffer> buffers = columns.buffers();
    std::vector<int64_t> offsets = columns.given();
    int64_t highest = 0;
    PyThreadState *state = PyEval_SaveThread();
    try {
      highest = place_in_order(buffers, order, &offsets);
    } catch (...) {
      take_lock(state);
      throw;
    }
    take_lock(state);
    columns.answer(offsets);
    return PyLong_FromLongLong(highest);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
}

}  // namespace

PyMethodDef packing_functions[] = {
    {"search_packing", search, METH_VARARGS,
     "search_packing(lower, upper, size, capacity, seconds, offsets)\n--\n\nPlaces buffers within `capacity` and fills "
     "`offsets`: True; False if that cannot be; None if it was not found in `seconds`. The arrays are of 64-bit integers."},
    {"place_in_order", place, METH_VARARGS,
     "place_in_order(lower, upper, size, order, offsets)\n--\n\nPlaces the buffers whose offset is negative, in order, each "
     "as low as it can be. Returns the end of the highest."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace cuplug::python
