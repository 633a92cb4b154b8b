// Random numbers in kernels.
#include <curand_kernel.h>

extern "C" __global__ void start(curandState *states, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}
extern "C" __global__ void draw(curandState *states, float *uniform, float *normal, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    curandState state = states[i];
    for (int k = 0; k < count; ++k) uniform[k * threads + i] = curand_uniform(&state);
    for (int k = 0; k < count; ++k) normal[k * threads + i] = curand_normal(&state);
    states[i] = state;
}
// The first numbers of a sequence, from an offset on.
template <class State> __device__ void begin(unsigned *out, unsigned sequence, unsigned offset) {
    State state;
    curand_init(1234567890123ull, sequence, offset, &state);
    for (int i = 0; i < 4; ++i) out[i] = curand(&state);
}
extern "C" __global__ void xorwow(unsigned *out) {
    begin<curandStateXORWOW_t>(out, 0, 0);
    begin<curandStateXORWOW_t>(out + 4, 77, 5);
}
extern "C" __global__ void philox(unsigned *out) {
    begin<curandStatePhilox4_32_10_t>(out, 0, 0);
    begin<curandStatePhilox4_32_10_t>(out + 4, 77, 5);
}
extern "C" __global__ void mrg32k3a(unsigned *out) {
    begin<curandStateMRG32k3a_t>(out, 0, 0);
    begin<curandStateMRG32k3a_t>(out + 4, 77, 5);
}
extern "C" __global__ void mrg_numbers(float *uniform, double *uniforms, float *normal, double *normals, int count) {
    curandStateMRG32k3a state;
    curand_init(0, 0, 0, &state);
    skipahead_sequence(3, &state);
    for (int i = 0; i < count; ++i) {
        uniform[i] = curand_uniform(&state);
        uniforms[i] = curand_uniform_double(&state);
        normal[i] = curand_normal(&state);
        normals[i] = curand_normal_double(&state);
    }
}
extern "C" __global__ void sobol(unsigned *vectors, unsigned *out, unsigned *scrambled, float *normal, double *uniform, int count) {
    curandStateSobol32_t state;
    curandStateScrambledSobol32_t other;
    curand_init(vectors, 5, &state);
    curand_init(vectors, 0xdeadbeefu, 5, &other);
    for (int i = 0; i < count; ++i) {
        out[i] = curand(&state);
        scrambled[i] = curand(&other);
    }
    for (int i = 0; i < count; ++i) normal[i] = curand_normal(&state);
    for (int i = 0; i < count; ++i) uniform[i] = curand_uniform_double(&state);
}
