// Built-in vector types with CUDA's sizes and alignments (CUDA C++ Programming Guide, "Built-in Vector Types").
#pragma once

#define CUPLUG_VECTOR(T, name, a2, a4)                                                                            \
    struct name##1 { T x; };                                                                                      \
    struct __attribute__((aligned(a2))) name##2 { T x, y; };                                                      \
    struct name##3 { T x, y, z; };                                                                                \
    struct __attribute__((aligned(a4))) name##4 { T x, y, z, w; };                                                \
    inline constexpr name##1 make_##name##1(T x) { return {x}; }                                                  \
    inline constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                          \
    inline constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                  \
    inline constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUPLUG_VECTOR(signed char, char, 2, 4)
CUPLUG_VECTOR(unsigned char, uchar, 2, 4)
CUPLUG_VECTOR(short, short, 4, 8)
CUPLUG_VECTOR(unsigned short, ushort, 4, 8)
CUPLUG_VECTOR(int, int, 8, 16)
CUPLUG_VECTOR(unsigned int, uint, 8, 16)
CUPLUG_VECTOR(long, long, 16, 16)
CUPLUG_VECTOR(unsigned long, ulong, 16, 16)
CUPLUG_VECTOR(long long, longlong, 16, 16)
CUPLUG_VECTOR(unsigned long long, ulonglong, 16, 16)
CUPLUG_VECTOR(float, float, 8, 16)
CUPLUG_VECTOR(double, double, 16, 16)
#undef CUPLUG_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

// As nvcc's host headers (<sys/types.h>) give them.
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long ssize_t;

typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef cudaTextureObject_t CUtexObject;
typedef cudaSurfaceObject_t CUsurfObject;
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };
struct cudaPitchedPtr { void* ptr; size_t pitch, xsize, ysize; };
enum cudaChannelFormatKind { cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat };
struct cudaChannelFormatDesc { int x, y, z, w; cudaChannelFormatKind f; };
typedef struct CUstream_st* cudaStream_t;
// Kernels have no use for these but as types of members and parameters.
typedef struct CUevent_st* cudaEvent_t;
enum cudaError { cudaSuccess = 0 };
typedef cudaError cudaError_t;
inline const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "unknown error"; }
inline const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaErrorUnknown"; }
