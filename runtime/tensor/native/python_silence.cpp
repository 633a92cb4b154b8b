/* Silent: calls a function while NumPy says nothing of overflows and the like. See `_silent` in `numpy_kernels.py`, which
 * does the same in Python. It is called with the interpreter's lock held, which guards the contexts, too. */
#include "allocators/binding/python_binding.h"

#include <structmember.h>

#include <vector>

namespace cuplug::python {

namespace {

struct Silent {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject *function, *make_context;
  bool writes;
};

constexpr Py_ssize_t MOST_ARGUMENTS = 8;
std::vector<PyObject *> contexts; /* in which NumPy is silent, and which nothing runs in at the moment */
PyObject *named_out;

/* silent(*arguments); where it `writes`, the first of them is the function's argument `out`. */
PyObject *call_silent(PyObject *object, PyObject *const *given, size_t flags, PyObject *keywords) {
  const Silent &silent = *reinterpret_cast<Silent *>(object);
  const Py_ssize_t count = PyVectorcall_NARGS(flags);
  PyObject *arguments[MOST_ARGUMENTS]; /* of a function that writes */
  if (keywords != nullptr || (silent.writes && (count < 1 || count > MOST_ARGUMENTS))) {
    PyErr_SetString(PyExc_TypeError, "arguments are expected by position, and few where the first is written");
    return nullptr;
  }
  if (silent.writes) {
    for (Py_ssize_t i = 1; i < count; ++i) arguments[i - 1] = given[i];
    arguments[count - 1] = given[0];
  }
  PyObject *context;
  if (contexts.empty()) {
    context = PyObject_CallNoArgs(silent.make_context);
    if (context == nullptr) return nullptr;
  } else {
    context = contexts.back();
    contexts.pop_back();
  }
  PyObject *made = nullptr;
  if (PyContext_Enter(context) == 0) {
    made = silent.writes ? PyObject_Vectorcall(silent.function, arguments, static_cast<size_t>(count - 1), named_out)
                         : PyObject_Vectorcall(silent.function, given, static_cast<size_t>(count), nullptr);
    if (PyContext_Exit(context) < 0) Py_CLEAR(made);
  }
  contexts.push_back(context);
  return made;
}

/* Silent(function, writes, make_context) */
PyObject *new_silent(PyTypeObject *type, PyObject *arguments, PyObject *) {
  PyObject *function, *make_context;
  int writes;
  if (!PyArg_ParseTuple(arguments, "OpO:Silent", &function, &writes, &make_context)) return nullptr;
  if (named_out == nullptr && (named_out = Py_BuildValue("(s)", "out")) == nullptr) return nullptr;
  PyObject *object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  Silent &silent = *reinterpret_cast<Silent *>(object);
  silent.vectorcall = call_silent;
  silent.function = Py_NewRef(function);
  silent.make_context = Py_NewRef(make_context);
  silent.writes = writes != 0;
  return object;
}

int traverse(PyObject *object, visitproc visit, void *arg) {
  Py_VISIT(reinterpret_cast<Silent *>(object)->function);
  Py_VISIT(reinterpret_cast<Silent *>(object)->make_context);
  return 0;
}

int clear(PyObject *object) {
  Py_CLEAR(reinterpret_cast<Silent *>(object)->function);
  Py_CLEAR(reinterpret_cast<Silent *>(object)->make_context);
  return 0;
}

void deallocate(PyObject *object) {
  PyObject_GC_UnTrack(object);
  clear(object);
  Py_TYPE(object)->tp_free(object);
}

PyMemberDef silent_members[] = {
    {"writes", T_BOOL, offsetof(Silent, writes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject silent_type() {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = "cuplug.allocators._native.Silent";
  type.tp_basicsize = sizeof(Silent);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_doc = "Calls a function while NumPy says nothing of overflows and the like.";
  type.tp_new = new_silent;
  type.tp_dealloc = deallocate;
  type.tp_traverse = traverse;
  type.tp_clear = clear;
  type.tp_call = PyVectorcall_Call;
  type.tp_members = silent_members;
  type.tp_vectorcall_offset = offsetof(Silent, vectorcall);
  return type;
}

PyTypeObject SilentType = silent_type();

PyMethodDef no_functions[] = {{nullptr, nullptr, 0, nullptr}};

const Part part(no_functions, &SilentType);

}  // namespace

}  // namespace cuplug::python
