// Atomic functions of CUDA, with the compiler's atomics. All are sequentially consistent, also the _block forms.
#pragma once

// CUDA's atomic functions order nothing but themselves, which matters where races are looked for.
#define CUPLUG_ORDER (CUPLUG_RACES ? __ATOMIC_RELAXED : __ATOMIC_SEQ_CST)

namespace __cuplug {

// A thread that fails again and again waits for another: let the others of its block run.
inline void spin() {
    Worker* worker = self();
    if (++worker->spins >= 64) {
        worker->spins = 0;
        worker->api->yield();
    }
}

// The same, where a condition stands.
inline bool spun() {
    spin();
    return true;
}

// The address, which must be a multiple of the value's size: hardware has no other atomic operations.
template <class T> __attribute__((always_inline)) inline T* whole(T* address) {
#if CUPLUG_CHECKED
    if (__builtin_expect((cuplug_u64)address % sizeof(T) != 0, 0))
        self()->api->misaligned((cuplug_u64)address, sizeof(T), "an atomic operation", "", 0);
#endif
    return address;
}

template <unsigned N> struct Bits;
template <> struct Bits<2> { typedef unsigned short type; };
template <> struct Bits<4> { typedef unsigned int type; };
template <> struct Bits<8> { typedef unsigned long long type; };

// Applies `change` to the value at `address` and returns the value before. Where races are looked for, it must not begin
// with a read by itself: behind the change, nobody's change before it is in conflict with what this thread does there.
template <class T, class F> inline T update(T* address, F change) {
    typedef typename Bits<sizeof(T)>::type B;
#if CUPLUG_RACES
    B before = __atomic_fetch_or((B*)whole(address), (B)0, __ATOMIC_RELAXED);
#else
    B before = __atomic_load_n((B*)whole(address), __ATOMIC_RELAXED);
#endif
    for (;;) {
        T old, fresh;
        B after;
        __builtin_memcpy((void*)&old, &before, sizeof(T));
        fresh = change(old);
        __builtin_memcpy(&after, (const void*)&fresh, sizeof(T));
        if (__atomic_compare_exchange_n((B*)address, &before, after, false, CUPLUG_ORDER, __ATOMIC_RELAXED))
            return old;
    }
}

template <class T> inline T swap(T* address, T value) {
    typedef typename Bits<sizeof(T)>::type B;
    B bits, before;
    __builtin_memcpy(&bits, (const void*)&value, sizeof(T));
    before = __atomic_exchange_n((B*)whole(address), bits, CUPLUG_ORDER);
    T old;
    __builtin_memcpy((void*)&old, &before, sizeof(T));
    return old;
}

template <class T> inline T compare_and_swap(T* address, T compare, T value) {
    if (!__atomic_compare_exchange_n(whole(address), &compare, value, false, CUPLUG_ORDER, CUPLUG_ORDER)) spin();
    return compare;
}

}  // namespace __cuplug

#define CUPLUG_ATOMIC(scope)                                                                                          \
    CUPLUG_ATOMIC_INTEGER(scope, int)                                                                                 \
    CUPLUG_ATOMIC_INTEGER(scope, unsigned int)                                                                        \
    CUPLUG_ATOMIC_INTEGER(scope, unsigned long long)                                                                  \
    CUPLUG_ATOMIC_ORDER(scope, int)                                                                                   \
    CUPLUG_ATOMIC_ORDER(scope, unsigned int)                                                                          \
    CUPLUG_ATOMIC_ORDER(scope, long long)                                                                             \
    CUPLUG_ATOMIC_ORDER(scope, unsigned long long)                                                                    \
    inline int atomicSub##scope(int* p, int v) { return __atomic_fetch_sub(__cuplug::whole(p), v, CUPLUG_ORDER); }                 \
    inline unsigned atomicSub##scope(unsigned* p, unsigned v) { return __atomic_fetch_sub(__cuplug::whole(p), v, CUPLUG_ORDER); }  \
    inline float atomicAdd##scope(float* p, float v) {                                                                \
        return __cuplug::update(p, [=](float old) { return old + v; });                                               \
    }                                                                                                                 \
    inline double atomicAdd##scope(double* p, double v) {                                                             \
        return __cuplug::update(p, [=](double old) { return old + v; });                                              \
    }                                                                                                                 \
    inline float atomicExch##scope(float* p, float v) { return __cuplug::swap(p, v); }                                \
    inline unsigned atomicInc##scope(unsigned* p, unsigned limit) {                                                   \
        return __cuplug::update(p, [=](unsigned old) { return old >= limit ? 0u : old + 1u; });                       \
    }                                                                                                                 \
    inline unsigned atomicDec##scope(unsigned* p, unsigned limit) {                                                   \
        return __cuplug::update(p, [=](unsigned old) { return old == 0 || old > limit ? limit : old - 1u; });         \
    }                                                                                                                 \
    inline unsigned short atomicCAS##scope(unsigned short* p, unsigned short compare, unsigned short v) {             \
        return __cuplug::compare_and_swap(p, compare, v);                                                             \
    }

#define CUPLUG_ATOMIC_INTEGER(scope, T)                                                                  \
    inline T atomicAdd##scope(T* p, T v) { return __atomic_fetch_add(__cuplug::whole(p), v, CUPLUG_ORDER); }          \
    inline T atomicExch##scope(T* p, T v) { return __atomic_exchange_n(__cuplug::whole(p), v, CUPLUG_ORDER); }        \
    inline T atomicCAS##scope(T* p, T compare, T v) { return __cuplug::compare_and_swap(p, compare, v); }

#define CUPLUG_ATOMIC_ORDER(scope, T)                                                                    \
    inline T atomicMin##scope(T* p, T v) {                                                               \
        return __cuplug::update(p, [=](T old) { return v < old ? v : old; });                            \
    }                                                                                                    \
    inline T atomicMax##scope(T* p, T v) {                                                               \
        return __cuplug::update(p, [=](T old) { return v > old ? v : old; });                            \
    }                                                                                                    \
    inline T atomicAnd##scope(T* p, T v) { return __atomic_fetch_and(__cuplug::whole(p), v, CUPLUG_ORDER); }          \
    inline T atomicOr##scope(T* p, T v) { return __atomic_fetch_or(__cuplug::whole(p), v, CUPLUG_ORDER); }            \
    inline T atomicXor##scope(T* p, T v) { return __atomic_fetch_xor(__cuplug::whole(p), v, CUPLUG_ORDER); }

CUPLUG_ATOMIC()
CUPLUG_ATOMIC(_block)
CUPLUG_ATOMIC(_system)
#undef CUPLUG_ATOMIC
#undef CUPLUG_ATOMIC_INTEGER
#undef CUPLUG_ATOMIC_ORDER

// Of pairs and fours each part by itself.
inline float2 atomicAdd(float2* p, float2 v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }
inline float4 atomicAdd(float4* p, float4 v) {
    return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)};
}
