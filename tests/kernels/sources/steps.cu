// Programs of accesses that a test draws at random. A parameter is a thread's own: reading it tells nobody anything.
struct Step {
    int operation, by_thread, by_block, offset, from, to;
};
struct Program {
    int count;
    Step steps[10];
};

__device__ int place(const Step &s) { return s.by_thread * (int)threadIdx.x + s.by_block * (int)blockIdx.x + s.offset; }

__device__ void access(const Step &s, int value, float *x, float *sum) {
    double *y = (double *)x;
    float4 *z = (float4 *)x;
    unsigned char *bytes = (unsigned char *)x;
    int at = place(s);
    switch (s.operation) {
        case 0: *sum += x[at]; break;
        case 1: x[at] = value; break;
        case 2: *sum += x[at]; break;
        case 3: x[at] = -value; break;
        case 4: *sum += y[at / 2]; break;
        case 5: y[at / 2] = value; break;
        case 6: *sum += z[at / 4].w; break;
        case 7: z[at / 4] = make_float4(value, 1, 2, 3); break;
        case 8: *sum += bytes[at]; break;
        case 9: bytes[at] = value; break;
        case 10: x[at] += 1; break;
        case 11: x[at] = 7; break;
    }
}

__global__ void apart(Program program, float *x) {
    float sum = 0;
    for (int i = 0; i < program.count; ++i) {
        const Step &s = program.steps[i];
        if (s.from <= (int)threadIdx.x && (int)threadIdx.x < s.to) access(s, 100 * i + threadIdx.x, x, &sum);
    }
}

__global__ void together(Program program, float *x) {
    __shared__ float shared[160];
    float sum = 0;
    for (int i = 0; i < program.count; ++i) {
        const Step &s = program.steps[i];
        if (s.operation == 12) __syncthreads();
        if (s.operation == 13) __syncwarp();
        if (s.from > (int)threadIdx.x || (int)threadIdx.x >= s.to) continue;
        if (s.operation == 19) __nanosleep(1);  // others go on
        else if (s.operation == 14) __threadfence();
        else if (s.operation == 15) atomicAdd(&x[place(s)], 1.0f);
        else if (s.operation == 16) atomicExch(&x[s.offset], 2.0f);
        else if (s.operation == 17) shared[threadIdx.x + s.by_block] = i;
        else if (s.operation == 18) sum += shared[threadIdx.x * s.by_thread % 160];
        else access(s, 100 * i + threadIdx.x, x, &sum);
    }
}

// As `together`, of shared memory that is all zero.
__global__ void in_shared(Program program, float *x) {
    __shared__ __align__(16) float shared[2048];
    float sum = 0;
    for (int i = threadIdx.x; i < 2048; i += blockDim.x) shared[i] = 0;
    __syncthreads();
    for (int i = 0; i < program.count; ++i) {
        const Step &s = program.steps[i];
        if (s.operation == 12) __syncthreads();
        if (s.operation == 13) __syncwarp();
        if (s.from > (int)threadIdx.x || (int)threadIdx.x >= s.to) continue;
        if (s.operation == 19) __nanosleep(1);
        else if (s.operation == 14) __threadfence_block();
        else if (s.operation == 15) atomicAdd(&shared[place(s)], 1.0f);
        else if (s.operation == 16) atomicExch(&shared[s.offset], 2.0f);
        else if (s.operation < 12) access(s, 100 * i + threadIdx.x, shared, &sum);
    }
}
