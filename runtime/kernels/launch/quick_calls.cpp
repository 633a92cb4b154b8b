/* The extension module cuplug.runtime.kernels.launch._quick_calls: what every small operation does besides CUDA's own
   work, without running Python code. Each has a form in Python, which says what it does and which is used where this
   module was not built: Launcher, Copier and Executor what they are given as `python`, Maker the class whose objects it makes. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "allocators/binding/interpreter_lock.h"

namespace {

PyObject *name_device, *name_stream;

/* What the types share: their objects are called, and are collected with what they refer to. A type says in `visit` and
   `clear` what that is. */
struct Callable {
  PyObject_HEAD
  vectorcallfunc vectorcall;
};

/* One that leaves what is unusual to its form in Python. */
struct Quick : Callable {
  PyObject *python;

  int visit(visitproc visit, void *arg) {
    Py_VISIT(python);
    return 0;
  }
  void clear() { Py_CLEAR(python); }
};

template <typename T>
T &as(PyObject *self) {
  return static_cast<T &>(*reinterpret_cast<Callable *>(self));
}

template <typename T>
int traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  return as<T>(self).visit(visit, arg);
}

template <typename T>
void deallocate(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  as<T>(self).clear();
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

/* Add a type to the module, whose objects `make` makes. */
template <typename T>
bool add(PyObject *module, const char *name, const char *doc, newfunc make) {
  PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char *>(doc)},
      {Py_tp_new, reinterpret_cast<void *>(make)},
      {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
      {Py_tp_traverse, reinterpret_cast<void *>(traverse<T>)},
      {Py_tp_dealloc, reinterpret_cast<void *>(deallocate<T>)},
      {Py_tp_members, members},
      {0, nullptr},
  };
  PyType_Spec spec = {name, sizeof(T), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  PyObject *type = PyType_FromSpec(&spec);
  const bool added = type != nullptr && PyModule_AddType(module, reinterpret_cast<PyTypeObject *>(type)) == 0;
  Py_XDECREF(type);
  return added;
}

/* CUlaunchConfig, and the keys of the array `extra` (CUDA driver API, "Execution Control"). */
struct Config {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned attribute_count;
};
using Launch = int (*)(const Config *, void *, void **, void **);
void *const BUFFER_POINTER = reinterpret_cast<void *>(1), *const BUFFER_SIZE = reinterpret_cast<void *>(2);

/* A launch takes its parameter block on the stack: it has no state, so that threads need not take turns. */
constexpr Py_ssize_t MOST_BYTES = 4096, MOST_VALUES = 64;

struct Launcher : Quick {
  Launch launch;
  void *function;
  Config config;
  long long device;
  unsigned long long per_thread;
  Py_ssize_t count, size, fixed;
  char letters[MOST_VALUES];
  unsigned short places[MOST_VALUES];
  unsigned char *before;

  void clear() {
    PyMem_Free(before);
    Quick::clear();
  }
};

Py_ssize_t width(char letter) {
  switch (letter) {
    case 'P': case 'Q': case 'q': case 'd': return 8;
    case 'I': case 'i': case 'f': return 4;
    case 'H': case 'h': return 2;
    case 'B': case 'b': case '?': return 1;
    default: return 0;
  }
}

template <typename T>
bool put_small(unsigned char *at, PyObject *value, long long low, long long high) {
  if (!PyLong_Check(value)) return false;
  int overflow;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow != 0 || number < low || number > high) return false;
  const T written = static_cast<T>(number);
  std::memcpy(at, &written, sizeof written);
  return true;
}

