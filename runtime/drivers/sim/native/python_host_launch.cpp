/* HostLaunch: queues a Python function as a kernel of a simulated machine whose schedule is `eager`, which runs it at once.
 *
 * It does what `SimDriver.launch_host` does, by which everything is said, where nothing is unusual: no call was cut short
 * or is to fail, nothing waits to be taken out of a table, no memory is managed, the device has not failed, all addresses
 * are its own, and the function may run again, so that no signal has to wait for its end. Anything else it leaves to that.
 * It reads and writes the slots of the simulator's own objects, under the machine's lock (`Calls.lock`); signals arrive
 * only where it calls Python: to wait for the lock, to look at addresses, and in the function. */
#include "allocators/binding/python_binding.h"

#include <structmember.h>

#include <initializer_list>
#include <vector>

namespace cuplug::python {

namespace {

/* The slots that are used, by their places in the objects. */
struct Calls { Py_ssize_t lock, whole, used, forked, closed; };
struct Streams { Py_ssize_t host_us; };
struct Schedule { Py_ssize_t executed; };
struct Device { Py_ssize_t ordinal, memory, failure, reported, finished_us, legacy_finished_us, blocking_finished_us; };
struct Memory { Py_ssize_t start, middle, allocations; };
struct Allocations { Py_ssize_t sizes, starts; };
struct Stream { Py_ssize_t device, blocking, legacy, number, finished_us; };

/* What `HostLaunch` is given, by these names; each is kept. */
enum Given { PYTHON, CALLS, STREAMS, SCHEDULE, DEVICES, LEGACY, HANDLES, GIVEN_BACK, ABANDONED, FAULTS, MANAGED, IN_USE, LOG, CALL_US,
             PAUSING, COLLECTION, IS_FAILURE, DEVICE_TYPE, STREAM_TYPE, MEMORY_TYPE, ALLOCATIONS_TYPE, PARTS };
constexpr const char *PART_NAMES[PARTS] = {
    "python", "calls", "streams", "schedule", "devices", "legacy", "handles", "given_back", "abandoned", "faults", "managed", "in_use",
    "log", "call_us", "pausing", "collection", "is_failure", "device_type", "stream_type", "memory_type", "allocations_type"};

struct HostLaunch {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *parts[PARTS];
  Calls calls;
  Streams streams;
  Schedule schedule;
  Device device;
  Memory memory;
  Allocations allocations;
  Stream stream;
};

constexpr Py_ssize_t FIXED = 8; /* arguments of a launch before those of the function */

PyObject *name_acquire, *name_release, *name_append, *name_fault, *name_collected_before;

bool find_names() {
  name_acquire = PyUnicode_InternFromString("acquire");
  name_release = PyUnicode_InternFromString("release");
  name_append = PyUnicode_InternFromString("append");
  name_fault = PyUnicode_InternFromString("_fault");
  name_collected_before = PyUnicode_InternFromString("_collected_before");
  return !PyErr_Occurred();
}

PyObject *&slot(PyObject *object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(object) + offset);
}

void set(PyObject *object, Py_ssize_t offset, PyObject *value) { Py_XSETREF(slot(object, offset), Py_NewRef(value)); }

bool set_time(PyObject *object, Py_ssize_t offset, double time) {
  PyObject *made = PyFloat_FromDouble(time);
  if (made == nullptr) return false;
  Py_XSETREF(slot(object, offset), made);
  return true;
}

double time_in(PyObject *object, Py_ssize_t offset) { return PyFloat_AsDouble(slot(object, offset)); }

bool is_empty(PyObject *sized) { return PyObject_Size(sized) == 0; }

/* A whole number from 0 on; false, and no exception, if it is none. */
bool number(PyObject *given, unsigned long long *found) {
  if (given == nullptr || !PyLong_Check(given)) return false;
  *found = PyLong_AsUnsignedLongLong(given);
  if (*found != ~0ULL) return true;
  PyErr_Clear();
  return false;
}

/* The address and the bytes of a range; false if it is no pair of numbers. */
bool extent(PyObject *range, unsigned long long *address, unsigned long long *nbytes) {
  return PyTuple_Check(range) && PyTuple_GET_SIZE(range) == 2 && number(PyTuple_GET_ITEM(range, 0), address) &&
         number(PyTuple_GET_ITEM(range, 1), nbytes);
}

/* Whether a range is in one live allocation of the device: as `Allocations.fault`. */
bool is_allocated(const HostLaunch &self, PyObject *allocations, unsigned long long address, unsigned long long nbytes) {
  PyObject *starts = slot(allocations, self.allocations.starts), *sizes = slot(allocations, self.allocations.sizes);
  Py_ssize_t low = 0, high = PyList_GET_SIZE(starts);
  unsigned long long start, size;
  while (low < high) {
    const Py_ssize_t middle = (low + high) / 2;
    if (!number(PyList_GET_ITEM(starts, middle), &start)) return false;
    if (start <= address) low = middle + 1; else high = middle;
  }
  if (low == 0) return false;
  PyObject *first = PyList_GET_ITEM(starts, low - 1);
  return number(first, &start) && number(PyDict_GetItem(sizes, first), &size) && address - start <= size &&
         nbytes <= size - (address - start);
}

/* Whether the device may access all the ranges; -1 with an exception set. */
int may_access(const HostLaunch &self, PyObject *device, PyObject *ranges) {
  PyObject *memory = slot(device, self.device.memory);
  unsigned long long start, middle, address, nbytes;
  if (!number(slot(memory, self.memory.start), &start) || !number(slot(memory, self.memory.middle), &middle)) return 0;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ranges); ++i) {
    PyObject *range = PyTuple_GET_ITEM(ranges, i);
    if (!extent(range, &address, &nbytes)) return 0;
    if (start <= address && address < middle) {
      if (!is_allocated(self, slot(memory, self.memory.allocations), address, nbytes)) return 0;
      continue;
    }
    PyObject *asked[] = {device, PyTuple_GET_ITEM(range, 0), PyTuple_GET_ITEM(range, 1)};
    PyObject *fault = PyObject_VectorcallMethod(name_fault, asked, 3, nullptr);
    if (fault == nullptr) return -1;
    const bool is_none = fault == Py_None;
    Py_DECREF(fault);
    if (!is_none) return 0;
  }
  return 1;
}

