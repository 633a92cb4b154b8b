/* Upstreams that are objects of Python: the core's table of functions, answered by their methods.
 *
 * The core calls these with its mutex held and without the interpreter's lock. What Python raises is kept with the
 * operation (python_binding.h: Operation) and raised by it once it has ended. An exception that is not cuplug's own, such
 * as KeyboardInterrupt, counts as a failure of the call; then nothing more is taken from upstream.
 */
#include "python_binding.h"

namespace cuplug::python {

namespace {

Allocator *allocator_of(void *context) { return static_cast<Allocator *>(context); }

/* Keeps what a call of Python has raised, whatever it is, for the operation. */
int kept_failure(Allocator *self) {
  if (Operation *operation = Operation::find(self)) {
    operation->keep_exception();
  } else {
    PyErr_Clear(); /* a caller in C: the answer is all that it gets */
  }
  return CUPLUG_FAILED;
}

/* The same, but that a want of memory is an answer of its own. */
int failure(Allocator *self) {
  if (!PyErr_ExceptionMatches(names.out_of_memory_error)) return kept_failure(self);
  PyErr_Clear();
  return CUPLUG_OUT_OF_MEMORY;
}

bool interrupted(Allocator *self) {
  Operation *operation = Operation::find(self);
  return operation != nullptr && operation->interrupted;
}

/* Calls `object(numbers...)`, */
template <typename... Numbers>
PyObject *call_object(PyObject *object, Numbers... numbers) {
  PyObject *arguments[sizeof...(numbers) + 1] = {PyLong_FromUnsignedLongLong(numbers)..., nullptr};
  PyObject *result = nullptr;
  bool made = true;
  for (size_t i = 0; i < sizeof...(numbers); ++i) made = made && arguments[i] != nullptr;
  if (made) result = PyObject_Vectorcall(object, arguments, sizeof...(numbers), nullptr);
  for (size_t i = 0; i < sizeof...(numbers); ++i) Py_XDECREF(arguments[i]);
  return result;
}

/* and `object.name(numbers...)`. */
template <typename... Numbers>
PyObject *call(PyObject *object, const char *name, Numbers... numbers) {
  PyObject *method = PyObject_GetAttrString(object, name);
  PyObject *result = method == nullptr ? nullptr : call_object(method, numbers...);
  Py_XDECREF(method);
  return result;
}

int finish(Allocator *self, PyObject *result) {
  if (result == nullptr) return failure(self);
  Py_DECREF(result);
  return CUPLUG_OK;
}

int finish(Allocator *self, PyObject *result, uint64_t *number) {
  if (result == nullptr) return failure(self);
  PyObject *index = PyNumber_Index(result);
  Py_DECREF(result);
  if (index != nullptr) {
    *number = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
  }
  return PyErr_Occurred() != nullptr ? failure(self) : CUPLUG_OK;
}

template <typename... Numbers>
PyObject *call_virtual(Allocator *self, const char *name, Numbers... numbers) {
  PyObject *memory = PyObject_GetAttrString(self->upstream, "virtual");
  if (memory == nullptr) return nullptr;
  PyObject *result = call(memory, name, numbers...);
  Py_DECREF(memory);
  return result;
}

/* What `work` answers with the interpreter's lock held; at the interpreter's end a failure. */
template <typename Work>
int in_python(void *context, Work work) {
  if (is_finalising()) return CUPLUG_FAILED;
  Entered entered;
  return work(allocator_of(context));
}

/* A call that gives something back. An interrupt is kept for the operation's end, and the call is made again, also where
 * more interrupts come: it has changed nothing, and what undoes an operation that failed must not end halfway. */
template <typename Call>
int give(Allocator *self, Call call) {
  constexpr int MOST = 100; /* where every call raises, upstream is broken, and not the program interrupted */
  PyObject *result = call();
  for (int tries = 1; tries < MOST && result == nullptr && !PyErr_ExceptionMatches(names.cuplug_error); ++tries) {
    failure(self);
    result = call();
  }
  return finish(self, result);
}

/* --- memory */

int reserve(void *context, uint64_t nbytes, uint64_t *address) {
  return in_python(context, [&](Allocator *self) {
    return interrupted(self) ? int(CUPLUG_FAILED) : finish(self, call(self->upstream, "reserve", nbytes), address);
  });
}

int release(void *context, uint64_t address) {
  return in_python(context, [&](Allocator *self) {
    return give(self, [&] { return call(self->upstream, "release", address); });
  });
}

int memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes) {
  return in_python(context, [&](Allocator *self) {
    PyObject *pair = call(self->upstream, "memory_info");
    if (pair == nullptr) return failure(self);
    unsigned long long available = 0, total = 0;
    PyObject *sequence = PySequence_Tuple(pair);
    Py_DECREF(pair);
    const bool read = sequence != nullptr && PyArg_ParseTuple(sequence, "KK", &available, &total);
    Py_XDECREF(sequence);
    if (!read) return failure(self);
    *free_bytes = available;
    *total_bytes = total;
    return int(CUPLUG_OK);
  });
}

/* --- fences. One is an object with done() and wait(), of which the core holds a reference. */

/* As `failure`, where no answer but this is one. */
int failed(Allocator *self) {
  failure(self);
  return CUPLUG_FAILED;
}

int fence(void *context, uint64_t stream, void **made) {
  return in_python(context, [&](Allocator *self) {
    PyObject *fence = call(self->upstream, "fence", stream);
    if (fence == nullptr) return failed(self); /* a free's is made later by the core, also after an interrupt */
    *made = fence;
    return int(CUPLUG_OK);
  });
}

int fence_done(void *context, void *fence, int *done) {
  *done = 0;
  if (is_finalising()) return CUPLUG_OK;
  return in_python(context, [&](Allocator *self) {
    PyObject *result = call(static_cast<PyObject *>(fence), "done");
    const int passed = result == nullptr ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    *done = passed > 0;
    return passed < 0 ? failed(self) : int(CUPLUG_OK);
  });
}

int fence_wait(void *context, void *fence) {
  return in_python(context, [&](Allocator *self) {
    return finish(self, call(static_cast<PyObject *>(fence), "wait")) == CUPLUG_OK ? CUPLUG_OK : CUPLUG_FAILED;
  });
}

/* Lets go of a fence, or of a copy. */
void drop(void *, void *object) {
  if (is_finalising()) return; /* it goes with the process */
  Entered entered;
  Py_DECREF(static_cast<PyObject *>(object));
}

/* --- pages: the methods of `upstream.virtual` with these names */

constexpr char RESERVE_RANGE[] = "reserve_range", FREE_RANGE[] = "free_range", CREATE_PAGE[] = "create_page",
               CREATE_HOST_PAGE[] = "create_host_page", RELEASE_PAGE[] = "release_page", MAP[] = "map",
               SET_ACCESS[] = "set_access", UNMAP[] = "unmap";

template <const char *NAME>
int taken(void *context, uint64_t nbytes, uint64_t *made) {
  return in_python(context, [&](Allocator *self) {
    return interrupted(self) ? int(CUPLUG_FAILED) : finish(self, call_virtual(self, NAME, nbytes), made);
  });
}

template <const char *NAME, typename... Numbers>
int given(void *context, Numbers... numbers) {
  return in_python(context, [&](Allocator *self) {
    return give(self, [&] { return call_virtual(self, NAME, numbers...); });
  });
}

template <const char *NAME, typename... Numbers>
int done(void *context, Numbers... numbers) {
  return in_python(context, [&](Allocator *self) { return finish(self, call_virtual(self, NAME, numbers...)); });
}

int read_size(PyObject *object, const char *name, uint64_t *nbytes) {
  PyObject *value = PyObject_GetAttrString(object, name);
  if (value == nullptr) return -1;
  const int read = size_of(value, nbytes);
  Py_DECREF(value);
  return read;
}

/* --- contents on the host: a copy is an object with restore() and wait() (allocators/sleeping.py) */

/* As `finish`, but what was raised is kept, whatever it is: the host's want of memory says more than the device's. */
int finish_keeping(Allocator *self, PyObject *result) {
  Py_XDECREF(result);
  return result == nullptr ? kept_failure(self) : CUPLUG_OK;
}

/* The operation under way, whose `keep` is to be called; null where there is none, or it was interrupted. */
Operation *keeping(Allocator *self) {
  Operation *operation = Operation::find(self);
  return operation == nullptr || operation->keep == nullptr || operation->interrupted ? nullptr : operation;
}

int save(void *context, uint64_t address, uint64_t nbytes, void **copy) {
  return in_python(context, [&](Allocator *self) {
    Operation *operation = keeping(self);
    if (operation == nullptr) return int(CUPLUG_FAILED);
    *copy = call_object(operation->keep, address, nbytes);
    return *copy == nullptr ? kept_failure(self) : int(CUPLUG_OK);
  });
}

int call_copy(void *context, void *copy, const char *name) {
  return in_python(context, [&](Allocator *self) {
    return finish_keeping(self, PyObject_CallMethod(static_cast<PyObject *>(copy), name, nullptr));
  });
}

int restore(void *context, void *copy) { return call_copy(context, copy, "restore"); }

int wait(void *context, void *copy) { return call_copy(context, copy, "wait"); }

/* --- contents that move: a copier is an object with copy(to, source, nbytes) and wait() (allocators/moving.py) */

int copy(void *context, uint64_t to, uint64_t source, uint64_t nbytes) {
  return in_python(context, [&](Allocator *self) {
    Operation *operation = keeping(self);
    if (operation == nullptr) return int(CUPLUG_FAILED);
    return finish_keeping(self, call(operation->keep, "copy", to, source, nbytes));
  });
}

int wait_for_copies(void *context) {
  return in_python(context, [&](Allocator *self) {
    Operation *operation = Operation::find(self);
    const bool any = operation != nullptr && operation->keep != nullptr;
    return any ? call_copy(context, operation->keep, "wait") : CUPLUG_FAILED;
  });
}

/* --- a CUDA device: the core's own functions, in which no Python is entered */

int make_cuda_upstream(Allocator *self, long ordinal) {
  const int answer = cuplug_cuda_upstream(static_cast<int>(ordinal), &self->table);
  if (answer != CUPLUG_OK) {
    PyErr_Format(names.cuplug_error, "the native core cannot use the CUDA device %ld: %s", ordinal, cuplug_last_error());
    return -1;
  }
  return 0;
}

void *let_go() { return PyGILState_Check() && !is_finalising() ? PyEval_SaveThread() : nullptr; }

void take_again(void *held) { take_lock(static_cast<PyThreadState *>(held)); }

}  // namespace

