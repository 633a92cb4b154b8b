/* The extension module cuplug.allocators._native. */
#include "python_binding.h"

#include <initializer_list>

namespace cuplug::python {

Names names;
Owners owners;
Tracing tracing;

namespace {

Part *parts = nullptr; /* constant before any of them is made: they come in no order */

int find_names() {
  PyObject *errors = PyImport_ImportModule("cuplug.allocators.errors");
  if (errors == nullptr) return -1;
  names.cuplug_error = PyObject_GetAttrString(errors, "CuplugError");
  names.driver_error = PyObject_GetAttrString(errors, "DriverError");
  names.out_of_memory_error = PyObject_GetAttrString(errors, "OutOfMemoryError");
  names.invalid_free_error = PyObject_GetAttrString(errors, "InvalidFreeError");
  names.allocate = PyUnicode_InternFromString("allocate");
  names.stream = PyUnicode_InternFromString("stream");
  names.allocator = PyUnicode_InternFromString("allocator");
  names.give_back = PyUnicode_InternFromString("give_back");
  names.live = PyUnicode_InternFromString("live");
  names.address = PyUnicode_InternFromString("address");
  Py_DECREF(errors);
  PyObject *events = PyImport_ImportModule("cuplug.allocators.events");
  PyObject *kinds = events == nullptr ? nullptr : PyObject_GetAttrString(events, "EventKind");
  names.event_kinds[0] = Py_NewRef(Py_None);
  for (int kind = 1; kinds != nullptr && kind <= 20; ++kind) {
    names.event_kinds[kind] = PyObject_CallFunction(kinds, "i", kind);
  }
  Py_XDECREF(kinds);
  Py_XDECREF(events);
  return PyErr_Occurred() ? -1 : 0;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "cuplug.allocators._native", "The native allocators, and owners of their blocks.", -1,
    nullptr, nullptr, nullptr, nullptr, nullptr,
};

int fill(PyObject *module) {
  for (PyTypeObject *type : {&AllocatorType, &BlockType}) {
    if (PyModule_AddType(module, type) < 0) return -1;
  }
  for (const Part *part = parts; part != nullptr; part = part->next) {
    for (PyTypeObject *type : part->types) {
      if (type != nullptr && PyModule_AddType(module, type) < 0) return -1;
    }
    if (PyModule_AddFunctions(module, part->functions) < 0) return -1;
  }
  return PyModule_AddFunctions(module, packing_functions) < 0 || PyModule_AddFunctions(module, tag_functions) < 0 ||
                 PyModule_AddIntConstant(module, "VERSION", CUPLUG_ALLOCATOR_VERSION) < 0
             ? -1
             : 0;
}

}  // namespace

Part::Part(PyMethodDef *added_functions, PyTypeObject *first_type, PyTypeObject *second_type)
    : functions(added_functions), types{first_type, second_type}, next(parts) {
  parts = this;
}

}  // namespace cuplug::python

PyMODINIT_FUNC PyInit__native() {
  using namespace cuplug::python;
  if (!is_main_interpreter() || find_names() < 0) return nullptr;
  PyObject *module = PyModule_Create(&definition);
  if (module != nullptr && fill(module) < 0) Py_CLEAR(module);
  return module;
}
