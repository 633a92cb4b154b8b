// half and bfloat16 in pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class H2> __device__ void pairs(const H2 *in, H2 *out) {
    H2 a = in[0], b = in[1], sum = a;
    sum += b;
    sum *= b;
    out[0] = sum;
    out[1] = -a;
    out[2] = __hmax2(a, b);
    out[3] = __hgt2(a, b);
    out[4] = h2sqrt(b);
    out[5] = __habs2(a);
    out[6] = __hsub2(a, b);
    out[7] = __hbgt2(b, a) ? b : a;
}

extern "C" __global__ void half_pairs(const half2 *in, half2 *out) {
    pairs(in, out);
    out[8] = __lows2half2(in[0], in[1]);
    out[9] = __hadd2_sat(in[0], in[1]);
    half x = in[1].y;
    ++x;
    out[10] = __halves2half2(x, __short2half_rn(__half2short_rz(x)));
}
extern "C" __global__ void bfloat_pairs(const __nv_bfloat162 *in, __nv_bfloat162 *out) {
    pairs(in, out);
    out[8] = __high2bfloat162(in[0]);
    out[9] = __float22bfloat162_rn(__bfloat1622float2(in[1]));
}