const cuplug_thread_hooks thread_hooks = {let_go, take_again};

cuplug_keeper keeper_of(Allocator *self) { return {self, save, restore, wait, drop}; }

cuplug_copier copier_of(Allocator *self) { return {self, copy, wait_for_copies}; }

int make_upstream(Allocator *self, bool pages) {
  PyObject *null = PyObject_GetAttrString(self->upstream, "native_null");
  if (null != nullptr) {
    unsigned long long total, granularity, page_granularity;
    const bool read = PyArg_ParseTuple(null, "KKK", &total, &granularity, &page_granularity);
    Py_DECREF(null);
    if (!read) return -1;
    self->over_null = true;
    if (cuplug_null_upstream_with_pages(total, granularity, page_granularity, &self->table) == CUPLUG_OK) return 0;
    PyErr_NoMemory();
    return -1;
  }
  PyErr_Clear();
  PyObject *ordinal = PyObject_GetAttrString(self->upstream, "native_ordinal");
  if (ordinal == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
  } else if (ordinal != Py_None) {
    const long number = PyLong_AsLong(ordinal);
    Py_DECREF(ordinal);
    if (number == -1 && PyErr_Occurred()) return -1;
    self->enters_python = false;
    return make_cuda_upstream(self, number);
  }
  Py_XDECREF(ordinal);
  self->enters_python = true;
  cuplug_upstream &table = self->table;
  table = {};
  table.context = self;
  table.reserve = reserve;
  table.release = release;
  table.memory_info = memory_info;
  table.fence = fence;
  table.fence_done = fence_done;
  table.fence_wait = fence_wait;
  table.fence_drop = drop;
  if (read_size(self->upstream, "granularity", &table.granularity) < 0) return -1;
  if (!pages) return 0;
  PyObject *memory = PyObject_GetAttrString(self->upstream, "virtual");
  if (memory == nullptr) return -1;
  const int read = memory == Py_None ? 0 : read_size(memory, "granularity", &table.page_granularity);
  PyObject *has_host_pages = read < 0 || memory == Py_None ? nullptr : PyObject_GetAttrString(memory, "has_host_pages");
  Py_DECREF(memory);
  if (has_host_pages == nullptr && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear(); /* made before there were any */
  if (has_host_pages != nullptr && PyObject_IsTrue(has_host_pages) == 1)
    table.create_host_page = taken<CREATE_HOST_PAGE>;
  Py_XDECREF(has_host_pages);
  if (PyErr_Occurred()) return -1;
  table.reserve_range = taken<RESERVE_RANGE>;
  table.free_range = given<FREE_RANGE>;
  table.create_page = taken<CREATE_PAGE>;
  table.release_page = given<RELEASE_PAGE>;
  table.map = done<MAP>;
  table.set_access = done<SET_ACCESS>;
  table.unmap = given<UNMAP>;
  return read;
}

namespace {

/* What a hook of the program's answers, a new reference; None without a hook, null where it raised. */
PyObject *call_hook(PyObject *hook, uint64_t nbytes, uint64_t stream) {
  if (hook == nullptr) return none();
  Py_INCREF(hook); /* it may be taken away while it runs */
  PyObject *answer = hook == Py_None ? none() : call_object(hook, nbytes, stream);
  Py_DECREF(hook);
  return answer;
}

/* What is set is raised at the operation's end, whatever it is: a hook's errors are its caller's. False without one. */
bool keep_for(Operation *operation) {
  if (operation == nullptr) return false;
  operation->keep_exception();
  operation->interrupted = true;
  return true;
}

}  // namespace

void tell_beyond(void *context, uint64_t nbytes, uint64_t stream) {
  if (is_finalising()) return;
  Entered entered;
  Allocator *self = allocator_of(context);
  PyObject *told = call_hook(self->on_beyond, nbytes, stream);
  if (told == nullptr && !keep_for(Operation::find(self))) PyErr_WriteUnraisable(reinterpret_cast<PyObject *>(self));
  Py_XDECREF(told);
}

int ask_hook(void *context, uint64_t nbytes, uint64_t stream) {
  if (is_finalising()) return 0;
  Entered entered;
  Allocator *self = allocator_of(context);
  Operation *operation = Operation::find(self);
  if (operation != nullptr && operation->interrupted) return -1;
  int answer = self->delivers ? deliver(self) : 0; /* what has happened so far comes first */
  if (answer == 0) {
    PyObject *wanted = call_hook(self->on_out_of_memory, nbytes, stream);
    answer = wanted == nullptr ? -1 : PyObject_IsTrue(wanted);
    Py_XDECREF(wanted);
  }
  if (answer < 0 && !keep_for(operation)) PyErr_Clear();
  return answer;
}

}  // namespace cuplug::python