/* Whether all are ranges, and none has a byte of the others. */
bool are_apart(PyObject *ranges, PyObject *others) {
  unsigned long long start, size, other, length;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ranges); ++i) {
    if (!extent(PyTuple_GET_ITEM(ranges, i), &start, &size)) return false;
    for (Py_ssize_t j = 0; j < PyTuple_GET_SIZE(others); ++j) {
      if (!extent(PyTuple_GET_ITEM(others, j), &other, &length)) return false;
      if (start < other + length && other < start + size) return false;
    }
  }
  return true;
}

/* The stream of a handle, borrowed; null, and no exception, where it is not one of the usual ones of the device. */
PyObject *stream_of(const HostLaunch &self, PyObject *handle, PyObject *device) {
  unsigned long long value;
  if (!number(handle, &value)) return nullptr;
  PyObject *found = value == 0 ? PyDict_GetItem(self.parts[LEGACY], device)
                    : value > 2 ? PyDict_GetItem(self.parts[HANDLES], handle) : nullptr;
  return found != nullptr && slot(found, self.stream.device) == device ? found : nullptr;
}

/* Runs the function, and lets the device fail where that raised what is its own fault. False with an exception set. */
bool run(const HostLaunch &self, PyObject *const *given, Py_ssize_t count, PyObject *device) {
  PyObject *done = PyObject_Vectorcall(given[0], given + FIXED, static_cast<size_t>(count - FIXED), nullptr);
  if (done != nullptr) {
    Py_DECREF(done);
    return true;
  }
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(error, traceback);
  std::vector<PyObject *> told = {error, device, given[4], given[0]};
  told.insert(told.end(), given + FIXED, given + count);
  done = PyObject_Vectorcall(self.parts[IS_FAILURE], told.data(), told.size(), nullptr);
  if (done == Py_False) PyErr_Restore(Py_NewRef(type), Py_NewRef(error), Py_XNewRef(traceback));
  const bool entered = done == Py_True;
  Py_XDECREF(done);
  Py_XDECREF(type);
  Py_XDECREF(error);
  Py_XDECREF(traceback);
  return entered;
}

/* Enters what was done in the clock and the log. False with an exception set. */
bool note(const HostLaunch &self, PyObject *device, PyObject *stream, PyObject *name, double submitted, double cost) {
  const bool legacy = slot(stream, self.stream.legacy) == Py_True, blocking = slot(stream, self.stream.blocking) == Py_True;
  double start = submitted;
  if (time_in(stream, self.stream.finished_us) > start) start = time_in(stream, self.stream.finished_us);
  if (blocking) {
    const double ordered = time_in(device, legacy ? self.device.blocking_finished_us : self.device.legacy_finished_us);
    if (ordered > start) start = ordered;
  }
  const double finished = start + cost;
  if (!set_time(stream, self.stream.finished_us, finished)) return false;
  if (finished > time_in(device, self.device.finished_us) && !set_time(device, self.device.finished_us, finished)) return false;
  if (legacy) {
    if (!set_time(device, self.device.legacy_finished_us, finished)) return false;
  } else if (blocking && finished > time_in(device, self.device.blocking_finished_us)) {
    if (!set_time(device, self.device.blocking_finished_us, finished)) return false;
  }
  unsigned long long executed;
  if (!number(slot(self.parts[SCHEDULE], self.schedule.executed), &executed)) return false;
  PyObject *count = PyLong_FromUnsignedLongLong(executed + 1);
  if (count == nullptr) return false;
  Py_XSETREF(slot(self.parts[SCHEDULE], self.schedule.executed), count);
  PyObject *entry = PyTuple_Pack(3, slot(device, self.device.ordinal), slot(stream, self.stream.number), name);
  if (entry == nullptr) return false;
  PyObject *told[] = {self.parts[LOG], entry};
  PyObject *entered = PyObject_VectorcallMethod(name_append, told, 2, nullptr);
  Py_DECREF(entry);
  Py_XDECREF(entered);
  return entered != nullptr;
}

