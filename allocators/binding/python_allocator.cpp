/* The base of the native strategies: what `allocators.base.Allocator` promises, by calls of the core.
 *
 * What happens at every allocation is here. What happens seldom (observers, statistics, maps, messages) is in Python,
 * in strategies.py, over the methods of this type that begin with an underscore.
 */
#include "python_binding.h"

#include <unistd.h>

#include <cstring>

#include "allocators/native/events.h"

namespace cuplug::python {

namespace {

CUPLUG_THREAD_LOCAL Operation *innermost = nullptr;

constexpr uint64_t TOO_MUCH = uint64_t{1} << 62; /* no device has as much: asked for more, the core is asked for this */

bool is_observing(Allocator *self) {
  PyObject *answer = PyObject_GetAttrString(self->observation, "is_observing");
  const bool observing = answer == nullptr || PyObject_IsTrue(answer) != 0;
  Py_XDECREF(answer);
  return observing;
}

/* Before an operation whose events are written into a log. -1 with an exception set. */
int prepare_log(Allocator *self) {
  if (tracing.is_cut_off(self->log)) { /* it is told once: the log goes */
    PyObject *told = PyObject_CallMethod(reinterpret_cast<PyObject *>(self), "_log_was_cut_off", nullptr);
    if (told == nullptr) return -1;
    Py_DECREF(told);
    return 0;
  }
  return tracing.name_thread(self->log);
}

/* What the context source says of this thread. -1 with an exception set. */
int read_context(Allocator *self, uint64_t *context) {
  *context = 0;
  PyObject *source = self->source;
  if (source == nullptr) return 0;
  Py_INCREF(source);
  if (Py_TYPE(source) == tracing.walker) {
    const int walked = tracing.walk_stack(source, context);
    Py_DECREF(source);
    return walked;
  }
  PyObject *answer = PyObject_CallNoArgs(source);
  Py_DECREF(source);
  if (answer == nullptr) return -1;
  *context = PyLong_AsUnsignedLongLongMask(answer);
  Py_DECREF(answer);
  return PyErr_Occurred() ? -1 : 0;
}

}  // namespace

int check_entry(Allocator *self) {
  if (self->core == nullptr) {
    PyErr_SetString(names.cuplug_error, "this allocator was not made: its __init__ was not called, or failed");
    return -1;
  }
  if (self->delivers && is_observing(self)) {
    if (!PyErr_Occurred()) raise_reentered();
    return -1;
  }
  return self->log != nullptr ? prepare_log(self) : 0;
}

int deliver(Allocator *self) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject *delivered = PyObject_CallMethod(self->observation, "deliver", nullptr);
  if (delivered == nullptr) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
  }
  Py_DECREF(delivered);
  PyErr_Restore(type, value, traceback);
  return 0;
}

PyObject *conclude(Allocator *self, int answer, Operation &operation, PyObject *result) {
  if (answer != CUPLUG_OK) {
    raise_answer(self, answer, operation);
    Py_CLEAR(result);
  } else if (operation.interrupted && operation.raise()) {
    Py_CLEAR(result);
  }
  if (self->delivers && deliver(self) < 0) Py_CLEAR(result);
  return result;
}

/* --- operations and states of threads */

Operation::Operation(Allocator *allocator) : allocator_(allocator), outer_(innermost) { innermost = this; }

Operation::~Operation() {
  innermost = outer_;
  Py_XDECREF(error_);
}

Operation *Operation::find(const Allocator *allocator) {
  for (Operation *operation = innermost; operation != nullptr; operation = operation->outer_) {
    if (operation->allocator_ == allocator) return operation;
  }
  return nullptr;
}

void Operation::keep_exception() {
  PyObject *error;
  take_exception(&error);
  const bool interrupts = !PyErr_GivenExceptionMatches(error, names.cuplug_error);
  if (interrupted) { /* the first interrupt is the one to raise */
    Py_XDECREF(error);
    return;
  }
  interrupted = interrupts;
  Py_XSETREF(error_, error);
}

