// CUB's algorithms for blocks and warps, with its names and meanings (https://nvidia.github.io/cccl/unstable/cub). One
// thread adds up what all have stored, in their order: results of floats may differ from CUB's in the last place.
#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cub/cub.cuh
#include <cuda/functional>
#else
namespace cub {

struct Sum { template <class A, class B> auto operator()(const A& a, const B& b) const { return a + b; } };
struct Max { template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
struct Equality { template <class T> bool operator()(const T& a, const T& b) const { return a == b; } };
struct Inequality { template <class T> bool operator()(const T& a, const T& b) const { return !(a == b); } };
struct Difference { template <class T> T operator()(const T& a, const T& b) const { return a - b; } };
template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    K key;
    V value;
};
struct ArgMax {
    template <class T> T operator()(const T& a, const T& b) const {
        return b.value > a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class T> T operator()(const T& a, const T& b) const {
        return b.value < a.value || (a.value == b.value && b.key < a.key) ? b : a;
    }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE
};

namespace detail {
// Values in shared memory, whatever their constructors do.
template <class T, int n> struct Room {
    alignas(T) unsigned char bytes[n * sizeof(T)];
    T& operator[](int i) { return *((T*)bytes + i); }
};
template <class T, int n> struct Storage {
    Room<T, n + 1> values;
};
inline int thread() { return (int)__cuplug::self()->thread; }
}  // namespace detail

template <class T, int X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int = 0> class BlockReduce {
public:
    typedef detail::Storage<T, X * Y * Z> TempStorage;
    explicit BlockReduce(TempStorage& storage) : storage(storage) {}

    // The result is the first thread's.
    template <class F> T Reduce(T value, F combine, int valid, int line = __builtin_LINE()) {
        storage.values[detail::thread()] = value;
        __syncthreads(line);
        if (detail::thread() == 0)
            for (int i = 1; i < valid; ++i) value = combine(value, storage.values[i]);
        return value;
    }
    template <class F> T Reduce(T value, F combine) { return Reduce(value, combine, X * Y * Z); }
    template <int n, class F> T Reduce(T (&values)[n], F combine) {
        T value = values[0];
        for (int i = 1; i < n; ++i) value = combine(value, values[i]);
        return Reduce(value, combine);
    }
    T Sum(T value) { return Reduce(value, cub::Sum()); }
    T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
    template <int n> T Sum(T (&values)[n]) { return Reduce(values, cub::Sum()); }

private:
    TempStorage& storage;
};

template <class T, int X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int = 0> class BlockScan {
public:
    static constexpr int threads = X * Y * Z;
    struct TempStorage {
        detail::Room<T, threads> values;
        detail::Room<T, 1> total;
    };
    explicit BlockScan(TempStorage& storage) : storage(storage) {}

    template <class F> void InclusiveScan(T input, T& output, F combine, T& total) {
        scan(input, combine, total);
        output = storage.values[detail::thread()];
    }
    template <class F> void InclusiveScan(T input, T& output, F combine) {
        T total;
        InclusiveScan(input, output, combine, total);
    }
    template <class F> void ExclusiveScan(T input, T& output, T first, F combine, T& total) {
        scan(input, combine, total);
        output = detail::thread() ? combine(first, storage.values[detail::thread() - 1]) : first;
    }
    template <class F> void ExclusiveScan(T input, T& output, T first, F combine) {
        T total;
        ExclusiveScan(input, output, first, combine, total);
    }
    template <int n, class F> void InclusiveScan(T (&input)[n], T (&output)[n], F combine, T& total) {
        T own = input[0];
        for (int i = 1; i < n; ++i) own = combine(own, input[i]);
        scan(own, combine, total);
        for (int i = 0; i < n; ++i) {
            const bool alone = i == 0 && detail::thread() == 0;
            output[i] = alone ? input[0] : combine(i ? output[i - 1] : storage.values[detail::thread() - 1], input[i]);
        }
    }
    template <int n, class F> void InclusiveScan(T (&input)[n], T (&output)[n], F combine) {
        T total;
        InclusiveScan(input, output, combine, total);
    }
    template <int n, class F> void ExclusiveScan(T (&input)[n], T (&output)[n], T first, F combine, T& total) {
        T own = input[0];
        for (int i = 1; i < n; ++i) own = combine(own, input[i]);
        scan(own, combine, total);
        T so_far = detail::thread() ? combine(first, storage.values[detail::thread() - 1]) : first;
        for (int i = 0; i < n; ++i) {
            const T item = input[i];
            output[i] = so_far;
            so_far = combine(so_far, item);
        }
    }
    template <int n, class F> void ExclusiveScan(T (&input)[n], T (&output)[n], T first, F combine) {
        T total;
        ExclusiveScan(input, output, first, combine, total);
    }
    template <class I> void InclusiveSum(I& input, I& output) { InclusiveScan(input, output, Sum()); }
    template <class I> void InclusiveSum(I& input, I& output, T& total) { InclusiveScan(input, output, Sum(), total); }
    template <class I> void ExclusiveSum(I& input, I& output) { ExclusiveScan(input, output, T(), Sum()); }
    template <class I> void ExclusiveSum(I& input, I& output, T& total) { ExclusiveScan(input, output, T(), Sum(), total); }
    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, Sum()); }
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(), Sum()); }

