// Atomic functions that are told an order and a scope (CUDA C++ Programming Guide, "Atomic Functions"; CUDA 12.8).
#pragma once

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4

namespace __cuplug {

template <> struct Bits<1> { typedef unsigned char type; };
template <> struct Bits<16> { typedef unsigned __int128 type; };
template <class T> struct Alone { typedef T type; };  // a parameter whose type does not decide the template's
template <class T> struct Alone<volatile T> { typedef T type; };
template <class T> struct Alone<const T> { typedef T type; };
template <class T> struct Alone<const volatile T> { typedef T type; };
template <class T> using Unqualified = typename Alone<T>::type;

}  // namespace __cuplug

// Every scope is that of the system here. The orders are the compiler's, by the same numbers.
template <class T> inline void __nv_atomic_load(T* p, __cuplug::Unqualified<T>* to, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    typedef typename __cuplug::Bits<sizeof(T)>::type B;
    B bits = __atomic_load_n((B*)__cuplug::whole(p), order);
    __builtin_memcpy((void*)to, &bits, sizeof(T));
}
template <class T> inline __cuplug::Unqualified<T> __nv_atomic_load_n(T* p, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    __cuplug::Unqualified<T> value;
    __nv_atomic_load(p, &value, order);
    return value;
}
template <class T> inline void __nv_atomic_store(T* p, __cuplug::Unqualified<T>* from, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    typedef typename __cuplug::Bits<sizeof(T)>::type B;
    B bits;
    __builtin_memcpy(&bits, (const void*)from, sizeof(T));
    __atomic_store_n((B*)__cuplug::whole(p), bits, order);
}
template <class T> inline void __nv_atomic_store_n(T* p, __cuplug::Unqualified<T> value, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    __nv_atomic_store(p, &value, order);
}
template <class T>
inline __cuplug::Unqualified<T> __nv_atomic_exchange_n(T* p, __cuplug::Unqualified<T> value, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    typedef typename __cuplug::Bits<sizeof(T)>::type B;
    B bits, before;
    __builtin_memcpy(&bits, (const void*)&value, sizeof(T));
    before = __atomic_exchange_n((B*)__cuplug::whole(p), bits, order);
    __builtin_memcpy((void*)&value, &before, sizeof(T));
    return value;
}
template <class T>
inline void __nv_atomic_exchange(T* p, __cuplug::Unqualified<T>* value, __cuplug::Unqualified<T>* to, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
    *to = __nv_atomic_exchange_n(p, *value, order);
}
template <class T>
inline bool __nv_atomic_compare_exchange(T* p, __cuplug::Unqualified<T>* expected, __cuplug::Unqualified<T>* desired, bool, int success,
                                         int failure, int = __NV_THREAD_SCOPE_SYSTEM) {
    typedef typename __cuplug::Bits<sizeof(T)>::type B;
    B old, fresh;
    __builtin_memcpy(&old, (const void*)expected, sizeof(T));
    __builtin_memcpy(&fresh, (const void*)desired, sizeof(T));
    const bool changed = __atomic_compare_exchange_n((B*)__cuplug::whole(p), &old, fresh, false, success, failure);
    if (!changed) {
        __builtin_memcpy((void*)expected, &old, sizeof(T));
        __cuplug::spin();
    }
    return changed;
}
template <class T>
inline bool __nv_atomic_compare_exchange_n(T* p, __cuplug::Unqualified<T>* expected, __cuplug::Unqualified<T> desired, bool weak, int success,
                                           int failure, int = __NV_THREAD_SCOPE_SYSTEM) {
    return __nv_atomic_compare_exchange(p, expected, &desired, weak, success, failure);
}
#define CUPLUG_FETCH(name, expression)                                                                              \
    template <class T>                                                                                              \
    inline __cuplug::Unqualified<T> __nv_atomic_fetch_##name(T* p, __cuplug::Unqualified<T> v, int order,                       \
                                                       int = __NV_THREAD_SCOPE_SYSTEM) {                            \
        __cuplug::Unqualified<T> old = __nv_atomic_load_n(p, __NV_ATOMIC_RELAXED);                                        \
        while (!__nv_atomic_compare_exchange_n(p, &old, (__cuplug::Unqualified<T>)(expression), false, order, __NV_ATOMIC_RELAXED)) {} \
        return old;                                                                                                 \
    }                                                                                                               \
    template <class T>                                                                                              \
    inline void __nv_atomic_##name(T* p, __cuplug::Unqualified<T> v, int order, int = __NV_THREAD_SCOPE_SYSTEM) {         \
        __nv_atomic_fetch_##name(p, v, order);                                                                      \
    }
CUPLUG_FETCH(add, old + v)
CUPLUG_FETCH(sub, old - v)
CUPLUG_FETCH(and, old & v)
CUPLUG_FETCH(or, old | v)
CUPLUG_FETCH(xor, old ^ v)
CUPLUG_FETCH(min, v < old ? v : old)
CUPLUG_FETCH(max, v > old ? v : old)
#undef CUPLUG_FETCH
inline void __nv_atomic_thread_fence(int order, int = __NV_THREAD_SCOPE_SYSTEM) { __atomic_thread_fence(order); }
