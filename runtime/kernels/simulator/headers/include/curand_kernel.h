// cuRAND's generators for kernels: XORWOW (the default), Philox, MRG32k3a and Sobol32, with the sequences that GPUs give.
#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include curand_kernel.h
#else

struct curandStateXORWOW {
    unsigned d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStatePhilox4_32_10 {
    uint4 ctr, output;
    uint2 key;
    unsigned STATE;
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStateMRG32k3a {
    unsigned s1[3], s2[3];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
struct curandStateSobol32 {
    unsigned i, x, c, direction_vectors[32];
};
struct curandStateScrambledSobol32 : curandStateSobol32 {};
typedef unsigned curandDirectionVectors32_t[32];
typedef struct curandStateMRG32k3a curandStateMRG32k3a_t;
typedef struct curandStateSobol32 curandStateSobol32_t;
typedef struct curandStateScrambledSobol32 curandStateScrambledSobol32_t;
typedef struct curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;
typedef struct curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

namespace __cuplug {

// --- XORWOW: a linear map of 160 bits, and a counter. To skip is to apply a power of the map.

struct XorwowPowers {
    static constexpr int COUNT = 67 + 64, BITS = 160;
    unsigned image[COUNT][BITS][5];  // of each bit, under the map taken 2^k times
    unsigned ready;                  // 0 no, 1 somebody is at it, 2 yes

    static void step(unsigned* v) {
        const unsigned t = v[0] ^ v[0] >> 2;
        for (int i = 0; i < 4; ++i) v[i] = v[i + 1];
        v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
    }
    void apply(int power, unsigned* v) const {
        unsigned result[5] = {};
        for (int bit = 0; bit < BITS; ++bit)
            if (v[bit / 32] >> bit % 32 & 1)
                for (int i = 0; i < 5; ++i) result[i] ^= image[power][bit][i];
        for (int i = 0; i < 5; ++i) v[i] = result[i];
    }
    void make() {
        for (int bit = 0; bit < BITS; ++bit) {
            unsigned* v = image[0][bit];
            for (int i = 0; i < 5; ++i) v[i] = i == bit / 32 ? 1u << bit % 32 : 0;
            step(v);
        }
        for (int power = 1; power < COUNT; ++power)
            for (int bit = 0; bit < BITS; ++bit) {
                unsigned* v = image[power][bit];
                for (int i = 0; i < 5; ++i) v[i] = image[power - 1][bit][i];
                apply(power - 1, v);
            }
    }
    void skip(unsigned long long count, int first, unsigned* v) {
        if (!count) return;
        unsigned expected = 0;
        if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2) {
            if (__atomic_compare_exchange_n(&ready, &expected, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
                make();
                __atomic_store_n(&ready, 2u, __ATOMIC_RELEASE);
            }
            while (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) != 2) {}
        }
        for (int power = first; count; ++power, count >>= 1)
            if (count & 1) apply(power, v);
    }
};
inline XorwowPowers xorwow_powers;

// --- Philox: a function of a counter

inline void add(uint4& counter, unsigned long long low, unsigned long long high = 0) {
    unsigned __int128 value = (unsigned __int128)((unsigned long long)counter.w << 32 | counter.z) << 64 |
                              ((unsigned long long)counter.y << 32 | counter.x);
    value += (unsigned __int128)high << 64 | low;
    counter = make_uint4((unsigned)value, (unsigned)(value >> 32), (unsigned)(value >> 64), (unsigned)(value >> 96));
}
inline uint4 philox(uint4 c, uint2 key) {
    for (int round = 0; round < 10; ++round, key.x += 0x9e3779b9u, key.y += 0xbb67ae85u) {
        const unsigned long long a = 0xd2511f53ull * c.x, b = 0xcd9e8d57ull * c.z;
        c = make_uint4((unsigned)(b >> 32) ^ c.y ^ key.x, (unsigned)b, (unsigned)(a >> 32) ^ c.w ^ key.y, (unsigned)a);
    }
    return c;
}
inline void next(curandStatePhilox4_32_10* state) {
    add(state->ctr, 1);
    state->output = philox(state->ctr, state->key);
}

// --- MRG32k3a: two linear recurrences over three numbers, whose difference counts (L'Ecuyer 1999)

constexpr unsigned long long MRG_FIRST = 4294967087ull, MRG_SECOND = 4294944443ull;

struct MrgMatrix {
    unsigned long long m[3][3];

    MrgMatrix times(const MrgMatrix& other, unsigned long long modulus) const {
        MrgMatrix result = {};
        for (int i = 0; i < 3; ++i)
            for (int j = 0; j < 3; ++j)
                for (int k = 0; k < 3; ++k) result.m[i][j] = (result.m[i][j] + m[i][k] * other.m[k][j] % modulus) % modulus;
        return result;
    }
};
// Takes `count` times 2^`doublings` steps.
inline void mrg_skip(unsigned* s, MrgMatrix step, unsigned long long modulus, unsigned long long count, int doublings) {
    for (; doublings; --doublings) step = step.times(step, modulus);
    for (; count; count >>= 1, step = step.times(step, modulus)) {
        if (!(count & 1)) continue;
        unsigned result[3];
        for (int i = 0; i < 3; ++i) {
            unsigned long long sum = 0;
            for (int k = 0; k < 3; ++k) sum = (sum + step.m[i][k] * s[k] % modulus) % modulus;
            result[i] = (unsigned)sum;
        }
        for (int i = 0; i < 3; ++i) s[i] = result[i];
    }
}
inline void mrg_skip(curandStateMRG32k3a* state, unsigned long long count, int doublings) {
    if (!count) return;
    mrg_skip(state->s1, {{{0, 1, 0}, {0, 0, 1}, {MRG_FIRST - 810728, 1403580, 0}}}, MRG_FIRST, count, doublings);
    mrg_skip(state->s2, {{{0, 1, 0}, {0, 0, 1}, {MRG_SECOND - 1370589, 0, 527612}}}, MRG_SECOND, count, doublings);
}
// A number from 1 to MRG_FIRST.
inline unsigned long long mrg(curandStateMRG32k3a* state) {
    const unsigned long long first = (1403580ull * state->s1[1] + (MRG_FIRST - 810728) * state->s1[0] % MRG_FIRST) % MRG_FIRST;
    const unsigned long long second =
        (527612ull * state->s2[2] + (MRG_SECOND - 1370589) * state->s2[0] % MRG_SECOND) % MRG_SECOND;
    for (int i = 0; i < 2; ++i) state->s1[i] = state->s1[i + 1], state->s2[i] = state->s2[i + 1];
    state->s1[2] = (unsigned)first;
    state->s2[2] = (unsigned)second;
    return first > second ? first - second : first + MRG_FIRST - second;
}
constexpr double MRG_SHARE = 2.3283065498378288e-10;  // of the whole, by which a number becomes one up to 1

template <class S> inline void reset(S* state) {
    state->boxmuller_flag = state->boxmuller_flag_double = 0;
    state->boxmuller_extra = 0.0f;
    state->boxmuller_extra_double = 0.0;
}

// --- distributions

inline float uniform(unsigned x) { return x * 2.3283064e-10f + 2.3283064e-10f / 2.0f; }
inline double uniform(unsigned x, unsigned y) {
    const unsigned long long z = (unsigned long long)x ^ (unsigned long long)y << 21;
    return z * 1.1102230246251565e-16 + 1.1102230246251565e-16 / 2.0;
}
inline float2 normal(unsigned x, unsigned y) {
    const float s = sqrtf(-2.0f * logf(uniform(x))), turn = 2.3283064e-10f * 6.2831855f;
    float2 result;
    sincosf(y * turn + turn / 2.0f, &result.x, &result.y);
    return make_float2(result.x * s, result.y * s);
}
inline double2 normal(unsigned x0, unsigned x1, unsigned y0, unsigned y1) {
    const double s = sqrt(-2.0 * log(uniform(x0, x1)));
    double2 result;
    sincospi(2.0 * uniform(y0, y1), &result.x, &result.y);
    return make_double2(result.x * s, result.y * s);
}

}  // namespace __cuplug

inline void skipahead(unsigned long long count, curandStateXORWOW* state) {
    __cuplug::xorwow_powers.skip(count, 0, state->v);
    state->d += 362437u * (unsigned)count;
}
inline void skipahead_sequence(unsigned long long count, curandStateXORWOW* state) {
    __cuplug::xorwow_powers.skip(count, 67, state->v);
}
inline void skipahead(unsigned long long count, curandStatePhilox4_32_10* state) {
    state->STATE += (unsigned)(count & 3);
    __cuplug::add(state->ctr, count / 4 + (state->STATE > 3));
    state->STATE &= 3;
    state->output = __cuplug::philox(state->ctr, state->key);
}
inline void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10* state) {
    __cuplug::add(state->ctr, 0, count);
    state->output = __cuplug::philox(state->ctr, state->key);
}

inline void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStateXORWOW* state) {
    const unsigned low = 1099087573u * ((unsigned)seed ^ 0xaad26b49u);
    const unsigned high = 2591861531u * ((unsigned)(seed >> 32) ^ 0xf7dcefddu);
    state->d = 6615241u + high + low;
    state->v[0] = 123456789u + low;
    state->v[1] = 362436069u ^ low;
    state->v[2] = 521288629u + high;
    state->v[3] = 88675123u ^ high;
    state->v[4] = 5783321u + low;
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
    __cuplug::reset(state);
}
inline void curand_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, curandStatePhilox4_32_10* state) {
    state->ctr = make_uint4(0, 0, 0, 0);
    state->key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
    state->STATE = 0;
    skipahead_sequence(sequence, state);
    skipahead(offset, state);
    __cuplug::reset(state);
}

