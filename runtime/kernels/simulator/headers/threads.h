// Who am I, and how threads of a block and lanes of a warp meet.
#pragma once

// In kernels these four are parameters that translate.py adds; elsewhere they are read from the worker.
#define __cuplug_threadIdx (*(const uint3*)&__cuplug::self()->threadIdx)
#define __cuplug_blockIdx (*(const uint3*)&__cuplug::self()->blockIdx)
#define __cuplug_blockDim (*(const dim3*)&__cuplug::self()->blockDim)
#define __cuplug_gridDim (*(const dim3*)&__cuplug::self()->gridDim)

static constexpr int warpSize = 32;

namespace __cuplug {

inline int barrier(int line, int reduction, int value) { return self()->api->barrier(line, reduction, value); }

inline unsigned lane() { return self()->thread & 31u; }

template <class T> inline T exchange(unsigned operation, unsigned mask, T value, unsigned argument, int width, int line,
                                     bool converging = false, bool* flag = nullptr) {
    static_assert(sizeof(T) <= 16, "warp functions take values of up to 16 bytes");
    Exchange e;
    e.operation = operation;
    e.mask = mask;
    e.value[0] = e.value[1] = 0;
    __builtin_memcpy((void*)e.value, (const void*)&value, sizeof(T));
    e.argument = argument;
    e.width = (unsigned)width;
    e.line = (unsigned)line;
    e.converging = converging;
    self()->api->exchange(&e);
    T result;
    __builtin_memcpy((void*)&result, (const void*)e.result, sizeof(T));
    if (flag) *flag = e.flag;
    return result;
}

inline unsigned ballot(unsigned mask, bool predicate, int line, bool converging = false) {
    return exchange<unsigned>(COLLECT_BALLOT, mask, predicate, 0, 32, line, converging);
}

[[noreturn]] inline void failed_assertion(const char* expression, const char* file, int line, const char* function) {
    self()->api->failed_assertion(expression, file, line, function);
}

}  // namespace __cuplug

inline void __syncthreads(int line = __builtin_LINE()) { __cuplug::barrier(line, 0, 0); }
inline int __syncthreads_count(int value, int line = __builtin_LINE()) { return __cuplug::barrier(line, 1, value); }
inline int __syncthreads_and(int value, int line = __builtin_LINE()) { return __cuplug::barrier(line, 2, value); }
inline int __syncthreads_or(int value, int line = __builtin_LINE()) { return __cuplug::barrier(line, 3, value); }

inline void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
    __cuplug::exchange<int>(__cuplug::COLLECT_SYNC, mask, 0, 0, 32, line);
}
inline unsigned __activemask(int line = __builtin_LINE()) {
    return __cuplug::exchange<unsigned>(__cuplug::COLLECT_ACTIVE, 0xffffffffu, 0, 0, 32, line, true);
}

template <class T> inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
                                        int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE, mask, value, (unsigned)lane, width, line);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                           int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_UP, mask, value, delta, width, line);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                                             int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_DOWN, mask, value, delta, width, line);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32,
                                            int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_XOR, mask, value, (unsigned)lanes, width, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(mask, predicate != 0, line);
}
inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(mask, predicate != 0, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(mask, predicate == 0, line) == 0;
}
inline int __uni_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
    unsigned yes = __cuplug::ballot(mask, predicate != 0, line);
    return yes == 0 || __cuplug::ballot(mask, predicate == 0, line) == 0;
}
template <class T> inline unsigned __match_any_sync(unsigned mask, T value, int line = __builtin_LINE()) {
    cuplug_u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return (unsigned)__cuplug::exchange<cuplug_u64>(__cuplug::COLLECT_MATCH_ANY, mask, bits, 0, 32, line);
}
template <class T> inline unsigned __match_all_sync(unsigned mask, T value, int* predicate,
                                                    int line = __builtin_LINE()) {
    cuplug_u64 bits = 0;
    bool same = false;
    __builtin_memcpy(&bits, &value, sizeof(T));
    unsigned result = (unsigned)__cuplug::exchange<cuplug_u64>(__cuplug::COLLECT_MATCH_ALL, mask, bits, 0, 32, line,
                                                               false, &same);
    *predicate = same;
    return result;
}

#define CUPLUG_REDUCE(name, T, operation)                                                            \
    inline T name(unsigned mask, T value, int line = __builtin_LINE()) {                             \
        return __cuplug::exchange<T>(__cuplug::operation, mask, value, 0, 32, line);                 \
    }
CUPLUG_REDUCE(__reduce_add_sync, unsigned, COLLECT_ADD)
CUPLUG_REDUCE(__reduce_add_sync, int, COLLECT_ADD)
CUPLUG_REDUCE(__reduce_min_sync, unsigned, COLLECT_MIN_UNSIGNED)
CUPLUG_REDUCE(__reduce_min_sync, int, COLLECT_MIN)
CUPLUG_REDUCE(__reduce_max_sync, unsigned, COLLECT_MAX_UNSIGNED)
CUPLUG_REDUCE(__reduce_max_sync, int, COLLECT_MAX)
CUPLUG_REDUCE(__reduce_and_sync, unsigned, COLLECT_AND)
CUPLUG_REDUCE(__reduce_or_sync, unsigned, COLLECT_OR)
CUPLUG_REDUCE(__reduce_xor_sync, unsigned, COLLECT_XOR)
#undef CUPLUG_REDUCE

// The forms before CUDA 9, without masks: the lanes that arrive take part.
template <class T> inline T __shfl(T value, int lane, int width = 32, int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE, ~0u, value, (unsigned)lane, width, line, true);
}
template <class T> inline T __shfl_up(T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_UP, ~0u, value, delta, width, line, true);
}
template <class T> inline T __shfl_down(T value, unsigned delta, int width = 32, int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_DOWN, ~0u, value, delta, width, line, true);
}
template <class T> inline T __shfl_xor(T value, int lanes, int width = 32, int line = __builtin_LINE()) {
    return __cuplug::exchange<T>(__cuplug::COLLECT_SHUFFLE_XOR, ~0u, value, (unsigned)lanes, width, line, true);
}
inline unsigned __ballot(int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(~0u, predicate != 0, line, true);
}
inline int __any(int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(~0u, predicate != 0, line, true) != 0;
}
inline int __all(int predicate, int line = __builtin_LINE()) {
    return __cuplug::ballot(~0u, predicate == 0, line, true) == 0;
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { __cuplug::self()->api->yield(); }
// Of launches that may overlap: here the one before has ended, and the next waits for this one's end.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}
