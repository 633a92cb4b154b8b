/* What the files of the Python binding share. The core below it is plain C++ behind cuplug_allocator.h; only files
 * called python_* know the interpreter. Those of other floors stand there, and add their part to the module (`Part`).
 *
 * Every function here is called with the interpreter's lock held, unless it says otherwise.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sys/types.h>

#include <cstdint>

#include "allocators/binding/interpreter_lock.h"
#include "allocators/native/cuplug_allocator.h"

/* Variables of a thread, reached without a call. glibc keeps room for a few of them in libraries that are loaded late;
 * other C libraries may not. */
#if defined(__GLIBC__)
#define CUPLUG_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
#else
#define CUPLUG_THREAD_LOCAL thread_local
#endif

namespace cuplug::python {

struct Allocator;

/* A block in the program's hands, as a Block or an Owner holds it. Copies what the program may read, so that reading
 * touches no memory of the core's. */
struct Handle {
  Allocator *allocator; /* owned */
  cuplug_block *block;
  uint64_t address, nbytes, requested, stream;
  Handle *before, *after; /* of the allocator's list; both are the handle itself where it is in none */
  bool live, orphan;
  bool in_owner; /* whether it stands in an owner (`owners`), else in a Block */
};

struct Block {
  PyObject_HEAD
  PyObject *weak_references;
  bool seen; /* whether anybody has asked for its address */
  Handle handle;
};

/* The base of the native strategies; see python_allocator.cpp. */
struct Allocator {
  PyObject_HEAD
  PyObject *weak_references;
  cuplug_allocator *core;
  PyObject *upstream;
  PyObject *on_out_of_memory;
  PyObject *on_beyond;
  PyObject *closed;      /* why it cannot be used any more, a str, or null */
  PyObject *observation; /* allocators/native/observation.py, or null before anybody observed */
  PyObject *source;      /* the context source, or null */
  PyObject *memory_limit;
  uint64_t guard; /* see Allocator.guard */
  Handle list; /* of all handles; its own fields but `before` and `after` are unused */
  cuplug_upstream table;
  pid_t process; /* in which it was made */
  bool kept;     /* whether C may know it, so that it lives as long as the process */
  bool over_null; /* whether its upstream is the core's without a device */
  bool observed; /* whether anybody is told of events: observers in Python, or a trace's log */
  bool delivers; /* whether there are observers in Python */
  PyObject *log; /* the TraceLog that events are written into, or null */
  bool enters_python; /* whether its upstream is an object of Python's */
};

/* One call of the core by a thread, on that thread's stack: keeps what Python raised inside it. */
class Operation {
 public:
  explicit Operation(Allocator *allocator);
  ~Operation();
  Operation(const Operation &) = delete;
  Operation &operator=(const Operation &) = delete;
  /* The innermost one of the calling thread for `allocator`, or null. Needs no lock. */
  static Operation *find(const Allocator *allocator);
  /* Takes the exception that is set, for the operation to raise if it fails. One that is not cuplug's own is an interrupt: the operation raises it, however it
   * ends, and takes nothing more from upstream. */
  void keep_exception();
  /* Raise what was kept; whether there was anything. */
  bool raise();
  bool interrupted = false;
  PyObject *keep = nullptr; /* of `sleep` and `move`: what keeps contents, or copies them, borrowed */

 private:
  Allocator *allocator_;
  Operation *outer_;
  PyObject *error_ = nullptr;
};

/* Holds the interpreter's lock and keeps what exception the thread has set. For calls from the core, which come in any
 * state of the thread. */
class Entered {
 public:
  Entered();
  ~Entered();
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