inline unsigned curand(curandStateXORWOW* state) {
    __cuplug::XorwowPowers::step(state->v);
    state->d += 362437u;
    return state->v[4] + state->d;
}
inline unsigned curand(curandStatePhilox4_32_10* state) {
    const unsigned values[4] = {state->output.x, state->output.y, state->output.z, state->output.w};
    const unsigned result = values[state->STATE++];
    if (state->STATE == 4) {
        __cuplug::next(state);
        state->STATE = 0;
    }
    return result;
}
inline uint4 curand4(curandStatePhilox4_32_10* state) {
    const uint4 a = state->output;
    __cuplug::next(state);
    const uint4 b = state->output;
    const unsigned both[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, *from = both + state->STATE;
    return make_uint4(from[0], from[1], from[2], from[3]);
}

inline void skipahead(unsigned long long count, curandStateMRG32k3a* state) { __cuplug::mrg_skip(state, count, 0); }
inline void skipahead_subsequence(unsigned long long count, curandStateMRG32k3a* state) { __cuplug::mrg_skip(state, count, 76); }
inline void skipahead_sequence(unsigned long long count, curandStateMRG32k3a* state) { __cuplug::mrg_skip(state, count, 127); }
inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset, curandStateMRG32k3a* state) {
    const unsigned long long x[2] = {(unsigned)seed ^ 0x55555555u, (unsigned)(seed >> 32) ^ 0xaaaaaaaau};
    for (int i = 0; i < 3; ++i) {
        state->s1[i] = seed ? (unsigned)(x[i % 2] * 12345u % __cuplug::MRG_FIRST) : 12345u;
        state->s2[i] = seed ? (unsigned)(x[1 - i % 2] * 12345u % __cuplug::MRG_SECOND) : 12345u;
    }
    skipahead_subsequence(subsequence, state);
    skipahead(offset, state);
    __cuplug::reset(state);
}
inline unsigned curand(curandStateMRG32k3a* state) { return (unsigned)((double)__cuplug::mrg(state) * 1.000000048662); }
inline double curand_uniform_double(curandStateMRG32k3a* state) { return (double)__cuplug::mrg(state) * __cuplug::MRG_SHARE; }
inline float curand_uniform(curandStateMRG32k3a* state) { return (float)curand_uniform_double(state); }
inline float2 curand_normal2(curandStateMRG32k3a* state) {
    const float x = curand_uniform(state), y = curand_uniform(state) * 6.2831855f, s = sqrtf(-2.0f * logf(x));
    float2 result;
    sincosf(y, &result.x, &result.y);
    return make_float2(result.x * s, result.y * s);
}
inline double2 curand_normal2_double(curandStateMRG32k3a* state) {
    const double x = curand_uniform_double(state), y = curand_uniform_double(state), s = sqrt(-2.0 * log(x));
    double2 result;
    sincospi(2.0 * y, &result.x, &result.y);
    return make_double2(result.x * s, result.y * s);
}

