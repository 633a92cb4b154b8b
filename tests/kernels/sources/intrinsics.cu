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
