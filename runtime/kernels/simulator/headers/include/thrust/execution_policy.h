// thrust's algorithms as kernels call them, one thread by itself: thrust::seq, or thrust::device within a kernel; and as
// functions of the host call them, without a policy.
#pragma once
#include <algorithm>
#include <iterator>
#include <thrust/functional.h>
#include <thrust/pair.h>
#include <thrust/tuple.h>
namespace thrust {
namespace detail {
struct sequential_policy {};
typedef const sequential_policy& Policy;
}  // namespace detail
static constexpr detail::sequential_policy seq{}, device{};

namespace detail {
template <class I> using value_of = typename std::iterator_traits<I>::value_type;

template <class I, class Less> __host__ __device__ void sift(I first, long root, long count, Less less) {
    for (long child = 2 * root + 1; child < count; root = child, child = 2 * root + 1) {
        if (child + 1 < count && less(first[child], first[child + 1])) ++child;
        if (!less(first[root], first[child])) return;
        auto kept = first[root];
        first[root] = first[child];
        first[child] = kept;
    }
}
}  // namespace detail

template <class I, class Less> __host__ __device__ void stable_sort(detail::Policy, I first, I last, Less less) {
    for (I end = first; end != last; ++end) {
        detail::value_of<I> value = *end;
        I place = end;
        for (; place != first && less(value, *(place - 1)); --place) *place = *(place - 1);
        *place = value;
    }
}
template <class I> __host__ __device__ void stable_sort(detail::Policy policy, I first, I last) {
    stable_sort(policy, first, last, less<detail::value_of<I>>());
}
template <class I, class Less> __host__ __device__ void sort(detail::Policy policy, I first, I last, Less less) {
    const long count = (long)(last - first);
    if (count < 32) return stable_sort(policy, first, last, less);
    for (long root = count / 2; root-- > 0;) detail::sift(first, root, count, less);
    for (long end = count - 1; end > 0; --end) {
        auto kept = first[0];
        first[0] = first[end];
        first[end] = kept;
        detail::sift(first, 0, end, less);
    }
}
template <class I> __host__ __device__ void sort(detail::Policy policy, I first, I last) {
    sort(policy, first, last, less<detail::value_of<I>>());
}
template <class K, class V, class Less>
__host__ __device__ void stable_sort_by_key(detail::Policy, K first, K last, V values, Less less) {
    for (long end = 0; end < (long)(last - first); ++end) {
        detail::value_of<K> key = first[end];
        detail::value_of<V> value = values[end];
        long place = end;
        for (; place > 0 && less(key, first[place - 1]); --place) {
            first[place] = first[place - 1];
            values[place] = values[place - 1];
        }
        first[place] = key;
        values[place] = value;
    }
}
template <class K, class V> __host__ __device__ void stable_sort_by_key(detail::Policy policy, K first, K last, V values) {
    stable_sort_by_key(policy, first, last, values, less<detail::value_of<K>>());
}
template <class K, class V, class Less>
__host__ __device__ void sort_by_key(detail::Policy policy, K first, K last, V values, Less less) {
    stable_sort_by_key(policy, first, last, values, less);
}
template <class K, class V> __host__ __device__ void sort_by_key(detail::Policy policy, K first, K last, V values) {
    stable_sort_by_key(policy, first, last, values);
}

template <class I, class T, class F> __host__ __device__ T reduce(detail::Policy, I first, I last, T total, F add) {
    for (; first != last; ++first) total = add(total, *first);
    return total;
}
template <class I, class T> __host__ __device__ T reduce(detail::Policy policy, I first, I last, T total) {
    return reduce(policy, first, last, total, plus<T>());
}
template <class I> __host__ __device__ detail::value_of<I> reduce(detail::Policy policy, I first, I last) {
    return reduce(policy, first, last, detail::value_of<I>());
}
template <class I, class U, class T, class F>
__host__ __device__ T transform_reduce(detail::Policy, I first, I last, U change, T total, F add) {
    for (; first != last; ++first) total = add(total, change(*first));
    return total;
}
template <class I, class J, class T> __host__ __device__ T inner_product(detail::Policy, I first, I last, J other, T total) {
    for (; first != last; ++first, ++other) total = total + *first * *other;
    return total;
}
template <class I, class O, class F> __host__ __device__ O inclusive_scan(detail::Policy, I first, I last, O out, F add) {
    if (first == last) return out;
    detail::value_of<I> total = *first;
    for (*out++ = total; ++first != last;) *out++ = total = add(total, *first);
    return out;
}
template <class I, class O> __host__ __device__ O inclusive_scan(detail::Policy policy, I first, I last, O out) {
    return inclusive_scan(policy, first, last, out, plus<detail::value_of<I>>());
}
template <class I, class O, class T, class F>
__host__ __device__ O exclusive_scan(detail::Policy, I first, I last, O out, T total, F add) {
    for (; first != last; ++first) {
        const T next = add(total, *first);
        *out++ = total;
        total = next;
    }
    return out;
}
template <class I, class O, class T>
__host__ __device__ O exclusive_scan(detail::Policy policy, I first, I last, O out, T total) {
    return exclusive_scan(policy, first, last, out, total, plus<T>());
}
template <class I, class O> __host__ __device__ O exclusive_scan(detail::Policy policy, I first, I last, O out) {
    return exclusive_scan(policy, first, last, out, detail::value_of<I>());
}
template <class I, class F> __host__ __device__ I for_each(detail::Policy, I first, I last, F f) {
    for (; first != last; ++first) f(*first);
    return first;
}
template <class I, class O, class F> __host__ __device__ O transform(detail::Policy, I first, I last, O out, F f) {
    for (; first != last; ++first) *out++ = f(*first);
    return out;
}
template <class I, class J, class O, class F>
__host__ __device__ O transform(detail::Policy, I first, I last, J other, O out, F f) {
    for (; first != last; ++first, ++other) *out++ = f(*first, *other);
    return out;
}
template <class I, class O> __host__ __device__ O copy(detail::Policy, I first, I last, O out) {
    for (; first != last; ++first) *out++ = *first;
    return out;
}
template <class I, class O, class F> __host__ __device__ O copy_if(detail::Policy, I first, I last, O out, F wanted) {
    for (; first != last; ++first)
        if (wanted(*first)) *out++ = *first;
    return out;
}
template <class I, class T> __host__ __device__ void fill(detail::Policy, I first, I last, const T& value) {
    for (; first != last; ++first) *first = value;
}
template <class I> __host__ __device__ void sequence(detail::Policy, I first, I last) {
    detail::value_of<I> value = 0;
    for (; first != last; ++first) *first = value++;
}
template <class I, class T> __host__ __device__ I find(detail::Policy, I first, I last, const T& value) {
    while (first != last && !(*first == value)) ++first;
    return first;
}
template <class I, class T> __host__ __device__ long count(detail::Policy, I first, I last, const T& value) {
    long found = 0;
    for (; first != last; ++first) found += *first == value;
    return found;
}
template <class I, class F> __host__ __device__ long count_if(detail::Policy, I first, I last, F wanted) {
    long found = 0;
    for (; first != last; ++first) found += wanted(*first) ? 1 : 0;
    return found;
}
template <class I, class Less> __host__ __device__ I max_element(detail::Policy, I first, I last, Less less) {
    I best = first;
    for (; first != last; ++first)
        if (less(*best, *first)) best = first;
    return best;
}
template <class I> __host__ __device__ I max_element(detail::Policy policy, I first, I last) {
    return max_element(policy, first, last, less<detail::value_of<I>>());
}
template <class I, class Less> __host__ __device__ I min_element(detail::Policy, I first, I last, Less less) {
    I best = first;
    for (; first != last; ++first)
        if (less(*first, *best)) best = first;
    return best;
}
template <class I> __host__ __device__ I min_element(detail::Policy policy, I first, I last) {
    return min_element(policy, first, last, less<detail::value_of<I>>());
}
template <class I, class T> __host__ __device__ I lower_bound(detail::Policy, I first, I last, const T& value) {
    for (long count = (long)(last - first); count > 0;) {
        const long half = count / 2;
        if (first[half] < value) first += half + 1, count -= half + 1;
        else count = half;
    }
    return first;
}
template <class I, class T> __host__ __device__ I upper_bound(detail::Policy, I first, I last, const T& value) {
    for (long count = (long)(last - first); count > 0;) {
        const long half = count / 2;
        if (value < first[half]) count = half;
        else first += half + 1, count -= half + 1;
    }
    return first;
}
template <class I, class T> __host__ __device__ bool binary_search(detail::Policy policy, I first, I last, const T& value) {
    const I found = lower_bound(policy, first, last, value);
    return found != last && !(value < *found);
}
template <class I> __host__ __device__ I unique(detail::Policy, I first, I last) {
    if (first == last) return last;
    I kept = first;
    while (++first != last)
        if (!(*kept == *first)) *++kept = *first;
    return ++kept;
}
template <class I> __host__ __device__ void reverse(detail::Policy, I first, I last) {
    for (; first != last && first != --last; ++first) {
        auto kept = *first;
        *first = *last;
        *last = kept;
    }
}

// Each of them without a policy.
#define CUPLUG_WITHOUT_POLICY(name)                                                              \
    template <class I, class... A> __host__ __device__ auto name(I first, I last, A... others) {  \
        return name(seq, first, last, others...);                                                \
    }
CUPLUG_WITHOUT_POLICY(stable_sort) CUPLUG_WITHOUT_POLICY(sort) CUPLUG_WITHOUT_POLICY(stable_sort_by_key)
CUPLUG_WITHOUT_POLICY(sort_by_key) CUPLUG_WITHOUT_POLICY(reduce) CUPLUG_WITHOUT_POLICY(transform_reduce)
CUPLUG_WITHOUT_POLICY(inner_product) CUPLUG_WITHOUT_POLICY(inclusive_scan) CUPLUG_WITHOUT_POLICY(exclusive_scan)
CUPLUG_WITHOUT_POLICY(for_each) CUPLUG_WITHOUT_POLICY(transform) CUPLUG_WITHOUT_POLICY(copy)
CUPLUG_WITHOUT_POLICY(copy_if) CUPLUG_WITHOUT_POLICY(fill) CUPLUG_WITHOUT_POLICY(sequence)
CUPLUG_WITHOUT_POLICY(find) CUPLUG_WITHOUT_POLICY(count) CUPLUG_WITHOUT_POLICY(count_if)
CUPLUG_WITHOUT_POLICY(max_element) CUPLUG_WITHOUT_POLICY(min_element) CUPLUG_WITHOUT_POLICY(lower_bound)
CUPLUG_WITHOUT_POLICY(upper_bound) CUPLUG_WITHOUT_POLICY(binary_search) CUPLUG_WITHOUT_POLICY(unique)
CUPLUG_WITHOUT_POLICY(reverse)
#undef CUPLUG_WITHOUT_POLICY
}  // namespace thrust