// --- Sobol's sequence: as many direction vectors as bits, combined by a Gray code of the place

inline void skipahead(unsigned count, curandStateSobol32* state) {
    state->i += count;
    state->x = state->c;
    const unsigned gray = state->i ^ state->i >> 1;
    for (int bit = 0; bit < 32; ++bit)
        if (gray >> bit & 1) state->x ^= state->direction_vectors[bit];
}
inline void curand_init(const unsigned* direction_vectors, unsigned offset, curandStateSobol32* state) {
    for (int bit = 0; bit < 32; ++bit) state->direction_vectors[bit] = direction_vectors[bit];
    state->i = state->c = 0;
    skipahead(offset, state);
}
inline void curand_init(const unsigned* direction_vectors, unsigned scramble, unsigned offset, curandStateScrambledSobol32* state) {
    curand_init(direction_vectors, 0u, (curandStateSobol32*)state);
    state->c = scramble;
    skipahead(offset, state);
}
inline unsigned curand(curandStateSobol32* state) {
    const unsigned result = state->x, place = ~state->i;
    state->x ^= place ? state->direction_vectors[__builtin_ctz(place)] : 0u;
    ++state->i;
    return result;
}
inline double curand_uniform_double(curandStateSobol32* state) {
    return curand(state) * 2.3283064365386963e-10 + 2.3283064365386963e-10;
}
// One number gives one, so that the sequence keeps its order: by the inverse of the distribution.
inline float curand_normal(curandStateSobol32* state) {
    const unsigned x = curand(state);
    const bool upper = x > 0x80000000u;
    const float s = upper ? 1.41421356f : -1.41421356f;
    return s * erfcinvf(2.0f * __cuplug::uniform(upper ? ~x : x));
}
inline double curand_normal_double(curandStateSobol32* state) {
    const unsigned x = curand(state);
    const bool upper = x > 0x80000000u;
    const double s = upper ? 1.4142135623730951 : -1.4142135623730951, p = (upper ? ~x : x) * 2.3283064365386963e-10;
    return s * erfcinv(2.0 * (p + 2.3283064365386963e-10 / 2.0));
}
inline float curand_log_normal(curandStateSobol32* state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
inline double curand_log_normal_double(curandStateSobol32* state, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state));
}