 private:
  PyGILState_STATE state_;
  PyThreadState *own_;
  PyObject *type_, *value_, *traceback_;
};

/* --- python_upstream.cpp */
int make_upstream(Allocator *self, bool pages); /* fills `table`; -1 with an exception set */
extern const cuplug_thread_hooks thread_hooks;
int ask_hook(void *context, uint64_t nbytes, uint64_t stream);
void tell_beyond(void *context, uint64_t nbytes, uint64_t stream);
cuplug_keeper keeper_of(Allocator *self); /* calls `keep` of the operation, and methods of the copies that that made */

cuplug_copier copier_of(Allocator *self); /* calls methods of `keep` of the operation */

/* --- python_allocator.cpp */
extern PyTypeObject AllocatorType;
inline Allocator *as_allocator(PyObject *object) { return reinterpret_cast<Allocator *>(object); }
/* Before an operation: none may begin inside an observer. -1 with an exception set. */
int check_entry(Allocator *self);
/* Tells the observers what has happened. Keeps an exception that is set, unless an observer raises another. */
int deliver(Allocator *self);
/* Ends an operation that takes no block: its answer, and the observers. */
PyObject *conclude(Allocator *self, int answer, Operation &operation, PyObject *result);
/* An operation that `call` carries out on an allocator's core: what `make` makes of it, where it answers CUPLUG_OK. */
template <class Call, class Make>
PyObject *operated(PyObject *object, Call call, Make make) {
  Allocator *self = as_allocator(object);
  if (check_entry(self) < 0) return nullptr;
  Operation operation(self);
  const int answer = call(self->core);
  return conclude(self, answer, operation, answer == CUPLUG_OK ? make() : nullptr);
}
/* Append `item`, a new reference, to `list`; without one, or without memory, the list goes, and an exception is set. */
inline void append(PyObject *&list, PyObject *item) {
  if (item == nullptr || PyList_Append(list, item) < 0) Py_CLEAR(list);
  Py_XDECREF(item);
}
inline PyObject *none() { return Py_NewRef(Py_None); }
/* Take a block for `handle`, which is not in use. -1 with an exception set. Hits do not enter Python. */
int allocate_handle(Allocator *self, uint64_t nbytes, uint64_t stream, Handle *handle,
                    uint64_t library = CUPLUG_LIBRARY_OWN);
/* The same for libraries that know addresses alone. */
int allocate_address(Allocator *self, uint64_t nbytes, uint64_t stream, uint64_t library, uint64_t *address);
/* Give the block at `address` back, if it is one. -1 with an exception set, and given back all the same. */
int give_address_back(Allocator *self, uint64_t address);
/* Give back what `handle` holds. -1 with an exception set, and given back all the same. */
int give_handle_back(Handle *handle);
/* Let `handle` hold a block of the core. */
void hold(Handle *handle, Allocator *self, cuplug_block *block, uint64_t requested, uint64_t stream);
void link_handle(Handle *handle);
void unlink_handle(Handle *handle);
/* The bytes or the stream that a Python int means; -1 with an exception set. */
int read_size(PyObject *value, uint64_t *nbytes);
int read_stream(PyObject *value, uint64_t *stream);
/* The value of an int of one digit that is not negative, as almost every size and stream is; else -1. */
inline int64_t small_number(PyObject *value) {
#if PY_VERSION_HEX >= 0x030C0000
  if (!PyLong_CheckExact(value) || !PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject *>(value))) return -1;
  return PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject *>(value));
#elif PY_VERSION_HEX >= 0x030B0000
  if (!PyLong_CheckExact(value) || static_cast<size_t>(Py_SIZE(value)) > 1) return -1;
  return Py_SIZE(value) == 0 ? 0 : static_cast<int64_t>(reinterpret_cast<PyLongObject *>(value)->ob_digit[0]);
#else
  static_cast<void>(value);
  return -1;
#endif
}
inline int size_of(PyObject *value, uint64_t *nbytes) {
  const int64_t small = small_number(value);
  if (small < 0) return read_size(value, nbytes);
  *nbytes = static_cast<uint64_t>(small);
  return 0;
}
inline int stream_of(PyObject *value, uint64_t *stream) {
  const int64_t small = small_number(value);
  if (small < 0) return read_stream(value, stream);
  *stream = static_cast<uint64_t>(small);
  return 0;
}
void take_exception(PyObject **value); /* the exception that is set, as one object */

