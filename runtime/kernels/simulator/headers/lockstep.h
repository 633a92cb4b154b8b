// Shared memory through volatile pointers, as sources from before CUDA 9 use it: without __syncwarp(), in the belief that
// the lanes of a warp take every step together. Here they do so at each store: all have read before one writes, and all
// have written before one goes on.
#pragma once

namespace __cuplug {

template <class T> struct LockstepElement {
    volatile T* at;

    // Memory of the worker's own region is shared memory, or a local variable.
    bool is_global() const { return ((cuplug_u64)at & ~(REGION - 1)) != (cuplug_u64)self(); }
    void meet() const {
        if (!is_global()) exchange<int>(COLLECT_SYNC, ~0u, 0, 0, 32, 0, true);
    }
    operator T() const {
        asm volatile("" ::: "memory");
#if CUPLUG_RACES  // which takes plain accesses to global memory for races, and volatile ones not
        if constexpr (!__is_class(T))
            if (is_global()) return *at;
#endif
        return *(const T*)at;
    }
    T operator=(T value) const {
#if CUPLUG_RACES
        if constexpr (!__is_class(T))
            if (is_global()) return *at = value;
#endif
        meet();
        *(T*)at = value;
        meet();
        return value;
    }
    T operator=(const LockstepElement& other) const { return *this = (T)other; }
    volatile T* operator&() const { return at; }
#define CUPLUG_LOCKSTEP(op) \
    template <class U> T operator op##=(const U& value) const { return *this = (T)((T)*this op value); }
    CUPLUG_LOCKSTEP(+) CUPLUG_LOCKSTEP(-) CUPLUG_LOCKSTEP(*) CUPLUG_LOCKSTEP(/) CUPLUG_LOCKSTEP(%) CUPLUG_LOCKSTEP(&)
    CUPLUG_LOCKSTEP(|) CUPLUG_LOCKSTEP(^) CUPLUG_LOCKSTEP(<<) CUPLUG_LOCKSTEP(>>)
#undef CUPLUG_LOCKSTEP
    T operator++() const { return *this += 1; }
    T operator--() const { return *this -= 1; }
    T operator++(int) const { return (T)(*this += 1) - 1; }
    T operator--(int) const { return (T)(*this -= 1) + 1; }
};

// Where a source names members of elements, which are structures or unions then (CUPLUG_LOCKSTEP_MEMBERS), it gets the
// elements themselves. The lanes meet where one is named: after the right side of an assignment was read, before it is
// written. They do not meet after it: what a lane reads next has been written by the others if it reads through a volatile
// pointer too, and else perhaps not.
template <class T> volatile T& lockstep_member(volatile T* at) {
    LockstepElement<T>{at}.meet();
    return *at;
}
template <class T, bool = __is_class(T) || __is_union(T)> struct LockstepReference {
    using Type = LockstepElement<T>;
    static Type to(volatile T* at) { return {at}; }
};
#if CUPLUG_LOCKSTEP_MEMBERS
template <class T> struct LockstepReference<T, true> {
    using Type = volatile T&;
    static Type to(volatile T* at) { return lockstep_member(at); }
};
#endif

template <class T> struct LockstepPointer {
    volatile T* at;
    using Reference = LockstepReference<T>;

    template <class I> typename Reference::Type operator[](I index) const { return Reference::to(at + index); }
    typename Reference::Type operator*() const { return Reference::to(at); }
    volatile T* operator->() const { return &lockstep_member(at); }
    operator volatile T*() const { return at; }
    template <class U> explicit operator U*() const { return (U*)at; }
    template <class I> LockstepPointer operator+(I offset) const { return {at + offset}; }
    template <class I> LockstepPointer& operator+=(I offset) {
        at += offset;
        return *this;
    }
    LockstepPointer& operator=(volatile T* other) {
        at = other;
        return *this;
    }
};

template <class T> inline LockstepPointer<T> lockstep(volatile T* pointer) { return {pointer}; }
template <class T> inline LockstepPointer<T> lockstep(LockstepPointer<T> pointer) { return pointer; }

}  // namespace __cuplug