bool Operation::raise() {
  if (error_ == nullptr) return false;
  PyObject *error = error_;
  error_ = nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return true;
}

Entered::Entered() : state_(ensure_lock()), own_(state_in_force()) { PyErr_Fetch(&type_, &value_, &traceback_); }

Entered::~Entered() {
  stay_if_ended(own_);
  PyErr_Restore(type_, value_, traceback_);
  PyGILState_Release(state_);
}

void take_exception(PyObject **value) {
  PyObject *type, *traceback;
  PyErr_Fetch(&type, value, &traceback);
  PyErr_NormalizeException(&type, value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(*value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
}

/* --- numbers */

int read_size(PyObject *value, uint64_t *nbytes) {
  if (!PyLong_CheckExact(value)) {
    PyObject *index = PyNumber_Index(value);
    if (index == nullptr) return -1;
    const int read = PyLong_CheckExact(index) ? read_size(index, nbytes) : -1;
    if (read < 0 && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a size is an int");
    Py_DECREF(index);
    return read;
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow < 0 || (overflow == 0 && number < 0)) {
    PyErr_Format(PyExc_ValueError, "cannot allocate %S bytes: a size is zero or more", value);
    return -1;
  }
  *nbytes = overflow > 0 || static_cast<uint64_t>(number) > TOO_MUCH ? TOO_MUCH : static_cast<uint64_t>(number);
  return 0;
}

int read_stream(PyObject *value, uint64_t *stream) {
  if (PyLong_CheckExact(value)) {
    *stream = PyLong_AsUnsignedLongLong(value);
  } else {
    PyObject *index = PyNumber_Index(value);
    if (index == nullptr) return -1;
    *stream = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
  }
  return *stream == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

/* --- handles */

void hold(Handle *handle, Allocator *self, cuplug_block *block, uint64_t requested, uint64_t stream) {
  handle->block = block;
  handle->address = cuplug_block_address(block);
  handle->nbytes = cuplug_block_nbytes(block);
  handle->requested = requested;
  handle->stream = stream;
  handle->orphan = false;
  handle->live = true;
  handle->allocator = reinterpret_cast<Allocator *>(Py_NewRef(reinterpret_cast<PyObject *>(self)));
  link_handle(handle);
}

void link_handle(Handle *handle) {
  Handle *list = &handle->allocator->list;
  handle->before = list;
  handle->after = list->after;
  list->after->before = handle;
  list->after = handle;
}

void unlink_handle(Handle *handle) {
  handle->before->after = handle->after;
  handle->after->before = handle->before;
  handle->before = handle->after = handle;
}

/* Take a block of the core. -1 with an exception set. */
static inline int allocate_block(Allocator *self, uint64_t nbytes, uint64_t stream, uint64_t library, cuplug_block **made) {
  uint64_t context = 0;
  if (self->core == nullptr || self->observed) {
    if (check_entry(self) < 0 || (nbytes != 0 && read_context(self, &context) < 0)) return -1;
    context |= library << CUPLUG_LIBRARY_SHIFT;
  }
  Operation operation(self);
  cuplug_block *block = nullptr;
  const int answer = cuplug_allocate(self->core, nbytes, stream, context, &block);
  bool failed = answer != CUPLUG_OK || operation.interrupted;
  if (failed) {
    if (answer == CUPLUG_OUT_OF_MEMORY && !operation.interrupted) {
      raise_out_of_memory(self);
    } else {
      raise_answer(self, answer, operation);
    }
  }
  if (self->delivers && deliver(self) < 0) failed = true;
  if (failed) {
    if (answer == CUPLUG_OK) { /* its caller never gets it */
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      cuplug_free(self->core, block, 0);
      if (self->delivers) deliver(self);
      PyErr_Restore(type, value, traceback);
    }
    return -1;
  }
  *made = block;
  return 0;
}

int allocate_handle(Allocator *self, uint64_t nbytes, uint64_t stream, Handle *handle, uint64_t library) {
  cuplug_block *block;
  if (allocate_block(self, nbytes, stream, library, &block) < 0) return -1;
  hold(handle, self, block, nbytes, stream);
  return 0;
}

int allocate_address(Allocator *self, uint64_t nbytes, uint64_t stream, uint64_t library, uint64_t *address) {
  cuplug_block *block;
  if (allocate_block(self, nbytes, stream, library, &block) < 0) return -1;
  *address = cuplug_block_address(block);
  return 0;
}

int give_address_back(Allocator *self, uint64_t address) {
  const bool inside = self->observed && cuplug_allocator_is_inside(self->core) != 0;
  int result = 0;
  {
    Operation operation(self);
    cuplug_free_address(self->core, address);
    if (operation.interrupted && operation.raise()) result = -1;
  }
  if (self->delivers && !inside && deliver(self) < 0) result = -1;
  return result;
}

int give_handle_back(Handle *handle) {
  if (!handle->live) return 0;
  Allocator *self = handle->allocator;
  uint64_t context = 0;
  bool inside = false;
  PyObject *error = nullptr; /* of the context source: the block goes back all the same */
  if (self->observed) {
    inside = cuplug_allocator_is_inside(self->core) != 0;
    if (!inside && ((self->log != nullptr && prepare_log(self) < 0) || read_context(self, &context) < 0)) {
      take_exception(&error);
    }
  }
  int result = 0;
  if (handle->live) { /* else the source, or a finaliser meanwhile, has given it back */
    handle->live = false;
    unlink_handle(handle);
    if (self->enters_python) {
      Operation operation(self);
      cuplug_free(self->core, handle->block, context);
      if (operation.interrupted && operation.raise()) result = -1;
    } else {
      cuplug_free(self->core, handle->block, context);
    }
    if (self->delivers && !inside && deliver(self) < 0) result = -1;
  }
  if (error == nullptr) return result;
  if (result == 0) PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error);
  Py_DECREF(error);
  return -1;
}

namespace {

/* --- the type's methods */

/* The live handle of a Block of this allocator; otherwise null with InvalidFreeError set, or without one where the
 * allocator was closed and the block was its own. */
Handle *handle_of(Allocator *self, PyObject *object) {
  if (PyObject_TypeCheck(object, &BlockType)) {
    Handle *handle = &reinterpret_cast<Block *>(object)->handle;
    if (handle->live && handle->allocator == self) return handle;
    if (handle->allocator == self && self->closed != nullptr) return nullptr;
  }
  raise_told(self, names.invalid_free_error, "_why_not_free", "O", object);
  return nullptr;
}

/* A new Block. */
inline PyObject *allocated(PyObject *self, uint64_t nbytes, uint64_t stream, uint64_t library) {
  PyObject *block = new_block();
  if (block == nullptr) return nullptr;
  if (allocate_handle(as_allocator(self), nbytes, stream, &reinterpret_cast<Block *>(block)->handle, library) < 0) {
    Py_CLEAR(block);
  }
  return block;
}

PyObject *allocate(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
  if (count != 1 || keywords == nullptr || PyTuple_GET_SIZE(keywords) != 1 ||
      (PyTuple_GET_ITEM(keywords, 0) != names.stream &&
       PyUnicode_Compare(PyTuple_GET_ITEM(keywords, 0), names.stream) != 0)) {
    /* What is wrong with the call is said by Python, of a function with this signature. */
    PyObject *named = PyObject_GetAttrString(self, "_allocate_called_otherwise");
    if (named == nullptr) return nullptr;
    PyObject *result = PyObject_Vectorcall(named, arguments, count, keywords);
    Py_DECREF(named);
    return result;
  }
  uint64_t nbytes, stream;
  if (size_of(arguments[0], &nbytes) < 0 || stream_of(arguments[1], &stream) < 0) return nullptr;
  return allocated(self, nbytes, stream, CUPLUG_LIBRARY_OWN);
}

PyObject *allocate_for(PyObject *self, PyObject *arguments) {
  PyObject *size, *place;
  unsigned long long library;
  uint64_t nbytes, stream;
  if (!PyArg_ParseTuple(arguments, "OOK:_allocate_for", &size, &place, &library) || size_of(size, &nbytes) < 0 ||
      stream_of(place, &stream) < 0) {
    return nullptr;
  }
  return allocated(self, nbytes, stream, library);
}

PyObject *free_block(PyObject *self, PyObject *object) {
  Handle *handle = handle_of(as_allocator(self), object);
  if (handle == nullptr) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  return give_handle_back(handle) < 0 ? nullptr : Py_NewRef(Py_None);
}

PyObject *give_back(PyObject *, PyObject *object) {
  if (!PyObject_TypeCheck(object, &BlockType)) {
    PyErr_Format(PyExc_TypeError, "give_back takes a Block of a native allocator, not %R", object);
    return nullptr;
  }
  Handle *handle = &reinterpret_cast<Block *>(object)->handle;
  return give_handle_back(handle) < 0 ? nullptr : Py_NewRef(Py_None);
}

PyObject *record_stream(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  PyObject *block, *value;
  uint64_t stream, context;
  if (!PyArg_ParseTuple(arguments, "OO:record_stream", &block, &value) || stream_of(value, &stream) < 0) return nullptr;
  Handle *handle = handle_of(self, block);
  if (handle == nullptr) {
    if (!PyErr_Occurred()) {
      PyErr_Format(names.invalid_free_error,
                   "%R is not in the program's hands: it was freed before, or its allocator was closed", block);
    }
    return nullptr;
  }
  if (handle->nbytes == 0 || (stream == handle->stream && !handle->orphan)) Py_RETURN_NONE;
  if (check_entry(self) < 0 || read_context(self, &context) < 0) return nullptr;
  if (!handle->live) Py_RETURN_NONE; /* freed by the context source, or by a finaliser meanwhile */
  Operation operation(self);
  const int answer = cuplug_record_stream(self->core, handle->block, stream, context);
  return conclude(self, answer, operation, Py_NewRef(Py_None));
}

PyObject *release_cached(PyObject *object, PyObject *) {
  uint64_t released = 0;
  return operated(object, [&](cuplug_allocator *core) { return cuplug_release_cached(core, &released); },
                  [&] { return PyLong_FromUnsignedLongLong(released); });
}

PyObject *release_forgotten(PyObject *object, PyObject *value) {
  uint64_t stream, released = 0;
  if (stream_of(value, &stream) < 0) return nullptr;
  return operated(object, [&](cuplug_allocator *core) { return cuplug_release_forgotten(core, stream, &released); },
                  [&] { return PyLong_FromUnsignedLongLong(released); });
}

PyObject *forget_stream(PyObject *object, PyObject *value) {
  Allocator *self = as_allocator(object);
  uint64_t stream;
  if (stream_of(value, &stream) < 0 || check_entry(self) < 0) return nullptr;
  Operation operation(self);
  int answer = cuplug_forget_stream(self->core, stream);
  if (answer == CUPLUG_CLOSED) answer = CUPLUG_OK;
  if (answer == CUPLUG_OK || answer == CUPLUG_FAILED) { /* what fails may have taken effect: the core tells uses apart then */
    for (Handle *handle = self->list.after; handle != &self->list; handle = handle->after) {
      if (handle->nbytes != 0 && handle->stream == stream) handle->orphan = true;
    }
  }
  return conclude(self, answer, operation, Py_NewRef(Py_None));
}

PyObject *reset_peaks(PyObject *object, PyObject *) { return operated(object, cuplug_reset_peaks, none); }

PyObject *reset_accumulated(PyObject *object, PyObject *) { return operated(object, cuplug_reset_accumulated, none); }

PyObject *close_allocator(PyObject *object, PyObject *) {
  Allocator *self = as_allocator(object);
  if (check_entry(self) < 0) return nullptr;
  if (self->closed != nullptr) Py_RETURN_NONE;
  Operation operation(self);
  const int answer = cuplug_allocator_close(self->core);
  /* What the core has taken back is in nobody's hands any more, also where it then failed. */
  for (Handle *handle = self->list.after, *next; handle != &self->list; handle = next) {
    next = handle->after;
    if (handle->nbytes != 0 && !cuplug_block_is_live(handle->block)) {
      handle->live = false;
      unlink_handle(handle);
    }
  }
  if (answer == CUPLUG_OK) Py_XSETREF(self->closed, PyUnicode_FromString("it was closed"));
  return conclude(self, answer, operation, Py_NewRef(Py_None));
}

PyObject *abandon(PyObject *object, PyObject *why) {
  Allocator *self = as_allocator(object);
  if (!PyUnicode_Check(why)) {
    PyErr_Format(PyExc_TypeError, "why is a str, not %R", why);
    return nullptr;
  }
  if (self->core != nullptr) cuplug_allocator_abandon(self->core);
  Py_XSETREF(self->closed, Py_NewRef(why));
  Py_RETURN_NONE;
}

/* --- what strategies.py uses */

PyObject *open_core(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  const char *strategy;
  PyObject *options, *upstream;
  if (!PyArg_ParseTuple(arguments, "sO!O:_open", &strategy, &PyDict_Type, &options, &upstream)) return nullptr;
  if (self->core != nullptr) {
    PyErr_SetString(names.cuplug_error, "this allocator was made already");
    return nullptr;
  }
  Py_XSETREF(self->upstream, Py_NewRef(upstream));
  const bool pages = std::strcmp(strategy, "expandable") == 0 || std::strcmp(strategy, "planned") == 0;
  if (make_upstream(self, pages) < 0) return nullptr;
  cuplug_option given[16];
  size_t count = 0;
  PyObject *name, *value;
  for (Py_ssize_t at = 0; PyDict_Next(options, &at, &name, &value) && count < 16; ++count) {
    given[count].name = PyUnicode_AsUTF8(name);
    given[count].value = PyUnicode_AsUTF8(value);
    if (given[count].name == nullptr || given[count].value == nullptr) return nullptr;
  }
  Operation operation(self);
  const int answer = cuplug_allocator_create(strategy, given, count, &self->table, &self->core);
  if (answer != CUPLUG_OK) {
    self->core = nullptr;
    raise_answer(self, answer, operation);
    return nullptr;
  }
  cuplug_allocator_set_thread_hooks(self->core, &thread_hooks);
  cuplug_allocator_set_out_of_memory_hook(self->core, ask_hook, self);
  cuplug_allocator_set_beyond_hook(self->core, tell_beyond, self);
  Py_RETURN_NONE;
}

PyObject *check_entry_method(PyObject *object, PyObject *) {
  Allocator *self = as_allocator(object);
  if (self->core != nullptr && cuplug_allocator_is_inside(self->core)) {
    raise_reentered();
    return nullptr;
  }
  return check_entry(self) < 0 ? nullptr : Py_NewRef(Py_None);
}

PyObject *observe(PyObject *object, PyObject *arguments) {
  Allocator *self = as_allocator(object);
  int on;
  PyObject *observation, *source;
  if (!PyArg_ParseTuple(arguments, "pOO:_observe", &on, &observation, &source)) return nullptr;
  Py_XSETREF(self->observation, Py_NewRef(observation));
  Py_XSETREF(self->source, source == Py_None ? nullptr : Py_NewRef(source));
  if (self->core != nullptr) cuplug_observe(self->core, on);
  self->delivers = on != 0;
  self->observed = on != 0 || self->log != nullptr;
  Py_RETURN_NONE;
}

PyObject *finish_planning(PyObject *object, PyObject *) {
  return operated(object, [](cuplug_allocator *core) {
    PyThreadState *saved = PyEval_SaveThread();
    const int answer = cuplug_finish_planning(core);
    take_lock(saved);
    return answer;
  }, none);
}

/* The core's handle, for C: a number. The allocator lives as long as the process from then on. */
PyObject *core_handle(PyObject *object, PyObject *) {
  Allocator *self = as_allocator(object);
  if (check_entry(self) < 0) return nullptr;
  if (!self->kept) Py_INCREF(object);
  self->kept = true;
  return PyLong_FromVoidPtr(self->core);
}

/* An object that the allocator keeps, or None. */
template <PyObject *Allocator::*MEMBER>
PyObject *get(PyObject *self, void *) {
  PyObject *found = as_allocator(self)->*MEMBER;
  return Py_NewRef(found == nullptr ? Py_None : found);
}

template <PyObject *Allocator::*MEMBER>
int set(PyObject *object, PyObject *value, void *) {
  Py_XSETREF(as_allocator(object)->*MEMBER, Py_XNewRef(value));
  return 0;
}

int set_limit(PyObject *object, PyObject *value, void *) {
  Allocator *self = as_allocator(object);
  uint64_t nbytes = UINT64_MAX;
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "memory_limit cannot be deleted; None means no limit");
    return -1;
  }
  if (value != Py_None && size_of(value, &nbytes) < 0) return -1;
  if (self->core != nullptr) cuplug_allocator_set_memory_limit(self->core, nbytes);
  Py_XSETREF(self->memory_limit, Py_NewRef(value));
  return 0;
}

PyObject *get_guard(PyObject *self, void *) { return PyLong_FromUnsignedLongLong(as_allocator(self)->guard); }

int set_guard(PyObject *object, PyObject *value, void *) {
  Allocator *self = as_allocator(object);
  uint64_t nbytes = 0;
  if (value == nullptr) {
    PyErr_SetString(PyExc_AttributeError, "guard cannot be deleted; 0 means none");
    return -1;
  }
  if (size_of(value, &nbytes) < 0) return -1;
  if (self->core != nullptr && cuplug_allocator_set_guard(self->core, nbytes) != CUPLUG_OK) {
    PyErr_SetString(PyExc_ValueError, "a guard of so many bytes leaves no room for blocks");
    return -1;
  }
  self->guard = nbytes;
  return 0;
}

PyObject *new_allocator(PyTypeObject *type, PyObject *, PyObject *) {
  PyObject *object = type->tp_alloc(type, 0); /* zeroed */
  if (object != nullptr) {
    as_allocator(object)->process = getpid();
    Handle *list = &as_allocator(object)->list;
    list->before = list->after = list;
  }
  return object;
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Allocator *self = as_allocator(object);
  Py_VISIT(self->upstream);
  Py_VISIT(self->on_out_of_memory);
  Py_VISIT(self->on_beyond);
  Py_VISIT(self->observation);
  Py_VISIT(self->source);
  Py_VISIT(self->log);
  return 0;
}

int clear(PyObject *object) {
  Allocator *self = as_allocator(object);
  Py_CLEAR(self->on_out_of_memory);
  Py_CLEAR(self->on_beyond);
  Py_CLEAR(self->observation);
  Py_CLEAR(self->source);
  if (self->log != nullptr && self->core != nullptr) record(self->core, nullptr);
  Py_CLEAR(self->log);
  self->observed = self->delivers = false;
  return 0;
}

void deallocate(PyObject *object) {
  Allocator *self = as_allocator(object);
  PyObject_GC_UnTrack(object);
  if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
  if (owners.forget_shortcuts != nullptr) owners.forget_shortcuts();
  /* No handle is left: each holds a reference. What the program still holds stays with the driver. */
  /* In a forked child and at the end of the interpreter upstream is not to be called: the process's end frees all. */
  if (self->core != nullptr && self->process == getpid() && !is_finalising()) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    cuplug_allocator_destroy(self->core);
    PyErr_Restore(type, value, traceback);
    self->core = nullptr;
  }
  clear(object);
  Py_CLEAR(self->upstream);
  Py_CLEAR(self->closed);
  Py_CLEAR(self->memory_limit);
  PyTypeObject *type = Py_TYPE(object);
  type->tp_free(object);
}

#define FAST(function) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function))

PyMethodDef methods[] = {
    {"allocate", FAST(allocate), METH_FASTCALL | METH_KEYWORDS, "allocate($self, nbytes, /, *, stream, library=0)\n--\n\nSee Allocator.allocate."},
    {"free", free_block, METH_O, "free($self, block, /)\n--\n\nSee Allocator.free."},
    {"give_back", give_back, METH_O, "give_back($self, block, /)\n--\n\nSee Allocator.give_back."},
    {"record_stream", record_stream, METH_VARARGS, "record_stream($self, block, stream, /)\n--\n\nSee Allocator.record_stream."},
    {"release_cached", release_cached, METH_NOARGS, "release_cached($self)\n--\n\nSee Allocator.release_cached."},
    {"forget_stream", forget_stream, METH_O, "forget_stream($self, stream, /)\n--\n\nSee Allocator.forget_stream."},
    {"release_forgotten", release_forgotten, METH_O,
     "release_forgotten($self, stream, /)\n--\n\nSee Allocator.release_forgotten."},
    {"reset_peaks", reset_peaks, METH_NOARGS, "reset_peaks($self)\n--\n\nSee Allocator.reset_peaks."},
    {"reset_accumulated", reset_accumulated, METH_NOARGS, "reset_accumulated($self)\n--\n\nSee Allocator.reset_accumulated."},
    {"close", close_allocator, METH_NOARGS, "close($self)\n--\n\nSee Allocator.close."},
    {"live_blocks", live_blocks, METH_NOARGS, "live_blocks($self)\n--\n\nSee Allocator.live_blocks."},
    {"_abandon", abandon, METH_O, nullptr},
    {"_allocate_for", allocate_for, METH_VARARGS, nullptr},
    {"_check_entry", check_entry_method, METH_NOARGS, nullptr},
    {"_core_handle", core_handle, METH_NOARGS, nullptr},
    {"_move_events", move_events, METH_O, nullptr},
    {"_observe", observe, METH_VARARGS, nullptr},
    {"_open", open_core, METH_VARARGS, nullptr},
    {"_read_segments", read_segments, METH_NOARGS, nullptr},
    {"_finish_planning", finish_planning, METH_NOARGS, nullptr},
    {"_read_served", read_served, METH_NOARGS, nullptr},
    {"_read_sleeping", read_sleeping, METH_NOARGS, nullptr},
    {"_read_statistics", read_statistics, METH_NOARGS, nullptr},
    {"_move", move_tagged, METH_VARARGS, nullptr},
    {"_sleep", put_to_sleep, METH_VARARGS, nullptr},
    {"_wake", wake, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"memory_limit", get<&Allocator::memory_limit>, set_limit, "The most bytes to reserve, or None.", nullptr},
    {"guard", get_guard, set_guard, "See Allocator.guard.", nullptr},
    {"on_out_of_memory", get<&Allocator::on_out_of_memory>, set<&Allocator::on_out_of_memory>,
     "See Allocator.on_out_of_memory.", nullptr},
    {"on_beyond", get<&Allocator::on_beyond>, set<&Allocator::on_beyond>, "See Allocator.on_beyond.", nullptr},
    {"upstream", get<&Allocator::upstream>, nullptr, "Where the memory comes from.", nullptr},
    {"_closed", get<&Allocator::closed>, nullptr, "Why it cannot be used any more, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject allocator_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.NativeAllocator";
  type.tp_basicsize = sizeof(Allocator);
  type.tp_dealloc = deallocate;
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  type.tp_doc = "The base of the strategies in C++; see cuplug.allocators.native.strategies.";
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_weaklistoffset = offsetof(Allocator, weak_references);
  type.tp_methods = methods;
  type.tp_getset = attributes;
  type.tp_new = new_allocator;
  return type;
}

}  // namespace

PyTypeObject AllocatorType = allocator_type();

}  // namespace cuplug::python