enum class Outcome { done, unusual, raised };

/* A launch, under the lock. */
Outcome launch(const HostLaunch &self, PyObject *const *given, Py_ssize_t count, PyObject *device) {
  PyObject *calls = self.parts[CALLS], *streams = self.parts[STREAMS];
  for (Given part : {GIVEN_BACK, ABANDONED, FAULTS, MANAGED, IN_USE}) {
    if (!is_empty(self.parts[part])) return Outcome::unusual;
  }
  if (slot(calls, self.calls.forked) != Py_False || slot(calls, self.calls.closed) != Py_False ||
      slot(calls, self.calls.whole) != Py_True || slot(device, self.device.reported) != Py_False ||
      slot(device, self.device.failure) != Py_None) {
    return Outcome::unusual;
  }
  PyObject *stream = stream_of(self, given[1], device);
  if (stream == nullptr) return Outcome::unusual;
  set(calls, self.calls.used, Py_True);
  set(calls, self.calls.whole, Py_False);
  for (int which : {2, 3}) {
    const int may = may_access(self, device, given[which]);
    if (may < 0) return Outcome::raised;
    if (may == 0) {
      set(calls, self.calls.whole, Py_True);
      return Outcome::unusual;
    }
  }
  const double submitted = time_in(streams, self.streams.host_us) + PyFloat_AsDouble(self.parts[CALL_US]);
  Py_INCREF(stream); /* another thread may destroy it meanwhile */
  const bool ended = set_time(streams, self.streams.host_us, submitted) && run(self, given, count, device) &&
                     note(self, device, stream, given[4], submitted, PyFloat_AS_DOUBLE(given[6]));
  Py_DECREF(stream);
  if (!ended) return Outcome::raised;
  set(calls, self.calls.whole, Py_True);
  return Outcome::done;
}

