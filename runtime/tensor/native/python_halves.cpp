/* Conversion between float16 and float32, which NumPy does one element after the other: eight at a time, where the
 * processor has the instructions (F16C). Stateless: there is nothing to own and nothing to lock. */
#include "allocators/binding/python_binding.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define CUPLUG_HAS_F16C 1
#endif

namespace cuplug::python {

namespace {

#ifdef CUPLUG_HAS_F16C
bool has_instructions() {
  static const bool has = [] {
    unsigned a, b, c = 0, d;
    constexpr unsigned SAVES_STATE = 1U << 27, AVX = 1U << 28, F16C = 1U << 29, ALL = SAVES_STATE | AVX | F16C;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & ALL) == ALL && __builtin_cpu_supports("avx");
  }();
  return has;
}

__attribute__((target("avx,f16c"))) void widen(float *to, const uint16_t *from, Py_ssize_t count) {
  Py_ssize_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
  }
  for (; i < count; ++i) to[i] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(from[i])));
}

__attribute__((target("avx,f16c"))) void narrow(uint16_t *to, const float *from, Py_ssize_t count) {
  constexpr int NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  Py_ssize_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), NEAREST));
  }
  for (; i < count; ++i) {
    to[i] = static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(from[i]), NEAREST)));
  }
}
#else
bool has_instructions() { return false; }
void widen(float *, const uint16_t *, Py_ssize_t) {}
void narrow(uint16_t *, const float *, Py_ssize_t) {}
#endif

PyObject *convert_halves(PyObject *, PyObject *arguments) {
  PyObject *target, *source;
  if (!PyArg_ParseTuple(arguments, "OO:convert_halves", &target, &source)) return nullptr;
  if (!has_instructions()) Py_RETURN_FALSE;
  Py_buffer to, from;
  if (PyObject_GetBuffer(target, &to, PyBUF_WRITABLE) != 0) return nullptr;
  if (PyObject_GetBuffer(source, &from, PyBUF_SIMPLE) != 0) {
    PyBuffer_Release(&to);
    return nullptr;
  }
  const bool widens = to.len == 2 * from.len, narrows = from.len == 2 * to.len;
  Py_BEGIN_ALLOW_THREADS;
  if (widens) widen(static_cast<float *>(to.buf), static_cast<const uint16_t *>(from.buf), from.len / 2);
  if (narrows) narrow(static_cast<uint16_t *>(to.buf), static_cast<const float *>(from.buf), to.len / 2);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&to);
  PyBuffer_Release(&from);
  if (!widens && !narrows) {
    PyErr_SetString(PyExc_ValueError, "one buffer must be twice as long as the other");
    return nullptr;
  }
  Py_RETURN_TRUE;
}

PyMethodDef half_functions[] = {
    {"convert_halves", convert_halves, METH_VARARGS,
     "convert_halves($module, target, source, /)\n--\n\nConvert contiguous float16 to float32, or back, rounding to the "
     "nearest, and return True; False where the processor has no instruction for it."},
    {nullptr, nullptr, 0, nullptr},
};

const Part part(half_functions);

}  // namespace

}  // namespace cuplug::python
