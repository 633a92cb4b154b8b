// A whole program, as it would be compiled by nvcc: kernels, and what the host does around them.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <iostream>
#include <vector>
#include <helper_cuda.h>

cudaError_t report(cudaStream_t stream);
static cudaEvent_t finished;
#define CHECK(call)                                                                         \
    do {                                                                                    \
        cudaError_t status = (call);                                                        \
        if (status != cudaSuccess) { printf("%s\n", cudaGetErrorString(status)); exit(1); } \
    } while (0)

__host__ __device__ float half_of(float x) { return 0.5f * x; }
__device__ float square(float x) { return 4.0f * half_of(x) * half_of(x); }
void CUDART_CB called_back(void *data) { fprintf(stderr, "%s\n", (const char *)data); }
void fill(float *x, int n) {
    for (int i = 0; i < n; ++i) x[i] = rand() / (float)RAND_MAX;
}
__global__ void norms(const float *x, const float *y, float *out, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) out[i] = sqrtf(square(x[i]) + square(y[i]));
}

extern "C" void run(const float *x, const float *y, float *out, int n) {
    dim3 threads(256), blocks((n + 255) / 256);
    norms<<<blocks, threads>>>(x, y, out, n);
    CHECK(cudaGetLastError());
}
template <class T> T *room(int n) {
    T *found = NULL;
    CHECK(cudaMalloc((void **)&found, n * sizeof(T)));
    return found;
}
int main(int argc, char **argv) {
    std::vector<float> x(100, 3.0f);
    float *on_device = room<float>(100);
    if (argc > 1) {
        std::cout << "running " << argv[1] << std::endl;
    }
    run(on_device, on_device, on_device, 100);
    return 0;
}

__global__ void after(float *out) { out[0] = 1.0f; }
