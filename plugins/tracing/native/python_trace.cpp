/* Traces: the log that allocators write their events into, and the numbers of Python's call stacks. */
#include "allocators/binding/python_binding.h"

#include <frameobject.h> /* a frame is known nowhere else before Python 3.11 */
#include <pthread.h>

#include <cerrno>
#include <new>
#include <vector>

#include "trace_log.h"

namespace cuplug::python {

namespace {

extern PyTypeObject LogType, WalkerType;

/* --- the log. The core's own object lives on in the allocators that were told of it. */

struct Log {
  PyObject_HEAD
  std::shared_ptr<TraceLog> log;
  PyObject *name_of; /* called with a thread's identity for its name */
};

Log *as_log(PyObject *object) { return reinterpret_cast<Log *>(object); }

PyObject *new_log(PyTypeObject *type, PyObject *arguments, PyObject *) {
  int file;
  unsigned long long start;
  PyObject *name_of;
  if (!PyArg_ParseTuple(arguments, "iKO:TraceLog", &file, &start, &name_of)) return nullptr;
  PyObject *object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  new (&as_log(object)->log) std::shared_ptr<TraceLog>;
  as_log(object)->name_of = Py_NewRef(name_of);
  try {
    as_log(object)->log = TraceLog::make(file, start);
  } catch (const std::bad_alloc &) {
    Py_DECREF(object);
    return PyErr_NoMemory();
  }
  return object;
}

void drop_log(PyObject *object) {
  if (as_log(object)->log != nullptr) as_log(object)->log->close();
  as_log(object)->log.~shared_ptr();
  Py_XDECREF(as_log(object)->name_of);
  Py_TYPE(object)->tp_free(object);
}

/* A place for a record: what iterating gives. */
PyObject *next_place(PyObject *object) { return PyLong_FromUnsignedLongLong(as_log(object)->log->take_shortcut()); }

PyObject *thread_number(PyObject *object, PyObject *arguments) {
  unsigned long long identity;
  const char *name;
  if (!PyArg_ParseTuple(arguments, "Ks:thread", &identity, &name)) return nullptr;
  as_log(object)->log->name_thread(identity, name);
  return PyLong_FromUnsignedLong(as_log(object)->log->thread_number(identity));
}

PyObject *grow_log(PyObject *object, PyObject *argument) {
  const unsigned long long size = PyLong_AsUnsignedLongLong(argument);
  if (PyErr_Occurred()) return nullptr;
  TraceLog *log = as_log(object)->log.get();
  int failed;
  PyThreadState *saved = PyEval_SaveThread();
  failed = log->grow(size);
  take_lock(saved);
  if (failed == 0) Py_RETURN_NONE;
  errno = failed;
  return PyErr_SetFromErrno(PyExc_OSError);
}

PyObject *close_log(PyObject *object, PyObject *) {
  TraceLog *log = as_log(object)->log.get();
  uint64_t end;
  PyThreadState *saved = PyEval_SaveThread();
  end = log->close();
  take_lock(saved);
  return PyLong_FromUnsignedLongLong(end);
}

PyObject *get_error(PyObject *object, void *) { return PyLong_FromLong(as_log(object)->log->error()); }

PyMethodDef log_methods[] = {
    {"thread", thread_number, METH_VARARGS,
     "thread($self, identity, name, /)\n--\n\nThe number of a thread, which is called `name` if it had none yet."},
    {"grow", grow_log, METH_O,
     "grow($self, size, /)\n--\n\nLet the file have `size` bytes at least, with the disk space taken. OSError: there is no "
     "room."},
    {"close", close_log, METH_NOARGS,
     "close($self, /)\n--\n\nTake no more events. Where the records end, in bytes from the file's begin."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef log_attributes[] = {
    {"error", get_error, nullptr, "The errno of what cut the trace off; 0 while nothing has.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject log_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.TraceLog";
  type.tp_basicsize = sizeof(Log);
  type.tp_dealloc = drop_log;
  type.tp_flags = Py_TPFLAGS_DEFAULT;
  type.tp_doc =
      "TraceLog(file, start, name_of)\n--\n\nWhere allocators of the core write their events: a trace file, open as "
      "the number `file`, whose records begin at `start`. `name_of` tells a thread's name by its identity. Iterating "
      "gives places for records of Python's own.";
  type.tp_iter = PyObject_SelfIter;
  type.tp_iternext = next_place;
  type.tp_methods = log_methods;
  type.tp_getset = log_attributes;
  type.tp_new = new_log;
  return type;
}

/* --- call stacks */

/* What is known of code objects, and of stacks: each a table with open addressing, at most half full. */
struct Kinds {
  struct Entry {
    const void *code = nullptr;
    long kind = 0;
  };
  std::vector<Entry> entries = std::vector<Entry>(256);
  size_t count = 0;

  Entry *find(const void *code) {
    size_t at = (reinterpret_cast<uintptr_t>(code) * 0x9E3779B97F4A7C15u) >> 32 & (entries.size() - 1);
    while (entries[at].code != nullptr && entries[at].code != code) at = (at + 1) & (entries.size() - 1);
    return &entries[at];
  }
  void add(const void *code, long kind) {
    if ((count + 1) * 2 > entries.size()) {
      std::vector<Entry> before(entries.size() * 2);
      before.swap(entries);
      for (const Entry &entry : before)
        if (entry.code != nullptr) *find(entry.code) = entry;
    }
    Entry *entry = find(code);
    count += entry->code == nullptr;
    *entry = {code, kind};
  }
};

struct Numbers {
  struct Entry {
    uint64_t hash = 0;
    uint64_t number = 0;
    size_t first = 0;
    uint32_t count = 0; /* of the words at `first`; 0 in an empty place */
  };
  std::vector<Entry> entries = std::vector<Entry>(256);
  std::vector<uint64_t> words; /* the keys */
  size_t count = 0;

  Entry *find(uint64_t hash, const uint64_t *key, uint32_t length) {
    size_t at = hash & (entries.size() - 1);
    for (; entries[at].count != 0; at = (at + 1) & (entries.size() - 1)) {
      const Entry &entry = entries[at];
      if (entry.hash == hash && entry.count == length && std::equal(key, key + length, words.data() + entry.first)) break;
    }
    return &entries[at];
  }
  void add(uint64_t hash, const uint64_t *key, uint32_t length, uint64_t number) {
    if ((count + 1) * 2 > entries.size()) {
      std::vector<Entry> before(entries.size() * 2);
      before.swap(entries);
      for (const Entry &entry : before) {
        if (entry.count == 0) continue;
        size_t at = entry.hash & (entries.size() - 1);
        while (entries[at].count != 0) at = (at + 1) & (entries.size() - 1);
        entries[at] = entry;
      }
    }
    Entry *entry = find(hash, key, length);
    if (entry->count != 0) return;
    words.insert(words.end(), key, key + length);
    *entry = {hash, number, words.size() - length, length};
    ++count;
  }
};

enum FrameKind : long { PROGRAM = 0, LEFT_OUT = 1, END = 2 }; /* stacks.py */

struct Walker {
  PyObject_HEAD
  PyObject *kind_of;   /* called with a frame: whose it is, and so are all of its code object */
  PyObject *number_of; /* called with how many levels there are, and the innermost frame: the stack's number */
  unsigned depth;
  Kinds *kinds;
  Numbers *numbers;
};

Walker *as_walker(PyObject *object) { return reinterpret_cast<Walker *>(object); }

constexpr unsigned MOST_LEVELS = 1000;

/* The kind of a frame whose code is seen first. -1 with an exception set. */
long ask_kind(Walker *self, PyFrameObject *frame, const void *code) {
  PyObject *answer = PyObject_CallOneArg(self->kind_of, reinterpret_cast<PyObject *>(frame));
  if (answer == nullptr) return -1;
  const long kind = PyLong_AsLong(answer);
  Py_DECREF(answer);
  if (kind == -1 && PyErr_Occurred()) return -1;
  try {
    self->kinds->add(code, kind);
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
    return -1;
  }
  return kind;
}

int position_of(PyFrameObject *frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return frame->f_lasti;
#endif
}

/* The number of the calling thread's stack. -1 with an exception set. */
int walk(Walker *self, uint64_t *number) {
  uint64_t key[2 * MOST_LEVELS];
  uint32_t length = 0;
  uint64_t hash = 0x243F6A8885A308D3u;
  PyFrameObject *innermost = PyEval_GetFrame(); /* borrowed: it runs */
  PyFrameObject *frame = innermost;
  Py_XINCREF(frame);
  for (unsigned left = self->depth; frame != nullptr && left != 0;) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Kinds::Entry *known = self->kinds->find(code);
    const long kind = known->code != nullptr ? known->kind : ask_kind(self, frame, code);
    Py_DECREF(code); /* whoever told its kind keeps it */
    if (kind < 0) {
      Py_DECREF(frame);
      return -1;
    }
    if (kind == END) break;
    if (kind == PROGRAM) {
      key[length] = reinterpret_cast<uintptr_t>(code);
      key[length + 1] = static_cast<uint64_t>(position_of(frame));
      hash = (hash ^ key[length] ^ key[length + 1] << 48) * 0x9E3779B97F4A7C15u;
      hash ^= hash >> 29;
      length += 2;
      --left;
    }
    PyFrameObject *outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  *number = 0;
  if (length == 0) return 0;
  const Numbers::Entry *known = self->numbers->find(hash, key, length);
  if (known->count != 0) {
    *number = known->number;
    return 0;
  }
  PyObject *answer = PyObject_CallFunction(self->number_of, "IO", length / 2, innermost);
  if (answer == nullptr) return -1;
  *number = PyLong_AsUnsignedLongLong(answer);
  Py_DECREF(answer);
  if (PyErr_Occurred()) return -1;
  try {
    self->numbers->add(hash, key, length, *number);
  } catch (const std::bad_alloc &) {
    PyErr_NoMemory();
    return -1;
  }
  return 0;
}

PyObject *call_walker(PyObject *object, PyObject *, PyObject *) {
  uint64_t number;
  return walk(as_walker(object), &number) < 0 ? nullptr : PyLong_FromUnsignedLongLong(number);
}

PyObject *new_walker(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *kind_of, *number_of;
  unsigned depth;
  if (!PyArg_ParseTuple(arguments, "OOI:StackWalker", &kind_of, &number_of, &depth)) return nullptr;
  if (depth < 1 || depth > MOST_LEVELS) {
    return PyErr_Format(PyExc_ValueError, "depth is %u; it must be 1 to %u levels", depth, MOST_LEVELS);
  }
  PyObject *object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  Walker *self = as_walker(object);
  self->kind_of = Py_NewRef(kind_of);
  self->number_of = Py_NewRef(number_of);
  self->depth = depth;
  try {
    self->kinds = new Kinds;
    self->numbers = new Numbers;
  } catch (const std::bad_alloc &) {
    Py_DECREF(object);
    return PyErr_NoMemory();
  }
  return object;
}

int traverse_walker(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(as_walker(object)->kind_of);
  Py_VISIT(as_walker(object)->number_of);
  return 0;
}

void drop_walker(PyObject *object) {
  PyObject_GC_UnTrack(object);
  Walker *self = as_walker(object);
  Py_CLEAR(self->kind_of);
  Py_CLEAR(self->number_of);
  delete self->kinds;
  delete self->numbers;
  Py_TYPE(object)->tp_free(object);
}

PyTypeObject walker_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.StackWalker";
  type.tp_basicsize = sizeof(Walker);
  type.tp_dealloc = drop_walker;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;
  type.tp_doc =
      "StackWalker(kind_of, number_of, depth)\n--\n\nCalled without arguments, gives the number of the program's call "
      "stack; PythonStacks in plugins/tracing/stacks.py has the rules. `kind_of` is called with a frame of each new "
      "code object, which somebody has to keep alive; `number_of` once for each stack, with the number of its levels and "
      "the innermost frame.";
  type.tp_call = call_walker;
  type.tp_traverse = traverse_walker;
  type.tp_new = new_walker;
  return type;
}

/* --- attaching */

/* record(allocator, log, device): its events go into the log from now on, or, if that is None, into none. */
PyObject *record_into(PyObject *, PyObject *arguments) {
  PyObject *object, *log;
  unsigned char device;
  if (!PyArg_ParseTuple(arguments, "O!Ob:record", &AllocatorType, &object, &log, &device)) return nullptr;
  if (log != Py_None && !PyObject_TypeCheck(log, &LogType)) {
    return PyErr_Format(PyExc_TypeError, "%R is not a TraceLog", log);
  }
  Allocator *self = reinterpret_cast<Allocator *>(object);
  try {
    const EventTarget target = log == Py_None ? EventTarget{} : TraceLog::target(as_log(log)->log, device);
    if (self->core != nullptr) cuplug::record(self->core, log == Py_None ? nullptr : &target);
  } catch (const std::bad_alloc &) {
    return PyErr_NoMemory();
  }
  Py_XSETREF(self->log, log == Py_None ? nullptr : Py_NewRef(log));
  self->observed = self->delivers || log != Py_None;
  Py_RETURN_NONE;
}

int name_thread(PyObject *log) {
  TraceLog *core = as_log(log)->log.get();
  if (core->knows_this_thread()) return 0;
  const unsigned long long identity = PyThread_get_thread_ident();
  PyObject *name = PyObject_CallFunction(as_log(log)->name_of, "K", identity);
  if (name == nullptr) return -1;
  const char *text = PyUnicode_AsUTF8(name);
  if (text != nullptr) core->name_thread(identity, text);
  Py_DECREF(name);
  return text == nullptr ? -1 : 0;
}

int walk_stack(PyObject *walker, uint64_t *number) { return walk(as_walker(walker), number); }

bool is_cut_off(PyObject *log) { return as_log(log)->log->error() != 0; }

PyTypeObject LogType = log_type();
PyTypeObject WalkerType = walker_type();

PyMethodDef trace_functions[] = {
    {"record", record_into, METH_VARARGS,
     "record(allocator, log, device)\n--\n\nLet an allocator write its events into a TraceLog, as of a device's ordinal; "
     "None for no log."},
    {nullptr, nullptr, 0, nullptr},
};

Part part(trace_functions, &LogType, &WalkerType);
[[maybe_unused]] const bool is_told = (tracing = {name_thread, is_cut_off, &WalkerType, walk_stack}, true);

}  // namespace

}  // namespace cuplug::python