/* Whether `value` could be written as the module struct writes it. What is unusual is left to Python, which raises. */
bool put(unsigned char *at, char letter, PyObject *value) {
  switch (letter) {
    case 'P':
    case 'Q': {
      if (!PyLong_Check(value)) return false;
      const unsigned long long number = PyLong_AsUnsignedLongLong(value);
      if (number == ~0ULL && PyErr_Occurred()) return false;
      std::memcpy(at, &number, sizeof number);
      return true;
    }
    case 'q': return put_small<int64_t>(at, value, LLONG_MIN, LLONG_MAX);
    case 'I': return put_small<uint32_t>(at, value, 0, UINT32_MAX);
    case 'i': return put_small<int32_t>(at, value, INT32_MIN, INT32_MAX);
    case 'H': return put_small<uint16_t>(at, value, 0, UINT16_MAX);
    case 'h': return put_small<int16_t>(at, value, INT16_MIN, INT16_MAX);
    case 'B': return put_small<uint8_t>(at, value, 0, UINT8_MAX);
    case 'b': return put_small<int8_t>(at, value, INT8_MIN, INT8_MAX);
    case '?': {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) return false;
      *at = static_cast<unsigned char>(truth);
      return true;
    }
    default: {
      const double number = PyFloat_AsDouble(value);
      if (number == -1.0 && PyErr_Occurred()) return false;
      if (letter == 'd') {
        std::memcpy(at, &number, sizeof number);
        return true;
      }
      if (std::isfinite(number) && std::fabs(number) > FLT_MAX) return false;  // C++ does not say what is made of it
      const float written = static_cast<float>(number);
      std::memcpy(at, &written, sizeof written);
      return true;
    }
  }
}

/* An attribute of `current` that is a whole number from 0 to 2**64 - 1; false if it is not. */
bool read(PyObject *current, PyObject *name, unsigned long long *number) {
  PyObject *found = PyObject_GetAttr(current, name);
  if (found == nullptr) return false;
  *number = PyLong_Check(found) ? PyLong_AsUnsignedLongLong(found) : ~0ULL;
  Py_DECREF(found);
  return *number != ~0ULL;
}

