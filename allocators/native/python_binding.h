/* What the files of the Python binding share. The core below it is plain C++ behind cuplug_allocator.h; only these
 * files, python_*.cpp, know the interpreter.
 *
 * Every function here is called with the interpreter's lock held, unless it says otherwise.
 */
#ifndef CUPLUG_PYTHON_BINDING_H
#define CUPLUG_PYTHON_BINDING_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sys/types.h>

#include <cstdint>

#include "cuplug_allocator.h"

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
  bool in_owner; /* whether it stands in an Owner, else in a Block */
};

struct Block {
  PyObject_HEAD
  PyObject *weak_references;
  bool seen; /* whether anybody has asked for its address */
  Handle handle;
};

/* Owns a block and gives it back when it goes: `handle` where that is a native one nobody has asked for yet, else
 * `block`. A closed one has neither. */
struct Owner {
  PyObject_HEAD
  PyObject *weak_references;
  PyObject *block;
  Handle handle; /* `handle.allocator` is null where it is not in use */
};

/* The base of the native strategies; see python_allocator.cpp. */
struct Allocator {
  PyObject_HEAD
  PyObject *weak_references;
  cuplug_allocator *core;
  PyObject *upstream;
  PyObject *on_out_of_memory;
  PyObject *closed;      /* why it cannot be used any more, a str, or null */
  PyObject *observation; /* allocators/native/observation.py, or null before anybody observed */
  PyObject *source;      /* the context source, or null */
  PyObject *memory_limit;
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
  PyObject *keep = nullptr; /* of `sleep`: what keeps contents, borrowed */

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
  PyObject *type_, *value_, *traceback_;
};

bool is_finalising(); /* needs no lock */

/* --- python_upstream.cpp */
int make_upstream(Allocator *self, bool pages); /* fills `table`; -1 with an exception set */
extern const cuplug_thread_hooks thread_hooks;
int ask_hook(void *context, uint64_t nbytes, uint64_t stream);
cuplug_keeper keeper_of(Allocator *self); /* calls `keep` of the operation, and methods of the copies that that made */

/* --- python_allocator.cpp */
extern PyTypeObject AllocatorType;
extern PyMethodDef tag_functions[];
/* Take a block for `handle`, which is not in use. -1 with an exception set. Hits do not enter Python. */
int allocate_handle(Allocator *self, uint64_t nbytes, uint64_t stream, Handle *handle,
                    uint64_t library = CUPLUG_LIBRARY_OWN);
/* The same for libraries that know addresses alone. */
int allocate_address(Allocator *self, uint64_t nbytes, uint64_t stream, uint64_t library, uint64_t *address);
/* Give the block at `address` back, if it is one. -1 with an exception set, and given back all the same. */
int give_address_back(Allocator *self, uint64_t address);
/* Give back what `handle` holds. -1 with an exception set, and given back all the same. */
int give_handle_back(Handle *handle);
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

/* --- python_block.cpp */
extern PyTypeObject BlockType;
/* A Block that takes over what `handle` holds; null with an exception set, and then nothing has changed. */
PyObject *block_from(Handle *handle);
PyObject *new_block();

/* --- python_owner.cpp */
extern PyTypeObject OwnerType, QuickType;
/* The Block of an owner, made now if it had none yet: borrowed; null with an exception set. Py_None if it is closed. */
PyObject *block_of_owner(Owner *owner);
Owner *owner_of(Handle *handle);
PyObject *allocate_owner(Allocator *self, PyTypeObject *type, uint64_t nbytes, uint64_t stream);
extern PyMethodDef quick_functions[];
void forget_places();

/* --- python_pointers.cpp */
extern PyMethodDef pointer_functions[];

/* --- python_cupy.cpp */
extern PyMethodDef cupy_functions[];

/* --- python_replay.cpp */
extern PyMethodDef replay_functions[];

/* --- python_packing.cpp */
extern PyMethodDef packing_functions[];

/* --- python_timing.cpp */
extern PyMethodDef timing_functions[];

/* --- python_trace.cpp */
extern PyTypeObject LogType, WalkerType;
extern PyMethodDef trace_functions[];
/* Tell the log what the calling thread is called, unless it knows. -1 with an exception set. */
int name_thread(PyObject *log);
/* Whether events are missing in the log, since it could not grow. */
bool is_cut_off(PyObject *log);
/* The number of the calling thread's stack, by a StackWalker. -1 with an exception set. */
int walk_stack(PyObject *walker, uint64_t *number);

/* What the binding uses of the package. */
struct Names {
  PyObject *cuplug_error, *driver_error, *out_of_memory_error, *invalid_free_error;
  PyObject *allocate, *stream, *allocator, *give_back, *live, *address; /* the words, interned */
  PyObject *event_kinds[15]; /* the members of EventKind by number; the first is None */
};
extern Names names;

}  // namespace cuplug::python
#endif