/* --- python_errors.cpp */
/* Raises what an answer other than CUPLUG_OK means. Always -1. */
int raise_answer(Allocator *self, int answer, Operation &operation);
int raise_out_of_memory(Allocator *self); /* always -1 */
/* Raises an error of `type`, with what `method` of the allocator's says of it, called with arguments as for
 * PyObject_CallMethod. */
template <class... Arguments>
void raise_told(Allocator *self, PyObject *type, const char *method, const char *format, Arguments... arguments) {
  PyObject *said = PyObject_CallMethod(reinterpret_cast<PyObject *>(self), method, format, arguments...);
  if (said != nullptr) PyErr_SetObject(type, said);
  Py_XDECREF(said);
}
void raise_reentered();

/* --- python_readings.cpp: methods of the allocator's */
PyObject *move_events(PyObject *object, PyObject *queue);
PyObject *read_statistics(PyObject *object, PyObject *);
PyObject *read_served(PyObject *object, PyObject *);
PyObject *read_segments(PyObject *object, PyObject *);
PyObject *live_blocks(PyObject *object, PyObject *);

/* --- python_tags.cpp: methods of the allocator's, and functions */
PyObject *put_to_sleep(PyObject *object, PyObject *arguments);
PyObject *wake(PyObject *object, PyObject *arguments);
PyObject *move_tagged(PyObject *object, PyObject *arguments);
PyObject *read_sleeping(PyObject *object, PyObject *);
extern PyMethodDef tag_functions[];

/* --- python_block.cpp */
extern PyTypeObject BlockType;
/* A Block that takes over what `handle` holds; null with an exception set, and then nothing has changed. */
PyObject *block_from(Handle *handle);
PyObject *new_block();

/* --- python_packing.cpp */
extern PyMethodDef packing_functions[];

/* --- python_module.cpp: what floors above add. Filled before the module is made, and constant from then on. */

/* Functions and types of another file, for the module. Made before the module is: as a variable of the file. */
struct Part {
  Part(PyMethodDef *added_functions, PyTypeObject *first_type = nullptr, PyTypeObject *second_type = nullptr);
  PyMethodDef *functions;
  PyTypeObject *types[2];
  Part *next;
};

/* What holds handles beside Blocks: `in_owner` says of a handle that it stands there. */
struct Owners {
  /* The Block of the owner, made now if it had none yet: borrowed; null with an exception set. Py_None if it is closed. */
  PyObject *(*block_of)(Handle *handle) = nullptr;
  /* No thread may allocate without asking Python any more: an allocator goes. */
  void (*forget_shortcuts)() = nullptr;
};
extern Owners owners;

/* What writes traces: an allocator's `log` is such a log, and its `source` may be such a walker. */
struct Tracing {
  /* Tell the log what the calling thread is called, unless it knows. -1 with an exception set. */
  int (*name_thread)(PyObject *log) = nullptr;
  /* Whether events are missing in the log, since it could not grow. */
  bool (*is_cut_off)(PyObject *log) = nullptr;
  PyTypeObject *walker = nullptr;
  /* The number of the calling thread's stack, by a `walker`. -1 with an exception set. */
  int (*walk_stack)(PyObject *walker, uint64_t *number) = nullptr;
};
extern Tracing tracing;

/* What the binding uses of the package. */
struct Names {
  PyObject *cuplug_error, *driver_error, *out_of_memory_error, *invalid_free_error;
  PyObject *allocate, *stream, *allocator, *give_back, *live, *address; /* the words, interned */
  PyObject *event_kinds[21]; /* the members of EventKind by number; the first is None */
};
extern Names names;

}  // namespace cuplug::python
