// Intrinsics beyond those of language.cu.
#define SUMS(f, suffix) \
    f##add_##suffix(x, y), f##sub_##suffix(x, y), f##mul_##suffix(x, y), f##div_##suffix(x, y), f##rcp_##suffix(x), \
        f##sqrt_##suffix(x)

// Each result rounded to nearest, up, down and towards zero.
__global__ void directed(const float *in, float *out, const double *din, double *dout) {
    {
        float x = in[0], y = in[1], z = in[2];
        float all[4][8] = {{SUMS(__f, rn), __fmaf_rn(x, y, z), __double2float_rn(din[0])},
                           {SUMS(__f, ru), __fmaf_ru(x, y, z), __double2float_ru(din[0])},
                           {SUMS(__f, rd), __fmaf_rd(x, y, z), __double2float_rd(din[0])},
                           {SUMS(__f, rz), __fmaf_rz(x, y, z), __double2float_rz(din[0])}};
        for (int i = 0; i < 32; ++i) out[i] = all[i / 8][i % 8];
    }
    double x = din[0], y = din[1], z = din[2];
    long long big = 0x7ffffffffffffffbll;
    double all[4][8] = {{SUMS(__d, rn), __fma_rn(x, y, z), __ll2double_rn(big)},
                        {SUMS(__d, ru), __fma_ru(x, y, z), __ll2double_ru(big)},
                        {SUMS(__d, rd), __fma_rd(x, y, z), __ll2double_rd(big)},
                        {SUMS(__d, rz), __fma_rz(x, y, z), __ll2double_rz(big)}};
    for (int i = 0; i < 32; ++i) dout[i] = all[i / 8][i % 8];
}

__global__ void words(unsigned a, unsigned b, unsigned *out) {
    unsigned all[] = {
        __vadd4(a, b),   __vsub4(a, b),      __vaddus4(a, b),   __vsubus4(a, b), __vaddss4(a, b),  __vabsdiffu4(a, b),
        __vavgu4(a, b),  __vmaxs4(a, b),     __vminu4(a, b),    __vabs4(a),      __vneg4(a),       __vcmpgtu4(a, b),
        __vsetles4(a, b), __vsadu4(a, b),    __vadd2(a, b),     __vsubss2(a, b), __vmaxu2(a, b),   __vcmpeq2(a, a),
        __vsads2(a, b),  (unsigned)__dp2a_lo((int)a, (int)b, 5), __dp2a_hi(a, b, 5u), __fns(a, 0, 3), __fns(a, 31, -2),
        __fns(a, 1, 0)};
    for (int i = 0; i < 24; ++i) out[i] = all[i];
}

__global__ void functions(const double *x, double *out) {
    out[0] = cyl_bessel_i0(x[0]);
    out[1] = cyl_bessel_i1(-x[1]);
    out[2] = erfcx(x[2]);
    out[3] = norm(3, x);
    out[4] = rnorm4d(x[0], x[1], x[2], x[3]);
    out[5] = cyl_bessel_i0f((float)x[1]);
}

__global__ void extremes(unsigned a, unsigned b, unsigned c, unsigned *out, bool *first) {
    unsigned all[] = {
        __viaddmax_s16x2(a, b, c), __viaddmax_s16x2_relu(a, b, c), __viaddmin_u16x2(a, b, c),
        (unsigned)__viaddmax_s32(a, b, c), (unsigned)__viaddmin_s32_relu(a, b, c), __viaddmin_u32(a, b, c),
        __vimax3_s16x2(a, b, c), __vimin3_u16x2(a, b, c), (unsigned)__vimax3_s32_relu(a, b, c),
        __vimin3_u32(a, b, c), __vimax_s16x2_relu(a, b), (unsigned)__vimin_s32_relu(a, b),
        __vibmax_s16x2(a, b, first, first + 1), __vibmin_u16x2(a, b, first + 2, first + 3),
        (unsigned)__vibmax_s32(a, b, first + 4), __vibmin_u32(a, a, first + 5)};
    for (int i = 0; i < 16; ++i) out[i] = all[i];
}

#if CUDART_VERSION >= 12080
__global__ void ordered(int *sums, float *largest, unsigned long long *bits, const float *x) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    __nv_atomic_fetch_add(sums, i, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_max(sums + 1, i, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_fetch_or(bits, 1ull << i % 64, __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
    unsigned *words = (unsigned *)largest, old = __nv_atomic_load_n(words, __NV_ATOMIC_RELAXED);
    while (__uint_as_float(old) < x[i] &&
           !__nv_atomic_compare_exchange_n(words, &old, __float_as_uint(x[i]), false, __NV_ATOMIC_SEQ_CST,
                                           __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)) {
    }
    if (i == 0) __nv_atomic_store_n(sums + 2, 42, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE);
    if (i == 1) sums[3] = __nv_atomic_exchange_n(sums + 4, 7, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_DEVICE);
}
#endif