/* launch(function, stream, reads, writes, name, device, cost_us, repeatable, *arguments) */
PyObject *call(PyObject *object, PyObject *const *given, size_t flags, PyObject *keywords) {
  const HostLaunch &self = *reinterpret_cast<HostLaunch *>(object);
  PyObject *calls = self.parts[CALLS], *pausing = self.parts[PAUSING], *collection = self.parts[COLLECTION];
  Outcome outcome = Outcome::unusual;
  PyObject *device = nullptr;
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (count >= FIXED && keywords == nullptr && PyTuple_Check(given[2]) && PyTuple_Check(given[3]) && given[7] == Py_True &&
      PyFloat_CheckExact(given[6]) && are_apart(given[2], given[3]) && slot(calls, self.calls.forked) == Py_False &&
      slot(calls, self.calls.closed) == Py_False) {
    device = PyDict_GetItem(self.parts[DEVICES], given[5]);
  }
  if (device != nullptr) {
    Py_INCREF(device);
    PyObject *lock = Py_NewRef(slot(calls, self.calls.lock)), *thread = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
    // Who stands there is inside a call, and may have this lock.
    if (thread != nullptr && PyDict_GetItem(pausing, thread) == nullptr && PyDict_SetItem(pausing, thread, calls) == 0) {
      if (PyGC_IsEnabled() != 0) {
        PyDict_SetItem(collection, name_collected_before, Py_True);
        PyGC_Disable();
      }
      PyObject *taken = PyObject_VectorcallMethod(name_acquire, &lock, 1, nullptr);
      outcome = taken == nullptr ? Outcome::raised : launch(self, given, count, device);
      PyObject *type, *error, *traceback;
      PyErr_Fetch(&type, &error, &traceback);
      if (taken != nullptr) Py_XDECREF(PyObject_VectorcallMethod(name_release, &lock, 1, nullptr));
      if (PyDict_GetItem(pausing, thread) != nullptr) PyDict_DelItem(pausing, thread);
      if (PyDict_GET_SIZE(pausing) == 0 && PyDict_GetItem(collection, name_collected_before) == Py_True) {
        PyDict_SetItem(collection, name_collected_before, Py_False);
        PyGC_Enable();
      }
      PyErr_Restore(type, error, traceback);
      Py_XDECREF(taken);
    }
    Py_XDECREF(thread);
    Py_DECREF(lock);
    Py_DECREF(device);
  }
  if (outcome == Outcome::done) Py_RETURN_NONE;
  if (outcome == Outcome::raised) return nullptr;
  PyErr_Clear();
  return PyObject_Vectorcall(self.parts[PYTHON], given, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

/* Where the slots `names` of a class are; false with an exception set. */
bool find_slots(PyObject *type, std::initializer_list<const char *> names, Py_ssize_t *places) {
  for (const char *name : names) {
    PyObject *found = PyObject_GetAttrString(type, name);
    if (found == nullptr) return false;
    const bool is_slot = PyObject_TypeCheck(found, &PyMemberDescr_Type);
    if (is_slot) *places++ = reinterpret_cast<PyMemberDescrObject *>(found)->d_member->offset;
    Py_DECREF(found);
    if (!is_slot) {
      PyErr_Format(PyExc_TypeError, "%s is no slot of %R", name, type);
      return false;
    }
  }
  return true;
}

/* Borrowed: each of the parts. False with an exception set. */
bool find_parts(PyObject *arguments, PyObject *named, PyObject **parts) {
  if (PyTuple_GET_SIZE(arguments) != 0 || named == nullptr || PyDict_GET_SIZE(named) != PARTS) {
    PyErr_Format(PyExc_TypeError, "HostLaunch takes %d parts by name", static_cast<int>(PARTS));
    return false;
  }
  for (int part = 0; part < PARTS; ++part) {
    parts[part] = PyDict_GetItemString(named, PART_NAMES[part]);
    if (parts[part] != nullptr) continue;
    PyErr_Format(PyExc_TypeError, "HostLaunch needs %s", PART_NAMES[part]);
    return false;
  }
  return true;
}

PyObject *new_launch(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  PyObject *parts[PARTS];
  PyObject *object = find_parts(arguments, named, parts) && find_names() ? type->tp_alloc(type, 0) : nullptr;
  if (object == nullptr) return nullptr;
  HostLaunch &self = *reinterpret_cast<HostLaunch *>(object);
  self.vectorcall = call;
  for (int part = 0; part < PARTS; ++part) self.parts[part] = Py_NewRef(parts[part]);
  PyObject *calls = reinterpret_cast<PyObject *>(Py_TYPE(self.parts[CALLS]));
  PyObject *streams = reinterpret_cast<PyObject *>(Py_TYPE(self.parts[STREAMS]));
  PyObject *schedule = reinterpret_cast<PyObject *>(Py_TYPE(self.parts[SCHEDULE]));
  const bool found =
      find_slots(calls, {"lock", "whole", "used", "forked", "closed"}, &self.calls.lock) &&
      find_slots(streams, {"host_us"}, &self.streams.host_us) &&
      find_slots(schedule, {"executed"}, &self.schedule.executed) &&
      find_slots(self.parts[DEVICE_TYPE],
                 {"ordinal", "memory", "failure", "reported", "finished_us", "legacy_finished_us", "blocking_finished_us"},
                 &self.device.ordinal) &&
      find_slots(self.parts[MEMORY_TYPE], {"start", "middle", "allocations"}, &self.memory.start) &&
      find_slots(self.parts[ALLOCATIONS_TYPE], {"sizes", "_starts"}, &self.allocations.sizes) &&
      find_slots(self.parts[STREAM_TYPE], {"device", "blocking", "legacy", "number", "finished_us"}, &self.stream.device);
  if (!found) Py_CLEAR(object);
  return object;
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  for (PyObject *part : reinterpret_cast<HostLaunch *>(object)->parts) Py_VISIT(part);
  return 0;
}

int clear(PyObject *object) {
  for (PyObject *&part : reinterpret_cast<HostLaunch *>(object)->parts) Py_CLEAR(part);
  return 0;
}

void deallocate(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject launch_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.HostLaunch";
  type.tp_basicsize = sizeof(HostLaunch);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc = "Queues Python functions as kernels of a simulated machine that runs them at once.";
  type.tp_new = new_launch;
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_call = PyVectorcall_Call;
  type.tp_vectorcall_offset = offsetof(HostLaunch, vectorcall);
  return type;
}

PyTypeObject LaunchType = launch_type();

PyMethodDef no_functions[] = {{nullptr, nullptr, 0, nullptr}};

Part part(no_functions, &LaunchType);

}  // namespace

}  // namespace cuplug::python
