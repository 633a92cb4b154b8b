// Sums by a warp in lockstep, of volatile structures, and a flag in one that blocks hand on.

struct Pair { float x; int n; };

__global__ void vectors(float2 *out, const float2 *in) {
    __shared__ float2 kept[64];
    unsigned t = threadIdx.x;
    kept[t] = in[t];
    __syncthreads();
    if (t < 32) {
        volatile float2 *s = kept;
        s[t].x += s[t + 32].x; s[t].y += s[t + 32].y;
        s[t].x += s[t + 16].x; s[t].y += s[t + 16].y;
        s[t].x += s[t + 8].x; s[t].y += s[t + 8].y;
        s[t].x += s[t + 4].x; s[t].y += s[t + 4].y;
        s[t].x += s[t + 2].x; s[t].y += s[t + 2].y;
        s[t].x += s[t + 1].x; s[t].y += s[t + 1].y;
    }
    if (t == 0) *out = kept[0];
}

__global__ void pairs(float2 *out, const float2 *in) {
    __shared__ volatile Pair kept[64];
    unsigned t = threadIdx.x;
    kept[t].x = in[t].x;
    kept[t].n = (int)in[t].y;
    __syncthreads();
    if (t < 32) {
        for (int d = 32; d > 0; d >>= 1) {
            (kept + t)->x = kept[t].x + (*(kept + t + d)).x;
            kept[t].n = (kept + t)->n + (kept + t + d)->n;
        }
    }
    if (t == 0) { out->x = kept[0].x; out->y = kept[0].n; }
}

__global__ void handed_on(float *x, volatile Pair *ready) {
    if (threadIdx.x) return;
    if (blockIdx.x) {
        volatile Pair *before = ready + blockIdx.x - 1;
        volatile int *flag = &ready[blockIdx.x - 1].n;
        while (!before->n || !*flag) {}
        __threadfence();
    }
    x[blockIdx.x] = blockIdx.x ? x[blockIdx.x - 1] + 1 : 1;
    __threadfence();
    (ready + blockIdx.x)->n = 1;
}

// A lane of one warp waits for a lane of another, and lanes of one warp for each other.
__global__ void awaited(int *out) {
    __shared__ Pair kept[2];
    unsigned t = threadIdx.x;
    if (t < 2) kept[t].n = 0;
    __syncthreads();
    volatile Pair *s = kept;
    if (t == 0) { while (!s->n) {} out[0] = s->n; }
    if (t == 40) s->n = 7;
    if (t == 1) { while (!s[1].n) {} out[1] = s[1].n; }
    if (t == 5) s[1].n = 8;
}
