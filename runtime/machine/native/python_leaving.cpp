/* The ends of `with` blocks that change what is current in a thread. Python handles signals where a function of its own
 * begins, so that Ctrl-C can keep such an `__exit__` from doing anything; one in C it enters without asking. The forms in
 * Python stand beside the classes derived from these: runtime/autograd/grad_mode.py, runtime/streams/stream.py. */
#include "allocators/binding/python_binding.h"

namespace cuplug::python {

namespace {

/* An attribute; null with an exception set, also where there is no object. */
PyObject *attribute(PyObject *object, PyObject *name) {
  return object == nullptr ? nullptr : PyObject_GetAttr(object, name);
}

/* A name as Python keeps it: made once. */
#define NAME(text) ([] { static PyObject *const made = PyUnicode_InternFromString(text); return made; }())

/* The last of a list of pairs, taken off it; null with an exception set where there is none. */
PyObject *pop_pair(PyObject *list) {
  const Py_ssize_t size = PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
  PyObject *last = size == 0 ? nullptr : PyList_GET_ITEM(list, size - 1);
  if (last == nullptr || !PyTuple_Check(last) || PyTuple_GET_SIZE(last) != 2) {
    PyErr_SetString(PyExc_IndexError, "it was left more often than it was entered");
    return nullptr;
  }
  Py_INCREF(last);
  if (PyList_SetSlice(list, size - 1, size, nullptr) < 0) Py_CLEAR(last);
  return last;
}

/* self._mode.enabled, self._mode.inference = self._before.pop() */
PyObject *leave_mode(PyObject *self, PyObject *const *, Py_ssize_t) {
  PyObject *mode = attribute(self, NAME("_mode"));
  PyObject *entered = mode == nullptr ? nullptr : attribute(self, NAME("_before"));
  PyObject *before = entered == nullptr ? nullptr : pop_pair(entered);
  const bool left = before != nullptr &&
                    PyObject_SetAttr(mode, NAME("enabled"), PyTuple_GET_ITEM(before, 0)) == 0 &&
                    PyObject_SetAttr(mode, NAME("inference"), PyTuple_GET_ITEM(before, 1)) == 0;
  Py_XDECREF(before);
  Py_XDECREF(entered);
  Py_XDECREF(mode);
  return left ? Py_NewRef(Py_None) : nullptr;
}

/* Take the innermost of this thread's contexts of this stream off their list, with those within it, and leave it. What it
 * changes comes back when it is dropped, too: where its own `__exit__`, in Python, is interrupted. */
PyObject *leave_stream(PyObject *self, PyObject *const *raised, Py_ssize_t count) {
  PyObject *here = attribute(self, NAME("_here")), *contexts = attribute(here, NAME("contexts"));
  Py_XDECREF(here);
  if (contexts == nullptr) return nullptr;
  PyObject *result = Py_NewRef(Py_None);
  const Py_ssize_t size = PyList_Check(contexts) ? PyList_GET_SIZE(contexts) : 0;
  for (Py_ssize_t at = size - 1; at >= 0; --at) {
    PyObject *context = Py_NewRef(PyList_GET_ITEM(contexts, at)), *stream = attribute(context, NAME("stream"));
    Py_XDECREF(stream); /* the context has it */
    if (stream == self) {
      PyObject *end = PyList_SetSlice(contexts, at, size, nullptr) < 0 ? nullptr : attribute(context, NAME("__exit__"));
      Py_DECREF(result);
      result = end == nullptr ? nullptr : PyObject_Vectorcall(end, raised, size_t(count), nullptr);
      Py_XDECREF(end);
    } else if (stream == nullptr) {
      Py_CLEAR(result);
    }
    Py_DECREF(context);
    if (stream == self || stream == nullptr) break;
  }
  Py_DECREF(contexts);
  return result;
}

PyMethodDef mode_methods[] = {
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave_mode)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyMethodDef stream_methods[] = {
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(leave_stream)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject base(const char *name, PyMethodDef *methods) {
  PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};
  type.tp_name = name;
  type.tp_basicsize = sizeof(PyObject);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  type.tp_methods = methods;
  type.tp_new = PyBaseObject_Type.tp_new; /* as the form in Python, which object.__new__ makes */
  return type;
}

PyTypeObject ModeLeaverType = base("cuplug.allocators._native.ModeLeaver", mode_methods);
PyTypeObject StreamLeaverType = base("cuplug.allocators._native.StreamLeaver", stream_methods);

PyMethodDef functions[] = {{nullptr, nullptr, 0, nullptr}};
Part part(functions, &ModeLeaverType, &StreamLeaverType);

}  // namespace

}  // namespace cuplug::python
