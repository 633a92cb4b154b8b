/* Takes the interpreter's lock, for a thread that let go of it or comes from elsewhere.
 *
 * A thread that asks for the lock once the interpreter ends is itself ended there (before Python 3.14): by an exit that
 * unwinds its stack, and so through frames of C++ whose destructors must not throw, which ends the process by
 * std::terminate. Here the unwinding stops before it reaches them: the thread waits until the process ends, as a thread
 * does in later Pythons. All of the extension's code takes the lock by these functions.
 *
 * A thread that is inside Python lets go of the lock and asks for it there, too, and is ended there. Then the unwinding
 * passes frames of C++ that had the lock when they called Python, and their destructors run without it. Those that use
 * Python call `stay_if_ended` first.
 */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <unistd.h>

namespace cuplug::python {

/* Whether the interpreter ends. Needs no lock. */
inline bool is_finalising() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

[[noreturn]] inline void wait_for_the_end() {
  for (;;) pause();
}

/* The calling thread's state, if it has the lock; before Python 3.12 that of whoever has it. Needs no lock. */
inline PyThreadState *state_in_force() {
#if PY_VERSION_HEX >= 0x030D0000
  return PyThreadState_GetUnchecked();
#else
  return _PyThreadState_UncheckedGet();
#endif
}

/* In a destructor, before it uses Python: whether the interpreter has ended this thread, which had the state `own` when it
 * had the lock. Then it waits here until the process ends. `own` is not looked into: the interpreter has freed it. */
inline void stay_if_ended(PyThreadState *own) noexcept {
  if (is_finalising() && state_in_force() != own) wait_for_the_end();
}

/* Whether this is the main interpreter. PyGILState_Ensure knows no other: in a sub-interpreter it would wait for a lock that
 * its own thread holds. If it is not, an ImportError is set. */
inline bool is_main_interpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(PyExc_ImportError, "a sub-interpreter, which the native core does not serve");
  return false;
}

/* Take the lock again with the state that PyEval_SaveThread returned. */
inline void take_lock(PyThreadState *state) noexcept {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    wait_for_the_end();
  }
}

/* Take the lock in a thread in any state. */
inline PyGILState_STATE ensure_lock() noexcept {
  try {
    return PyGILState_Ensure();
  } catch (...) {
    wait_for_the_end();
  }
}

}  // namespace cuplug::python
