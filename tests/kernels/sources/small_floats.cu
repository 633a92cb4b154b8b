// Floating-point numbers of 8 bits.
#include <cuda_fp8.h>

__global__ void encode(const float *x, unsigned char *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[4 * i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3);
    out[4 * i + 1] = __nv_fp8_e4m3(x[i]).__x;
    out[4 * i + 2] = __nv_cvt_double_to_fp8(x[i], __NV_NOSAT, __NV_E5M2);
    out[4 * i + 3] = __nv_fp8_e5m2((double)x[i]).__x;
}
__global__ void decode(float *out) {
    __nv_fp8_e4m3 small;
    __nv_fp8_e5m2 wide;
    small.__x = wide.__x = (unsigned char)threadIdx.x;
    out[2 * threadIdx.x] = (float)small;
    out[2 * threadIdx.x + 1] = (float)__half(__nv_cvt_fp8_to_halfraw(wide.__x, __NV_E5M2));
}
__global__ void several(const float4 *x, float4 *out, int *integers) {
    __nv_fp8x4_e4m3 all(x[0]);
    out[0] = (float4)all;
    float2 pair = (float2)__nv_fp8x2_e5m2(make_float2(x[0].x, x[0].y));
    float2 halves = __half22float2((__half2)__nv_fp8x2_e4m3(__floats2half2_rn(x[0].z, x[0].w)));
    out[1] = make_float4(pair.x, pair.y, halves.x, halves.y);
    integers[0] = (int)__nv_fp8_e4m3(-3.5f);
    integers[1] = (unsigned char)__nv_fp8_e5m2(1000);
    integers[2] = (bool)__nv_fp8_e4m3(0.0f);
}