private:
    TempStorage& storage;

    template <class F> void scan(T own, F combine, T& total) {
        storage.values[detail::thread()] = own;
        __syncthreads();
        if (detail::thread() == 0) {
            for (int i = 1; i < threads; ++i) storage.values[i] = combine(storage.values[i - 1], storage.values[i]);
            storage.total[0] = storage.values[threads - 1];
        }
        __syncthreads();
        total = storage.total[0];
    }
};

template <class T, int lanes = 32, int = 0> class WarpReduce {
public:
    struct TempStorage {};
    explicit WarpReduce(TempStorage&) {}

    // The result is the first lane's.
    template <class F> T Reduce(T value, F combine, int valid = lanes, int line = __builtin_LINE()) {
        const unsigned mask = lanes == 32 ? ~0u : ((1u << (lanes & 31)) - 1) << (__cuplug::lane() / lanes * lanes);
        const int rank = (int)__cuplug::lane() % lanes;
        for (int delta = 1; delta < lanes; delta *= 2) {
            T other = __shfl_down_sync(mask, value, (unsigned)delta, lanes, line);
            if (rank + delta < valid) value = combine(value, other);
        }
        return value;
    }
    T Sum(T value) { return Reduce(value, cub::Sum()); }
    T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
};

template <class T, int lanes = 32, int = 0> class WarpScan {
public:
    struct TempStorage {};
    explicit WarpScan(TempStorage&) {}

    template <class F> void InclusiveScan(T input, T& output, F combine, T& total) {
        const unsigned mask = lanes == 32 ? ~0u : ((1u << (lanes & 31)) - 1) << (__cuplug::lane() / lanes * lanes);
        const int rank = (int)__cuplug::lane() % lanes;
        output = input;
        for (int delta = 1; delta < lanes; delta *= 2) {
            T other = __shfl_up_sync(mask, output, (unsigned)delta, lanes);
            if (rank >= delta) output = combine(other, output);
        }
        total = __shfl_sync(mask, output, lanes - 1, lanes);
    }
    template <class F> void InclusiveScan(T input, T& output, F combine) {
        T total;
        InclusiveScan(input, output, combine, total);
    }
    template <class F> void ExclusiveScan(T input, T& output, T first, F combine) {
        T inclusive, total;
        InclusiveScan(input, inclusive, combine, total);
        const unsigned mask = lanes == 32 ? ~0u : ((1u << (lanes & 31)) - 1) << (__cuplug::lane() / lanes * lanes);
        T before = __shfl_up_sync(mask, inclusive, 1, lanes);
        output = __cuplug::lane() % lanes ? combine(first, before) : first;
    }
    void InclusiveSum(T input, T& output) { InclusiveScan(input, output, Sum()); }
    void InclusiveSum(T input, T& output, T& total) { InclusiveScan(input, output, Sum(), total); }
    void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(), Sum()); }
    void ExclusiveSum(T input, T& output, T& total) {
        InclusiveSum(input, output, total);
        output = output - input;
    }
};

template <class T, int X, int items, BlockLoadAlgorithm algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int = 0> class BlockLoad {
public:
    struct TempStorage {};
    BlockLoad() {}
    explicit BlockLoad(TempStorage&) {}
    template <class P> void Load(P from, T (&into)[items]) { Load(from, into, X * Y * Z * items); }
    template <class P> void Load(P from, T (&into)[items], int valid) {
        for (int i = 0; i < items; ++i)
            if (place(i) < valid) into[i] = from[place(i)];
    }
    template <class P, class D> void Load(P from, T (&into)[items], int valid, D otherwise) {
        for (int i = 0; i < items; ++i) into[i] = place(i) < valid ? (T)from[place(i)] : (T)otherwise;
    }

private:
    static int place(int i) {
        return algorithm == BLOCK_LOAD_STRIPED ? i * X * Y * Z + detail::thread() : detail::thread() * items + i;
    }
};

template <class T, int X, int items, BlockStoreAlgorithm algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int = 0>
class BlockStore {
public:
    struct TempStorage {};
    BlockStore() {}
    explicit BlockStore(TempStorage&) {}
    template <class P> void Store(P to, T (&from)[items]) { Store(to, from, X * Y * Z * items); }
    template <class P> void Store(P to, T (&from)[items], int valid) {
        for (int i = 0; i < items; ++i) {
            const int place = algorithm == BLOCK_STORE_STRIPED ? i * X * Y * Z + detail::thread() : detail::thread() * items + i;
            if (place < valid) to[place] = from[i];
        }
    }
};

template <class T, int X, int items, bool = false, int Y = 1, int Z = 1, int = 0> class BlockExchange {
public:
    static constexpr int threads = X * Y * Z;
    typedef detail::Storage<T, threads * items> TempStorage;
    explicit BlockExchange(TempStorage& storage) : storage(storage) {}
    template <class U> void StripedToBlocked(const T (&from)[items], U (&into)[items]) {
        for (int i = 0; i < items; ++i) storage.values[i * threads + detail::thread()] = from[i];
        __syncthreads();
        for (int i = 0; i < items; ++i) into[i] = storage.values[detail::thread() * items + i];
    }
    template <class U> void BlockedToStriped(const T (&from)[items], U (&into)[items]) {
        for (int i = 0; i < items; ++i) storage.values[detail::thread() * items + i] = from[i];
        __syncthreads();
        for (int i = 0; i < items; ++i) into[i] = storage.values[i * threads + detail::thread()];
    }

private:
    TempStorage& storage;
};

}  // namespace cub
#endif