/* launcher(current, *values) */
PyObject *call_launcher(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  const Launcher &launcher = as<Launcher>(self);
  unsigned long long device, stream;
  alignas(16) unsigned char block[MOST_BYTES];
  bool fits = PyVectorcall_NARGS(flags) == launcher.count + 1 && keywords == nullptr &&
              read(arguments[0], name_device, &device) && device == static_cast<unsigned long long>(launcher.device) &&
              read(arguments[0], name_stream, &stream) && stream < launcher.per_thread;
  if (fits) {
    std::memcpy(block, launcher.before, static_cast<size_t>(launcher.fixed));
    std::memset(block + launcher.fixed, 0, static_cast<size_t>(launcher.size - launcher.fixed));  // what lies between
    for (Py_ssize_t i = 0; fits && i < launcher.count; ++i) {
      fits = put(block + launcher.places[i], launcher.letters[i], arguments[i + 1]);
    }
  }
  if (fits) {
    Config config = launcher.config;
    config.stream = reinterpret_cast<void *>(stream);
    size_t size = static_cast<size_t>(launcher.size);
    void *extra[] = {BUFFER_POINTER, block, BUFFER_SIZE, &size, nullptr};
    int status;
    PyThreadState *saved = PyEval_SaveThread();
    status = launcher.launch(&config, launcher.function, nullptr, size == 0 ? nullptr : extra);
    cuplug::python::take_lock(saved);
    if (status == 0) Py_RETURN_NONE;
  }
  PyErr_Clear();
  return PyObject_Vectorcall(launcher.python, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

/* Launcher(launch, function, grid, block, letters, before, device, per_thread, python) */
PyObject *new_launcher(PyTypeObject *type, PyObject *arguments, PyObject *) {
  unsigned long long launch, function, per_thread;
  Config config{};
  const char *letters, *before;
  Py_ssize_t count, fixed;
  long long device;
  PyObject *python;
  if (!PyArg_ParseTuple(arguments, "KK(III)(III)s#y#LKO:Launcher", &launch, &function, &config.grid[0], &config.grid[1],
                        &config.grid[2], &config.block[0], &config.block[1], &config.block[2], &letters, &count, &before,
                        &fixed, &device, &per_thread, &python)) {
    return nullptr;
  }
  Py_ssize_t size = 0;
  unsigned short places[MOST_VALUES];
  bool fits = count <= MOST_VALUES && fixed <= MOST_BYTES;
  for (Py_ssize_t i = 0; fits && i < count; ++i) {
    const Py_ssize_t bytes = width(letters[i]);
    fits = bytes != 0;
    if (!fits) break;
    size = (size + bytes - 1) / bytes * bytes;  // native alignment, counted from the first value, as struct's "@"
    places[i] = static_cast<unsigned short>(fixed + size);
    size += bytes;
  }
  if (!fits || fixed + size > MOST_BYTES) {
    PyErr_SetString(PyExc_ValueError, "these parameters are left to the form in Python");
    return nullptr;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Launcher &made = as<Launcher>(self);
  made.vectorcall = call_launcher;
  made.launch = reinterpret_cast<Launch>(launch);
  made.function = reinterpret_cast<void *>(function);
  made.config = config;
  made.device = device;
  made.per_thread = per_thread;
  made.count = count;
  made.size = fixed + size;
  made.fixed = fixed;
  std::memcpy(made.letters, letters, static_cast<size_t>(count));
  std::memcpy(made.places, places, sizeof places);
  made.python = Py_NewRef(python);
  made.before = static_cast<unsigned char *>(PyMem_Calloc(1, static_cast<size_t>(fixed) + 1));
  if (made.before == nullptr) {
    Py_DECREF(self);
    return PyErr_NoMemory();
  }
  std::memcpy(made.before, before, static_cast<size_t>(fixed));
  return self;
}

/* Copies so many bytes from one address of a device to another. */
using Copy = int (*)(unsigned long long, unsigned long long, size_t, void *);
using Current = int (*)(void **);

struct Copier : Quick {
  Copy copy;
  Current current;
  void *context;
  size_t nbytes;
  unsigned long long device, per_thread;
};

/* copier(current, target, source) */
PyObject *call_copier(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  const Copier &copier = as<Copier>(self);
  unsigned long long device, stream, target, source;
  void *context = nullptr;
  // The default stream is that of the context that is current in CUDA: another library may have changed it.
  if (PyVectorcall_NARGS(flags) == 3 && keywords == nullptr && read(arguments[0], name_device, &device) &&
      device == copier.device && read(arguments[0], name_stream, &stream) && stream < copier.per_thread &&
      put(reinterpret_cast<unsigned char *>(&target), 'P', arguments[1]) &&
      put(reinterpret_cast<unsigned char *>(&source), 'P', arguments[2]) && target != 0 && source != 0 &&
      copier.current(&context) == 0 && context == copier.context) {
    int status;
    PyThreadState *saved = PyEval_SaveThread();
    status = copier.copy(target, source, copier.nbytes, reinterpret_cast<void *>(stream));
    cuplug::python::take_lock(saved);
    if (status == 0) Py_RETURN_NONE;
  }
  PyErr_Clear();
  return PyObject_Vectorcall(copier.python, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

/* Copier(copy, current, context, nbytes, device, per_thread, python) */
PyObject *new_copier(PyTypeObject *type, PyObject *arguments, PyObject *) {
  unsigned long long copy, current, context, nbytes, device, per_thread;
  PyObject *python;
  if (!PyArg_ParseTuple(arguments, "KKKKKKO:Copier", &copy, &current, &context, &nbytes, &device, &per_thread, &python)) {
    return nullptr;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Copier &made = as<Copier>(self);
  made.vectorcall = call_copier;
  made.copy = reinterpret_cast<Copy>(copy);
  made.current = reinterpret_cast<Current>(current);
  made.context = reinterpret_cast<void *>(context);
  made.nbytes = static_cast<size_t>(nbytes);
  made.device = device;
  made.per_thread = per_thread;
  made.python = Py_NewRef(python);
  return self;
}

/* Runs one of cuDNN's plans with tensors and working memory at the addresses that it is given: makes the descriptor that
   names them, a variant pack, executes the plan with it and destroys it. */
constexpr Py_ssize_t MOST_TENSORS = 32;

using CreateDescriptor = int (*)(int, void **);
using SetAttribute = int (*)(void *, int, int, int64_t, const void *);
using OfDescriptor = int (*)(void *);
using Execute = int (*)(void *, void *, void *);

struct Executor : Quick {
  CreateDescriptor create;
  SetAttribute set;
  OfDescriptor finalize, destroy;
  Execute execute;
  Current current;
  void *context, *plan;
  int pack, names[3], kinds[3];
  Py_ssize_t count;
};

int run_plan(const Executor &executor, void *handle, void *workspace, void *const *addresses) {
  int64_t numbers[MOST_TENSORS];
  for (Py_ssize_t i = 0; i < executor.count; ++i) numbers[i] = i + 1;
  const void *const values[] = {numbers, addresses, &workspace};
  const int64_t counts[] = {executor.count, executor.count, 1};
  void *pack = nullptr;
  int status = executor.create(executor.pack, &pack);
  if (status != 0) return status;
  for (int i = 0; i < 3 && status == 0; ++i) {
    status = executor.set(pack, executor.names[i], executor.kinds[i], counts[i], values[i]);
  }
  if (status == 0) status = executor.finalize(pack);
  if (status == 0) status = executor.execute(handle, executor.plan, pack);
  executor.destroy(pack);
  return status;
}

/* executor(handle, workspace, *addresses) */
PyObject *call_executor(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  const Executor &executor = as<Executor>(self);
  void *given[MOST_TENSORS + 2], *context = nullptr;
  bool fits = PyVectorcall_NARGS(flags) == executor.count + 2 && keywords == nullptr;
  for (Py_ssize_t i = 0; fits && i < executor.count + 2; ++i) {
    fits = put(reinterpret_cast<unsigned char *>(&given[i]), 'P', arguments[i]);
  }
  // cuDNN works in the context that is current in CUDA: another library may have changed it.
  if (fits && (executor.current == nullptr || (executor.current(&context) == 0 && context == executor.context))) {
    int status;
    PyThreadState *saved = PyEval_SaveThread();
    status = run_plan(executor, given[0], given[1], given + 2);
    cuplug::python::take_lock(saved);
    if (status == 0) Py_RETURN_NONE;
  }
  PyErr_Clear();
  return PyObject_Vectorcall(executor.python, arguments, flags & ~PY_VECTORCALL_ARGUMENTS_OFFSET, keywords);
}

/* Executor((create, set, finalize, execute, destroy), current, context, plan, count, pack, (name, kind) of three
   attributes: numbers, addresses and workspace, python) */
PyObject *new_executor(PyTypeObject *type, PyObject *arguments, PyObject *) {
  unsigned long long create, set, finalize, execute, destroy, current, context, plan;
  Py_ssize_t count;
  int pack, names[3], kinds[3];
  PyObject *python;
  if (!PyArg_ParseTuple(arguments, "(KKKKK)KKKni(ii)(ii)(ii)O:Executor", &create, &set, &finalize, &execute, &destroy,
                        &current, &context, &plan, &count, &pack, &names[0], &kinds[0], &names[1], &kinds[1], &names[2],
                        &kinds[2], &python)) {
    return nullptr;
  }
  if (count < 0 || count > MOST_TENSORS) {
    PyErr_SetString(PyExc_ValueError, "so many tensors are left to the form in Python");
    return nullptr;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Executor &made = as<Executor>(self);
  made.vectorcall = call_executor;
  made.create = reinterpret_cast<CreateDescriptor>(create);
  made.set = reinterpret_cast<SetAttribute>(set);
  made.finalize = reinterpret_cast<OfDescriptor>(finalize);
  made.destroy = reinterpret_cast<OfDescriptor>(destroy);
  made.execute = reinterpret_cast<Execute>(execute);
  made.current = reinterpret_cast<Current>(current);
  made.context = reinterpret_cast<void *>(context);
  made.plan = reinterpret_cast<void *>(plan);
  made.count = count;
  made.pack = pack;
  std::memcpy(made.names, names, sizeof names);
  std::memcpy(made.kinds, kinds, sizeof kinds);
  made.python = Py_NewRef(python);
  return self;
}

/* Makes objects of one class from the values of its slots, some of which are the same in all. */
constexpr Py_ssize_t MOST_SLOTS = 16;

struct Maker : Callable {
  PyTypeObject *made;
  Py_ssize_t given, least, all;
  Py_ssize_t offsets[MOST_SLOTS];
  PyObject *defaults[MOST_SLOTS];

  int visit(visitproc visit, void *arg) {
    Py_VISIT(made);
    for (Py_ssize_t i = 0; i < all; ++i) Py_VISIT(defaults[i]);
    return 0;
  }
  void clear() {
    for (Py_ssize_t i = 0; i < all; ++i) Py_CLEAR(defaults[i]);
    Py_CLEAR(made);
  }
};

PyObject *call_maker(PyObject *self, PyObject *const *arguments, size_t flags, PyObject *keywords) {
  const Maker &maker = as<Maker>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  if (keywords != nullptr || count < maker.least || count > maker.given) {
    PyErr_Format(PyExc_TypeError, "%zd to %zd values are expected, without names", maker.least, maker.given);
    return nullptr;
  }
  PyObject *made = maker.made->tp_alloc(maker.made, 0);
  if (made == nullptr) return nullptr;
  char *start = reinterpret_cast<char *>(made);
  for (Py_ssize_t i = 0; i < maker.all; ++i) {
    PyObject *value = i < count ? arguments[i] : maker.defaults[i];
    *reinterpret_cast<PyObject **>(start + maker.offsets[i]) = Py_NewRef(value);
  }
  return made;
}

/* Maker(made, names, given, defaults): sets the slots `names`; the first `given` values may be given, the last have
   `defaults` where they are not. */
PyObject *new_maker(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyTypeObject *made;
  PyObject *names, *defaults;
  Py_ssize_t given;
  if (!PyArg_ParseTuple(arguments, "O!O!nO!:Maker", &PyType_Type, &made, &PyTuple_Type, &names, &given, &PyTuple_Type,
                        &defaults)) {
    return nullptr;
  }
  const Py_ssize_t all = PyTuple_GET_SIZE(names), least = all - PyTuple_GET_SIZE(defaults);
  if (all > MOST_SLOTS || least < 0 || given < least || given > all) {
    PyErr_SetString(PyExc_ValueError, "names, defaults and how many are given do not fit");
    return nullptr;
  }
  PyObject *self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Maker &maker = as<Maker>(self);
  maker.vectorcall = call_maker;
  maker.made = reinterpret_cast<PyTypeObject *>(Py_NewRef(reinterpret_cast<PyObject *>(made)));
  maker.given = given;
  maker.least = least;
  for (Py_ssize_t i = 0; i < all; ++i) {
    PyObject *slot = PyObject_GetAttr(reinterpret_cast<PyObject *>(made), PyTuple_GET_ITEM(names, i));
    if (slot == nullptr || !PyObject_TypeCheck(slot, &PyMemberDescr_Type)) {
      if (slot != nullptr) PyErr_Format(PyExc_TypeError, "%R is no slot of %s", PyTuple_GET_ITEM(names, i), made->tp_name);
      Py_XDECREF(slot);
      Py_DECREF(self);
      return nullptr;
    }
    maker.offsets[i] = reinterpret_cast<PyMemberDescrObject *>(slot)->d_member->offset;
    Py_DECREF(slot);
    if (i >= least) maker.defaults[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - least));
    maker.all = i + 1;
  }
  return self;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "cuplug.runtime.kernels.launch._quick_calls", "Launches, and objects made from their slots.", -1,
    nullptr, nullptr, nullptr, nullptr, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__quick_calls() {
  if (!cuplug::python::is_main_interpreter()) return nullptr;
  name_device = PyUnicode_InternFromString("device");
  name_stream = PyUnicode_InternFromString("stream");
  if (name_device == nullptr || name_stream == nullptr) return nullptr;
  PyObject *module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
#define NAMED(type) "cuplug.runtime.kernels.launch._quick_calls." type
  if (!add<Launcher>(module, NAMED("Launcher"), "Launches one kernel with one geometry.", new_launcher) ||
      !add<Copier>(module, NAMED("Copier"), "Copies so many bytes within one device.", new_copier) ||
      !add<Executor>(module, NAMED("Executor"), "Runs one of cuDNN's plans.", new_executor) ||
      !add<Maker>(module, NAMED("Maker"), "Makes objects of one class from the values of their slots.", new_maker)) {
    Py_CLEAR(module);
  }
  return module;
}
