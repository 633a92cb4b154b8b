// Memory that kernels allocate, and objects with virtual functions in it.
struct Shape {
    int size;
    __device__ Shape(int size) : size(size) {}
    __device__ virtual int area() const = 0;
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    __device__ Square(int size) : Shape(size) {}
    __device__ int area() const override { return size * size; }
};
struct Line : Shape {
    __device__ Line(int size) : Shape(size) {}
    __device__ int area() const override { return size; }
};
__device__ Shape **shapes;

extern "C" __global__ void create(int count) {
    shapes = new Shape *[count];
    for (int i = 0; i < count; ++i) {
        if (i % 2) shapes[i] = new Square(i);
        else shapes[i] = new Line(i);
    }
}
extern "C" __global__ void measure(int *out) { out[threadIdx.x] = shapes[threadIdx.x]->area(); }
extern "C" __global__ void destroy(int count) {
    for (int i = 0; i < count; ++i) delete shapes[i];
    delete[] shapes;
}

// One piece for a block.
extern "C" __global__ void reversed(int *out) {
    __shared__ int *piece;
    if (threadIdx.x == 0) piece = (int *)malloc(blockDim.x * sizeof(int));
    __syncthreads();
    piece[threadIdx.x] = threadIdx.x + 1;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = piece[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(piece);
}
extern "C" __global__ void too_much(int *out) { out[0] = malloc((size_t)1 << 40) == NULL; }
extern "C" __global__ void beyond(int n) {
    volatile int *piece = (volatile int *)malloc(4 * sizeof(int));
    piece[n] = 1;
}
extern "C" __global__ void after_free(int *out) {
    volatile int *piece = new int(3);
    delete piece;
    out[0] = *piece;
}