template <class S> inline float curand_uniform(S* state) { return __cuplug::uniform(curand(state)); }
template <class S> inline double curand_uniform_double(S* state) {
    const unsigned x = curand(state), y = curand(state);
    return __cuplug::uniform(x, y);
}
template <class S> inline float2 curand_normal2(S* state) {
    const unsigned x = curand(state), y = curand(state);
    return __cuplug::normal(x, y);
}
template <class S> inline double2 curand_normal2_double(S* state) {
    const unsigned a = curand(state), b = curand(state), c = curand(state), d = curand(state);
    return __cuplug::normal(a, b, c, d);
}
// One of a pair; the other is kept for the next call.
template <class S> inline float curand_normal(S* state) {
    if ((state->boxmuller_flag = !state->boxmuller_flag)) {
        const float2 pair = curand_normal2(state);
        state->boxmuller_extra = pair.y;
        return pair.x;
    }
    return state->boxmuller_extra;
}
template <class S> inline double curand_normal_double(S* state) {
    if ((state->boxmuller_flag_double = !state->boxmuller_flag_double)) {
        const double2 pair = curand_normal2_double(state);
        state->boxmuller_extra_double = pair.y;
        return pair.x;
    }
    return state->boxmuller_extra_double;
}
inline float4 curand_uniform4(curandStatePhilox4_32_10* state) {
    const uint4 x = curand4(state);
    return make_float4(__cuplug::uniform(x.x), __cuplug::uniform(x.y), __cuplug::uniform(x.z), __cuplug::uniform(x.w));
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10* state) {
    const uint4 x = curand4(state);
    return make_double2(__cuplug::uniform(x.x, x.y), __cuplug::uniform(x.z, x.w));
}
inline float4 curand_normal4(curandStatePhilox4_32_10* state) {
    const uint4 x = curand4(state);
    const float2 a = __cuplug::normal(x.x, x.y), b = __cuplug::normal(x.z, x.w);
    return make_float4(a.x, a.y, b.x, b.y);
}
template <class S> inline float curand_log_normal(S* state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state));
}
template <class S> inline double curand_log_normal_double(S* state, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state));
}
template <class S> inline float2 curand_log_normal2(S* state, float mean, float deviation) {
    const float2 pair = curand_normal2(state);
    return make_float2(expf(mean + deviation * pair.x), expf(mean + deviation * pair.y));
}
// By its definition, and for large means by the normal distribution: not the numbers that GPUs give.
template <class S> inline unsigned curand_poisson(S* state, double mean) {
    if (mean > 64.0) {
        const double value = rint(mean + sqrt(mean) * curand_normal_double(state));
        return value < 0.0 ? 0u : (unsigned)value;
    }
    unsigned count = 0;
    for (double product = curand_uniform_double(state), least = exp(-mean); product > least; ++count)
        product *= curand_uniform_double(state);
    return count;
}
#endif
