// Texture and surface objects, and old texture references (CUDA C++ Programming Guide, "Texture Functions", "Surface Functions"). Of each kernel's
// look the engine finds the texel, or filters several; here it becomes the type that was asked for.
#pragma once

enum cudaSurfaceBoundaryMode { cudaBoundaryModeZero, cudaBoundaryModeClamp, cudaBoundaryModeTrap };

namespace __cuplug {

// Of which channels a texel's type consists.
template <class T> struct Channels {
    static constexpr int count = 1;
    typedef T type;
};
#define CUPLUG_CHANNELS(T, name)                                                                   \
    template <> struct Channels<name##1> { static constexpr int count = 1; typedef T type; };      \
    template <> struct Channels<name##2> { static constexpr int count = 2; typedef T type; };      \
    template <> struct Channels<name##3> { static constexpr int count = 3; typedef T type; };      \
    template <> struct Channels<name##4> { static constexpr int count = 4; typedef T type; };
CUPLUG_CHANNELS(signed char, char)
CUPLUG_CHANNELS(unsigned char, uchar)
CUPLUG_CHANNELS(short, short)
CUPLUG_CHANNELS(unsigned short, ushort)
CUPLUG_CHANNELS(int, int)
CUPLUG_CHANNELS(unsigned int, uint)
CUPLUG_CHANNELS(float, float)
#undef CUPLUG_CHANNELS

template <class T> inline T texel(const Look& look) {
    typedef typename Channels<T>::type C;
    C parts[4] = {};
    for (int i = 0; i < Channels<T>::count && i < 4; ++i) {
        float value;
        __builtin_memcpy(&value, &look.result[i], sizeof value);
        parts[i] = look.is_float ? (C)value : (C)look.result[i];
    }
    T result;
    static_assert(sizeof(T) <= sizeof parts, "a texel has up to four channels of up to 32 bits");
    __builtin_memcpy((void*)&result, (const void*)parts, sizeof(T));
    return result;
}

template <class T> inline T look(cudaTextureObject_t texture, unsigned dimensions, float x, float y, float z, int index) {
    Look it;
    it.x = x, it.y = y, it.z = z;
    it.index = index;
    it.dimensions = dimensions;
    self()->api->look(texture, &it);
    return texel<T>(it);
}

}  // namespace __cuplug

template <class T> inline T tex1Dfetch(cudaTextureObject_t t, int i) { return __cuplug::look<T>(t, 0, 0, 0, 0, i); }
template <class T> inline T tex1D(cudaTextureObject_t t, float x) { return __cuplug::look<T>(t, 1, x, 0, 0, 0); }
template <class T> inline T tex2D(cudaTextureObject_t t, float x, float y) { return __cuplug::look<T>(t, 2, x, y, 0, 0); }
template <class T> inline T tex3D(cudaTextureObject_t t, float x, float y, float z) {
    return __cuplug::look<T>(t, 3, x, y, z, 0);
}
// Images have one level here, as a texture object without mipmaps.
template <class T> inline T tex1DLod(cudaTextureObject_t t, float x, float) { return tex1D<T>(t, x); }
template <class T> inline T tex2DLod(cudaTextureObject_t t, float x, float y, float) { return tex2D<T>(t, x, y); }
template <class T> inline T tex3DLod(cudaTextureObject_t t, float x, float y, float z, float) { return tex3D<T>(t, x, y, z); }
template <class T> inline void tex1Dfetch(T* to, cudaTextureObject_t t, int i) { *to = tex1Dfetch<T>(t, i); }
template <class T> inline void tex1D(T* to, cudaTextureObject_t t, float x) { *to = tex1D<T>(t, x); }
template <class T> inline void tex2D(T* to, cudaTextureObject_t t, float x, float y) { *to = tex2D<T>(t, x, y); }
template <class T> inline void tex3D(T* to, cudaTextureObject_t t, float x, float y, float z) { *to = tex3D<T>(t, x, y, z); }

// Texture references, which CUDA had until version 11: programs set `object` by the symbol of the reference's name.
#define cudaTextureType1D 1
#define cudaTextureType2D 2
#define cudaTextureType3D 3
template <class T, int dimensions = 1, cudaTextureReadMode mode = cudaReadModeElementType> struct texture {
    cudaTextureObject_t object;
};

namespace __cuplug {
template <class T, cudaTextureReadMode mode> struct ReadAs { typedef T type; };
#define CUPLUG_READ_AS(T)                                                                              \
    template <> struct ReadAs<T, cudaReadModeNormalizedFloat> { typedef float type; };                  \
    template <> struct ReadAs<T##1, cudaReadModeNormalizedFloat> { typedef float1 type; };              \
    template <> struct ReadAs<T##2, cudaReadModeNormalizedFloat> { typedef float2 type; };              \
    template <> struct ReadAs<T##4, cudaReadModeNormalizedFloat> { typedef float4 type; };
CUPLUG_READ_AS(char) CUPLUG_READ_AS(uchar) CUPLUG_READ_AS(short) CUPLUG_READ_AS(ushort)
#undef CUPLUG_READ_AS
template <class T, cudaTextureReadMode mode> using Read = typename ReadAs<T, mode>::type;
}  // namespace __cuplug

template <class T, int d, cudaTextureReadMode m> inline __cuplug::Read<T, m> tex1Dfetch(texture<T, d, m> t, int i) {
    return tex1Dfetch<__cuplug::Read<T, m>>(t.object, i);
}
template <class T, int d, cudaTextureReadMode m> inline __cuplug::Read<T, m> tex1D(texture<T, d, m> t, float x) {
    return tex1D<__cuplug::Read<T, m>>(t.object, x);
}
template <class T, int d, cudaTextureReadMode m> inline __cuplug::Read<T, m> tex2D(texture<T, d, m> t, float x, float y) {
    return tex2D<__cuplug::Read<T, m>>(t.object, x, y);
}
template <class T, int d, cudaTextureReadMode m>
inline __cuplug::Read<T, m> tex3D(texture<T, d, m> t, float x, float y, float z) {
    return tex3D<__cuplug::Read<T, m>>(t.object, x, y, z);
}

// Surface references, of the same age: such a variable is what it was set to.
#define cudaSurfaceType1D 1
#define cudaSurfaceType2D 2
#define cudaSurfaceType3D 3
template <class T, int dimensions = 1> struct surface {
    cudaSurfaceObject_t object;
    operator cudaSurfaceObject_t() const { return object; }
};

namespace __cuplug {
template <class T> inline T read_surface(cudaSurfaceObject_t surface, int x, int y, int z) {
    T value = {};
    if (const char* at = self()->api->surface(surface, x, y, z, sizeof(T))) value = *(const T*)at;
    return value;
}
template <class T> inline void write_surface(T value, cudaSurfaceObject_t surface, int x, int y, int z) {
    if (char* at = self()->api->surface(surface, x, y, z, sizeof(T))) *(T*)at = value;
}
}  // namespace __cuplug

// x counts bytes. Beyond the edges the launch ends, which is what cudaBoundaryModeTrap, the default, says.
template <class T> inline T surf1Dread(cudaSurfaceObject_t s, int x, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    return __cuplug::read_surface<T>(s, x, 0, 0);
}
template <class T> inline T surf2Dread(cudaSurfaceObject_t s, int x, int y, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    return __cuplug::read_surface<T>(s, x, y, 0);
}
template <class T> inline T surf3Dread(cudaSurfaceObject_t s, int x, int y, int z,
                                       cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    return __cuplug::read_surface<T>(s, x, y, z);
}
template <class T> inline void surf1Dread(T* to, cudaSurfaceObject_t s, int x, cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    *to = __cuplug::read_surface<T>(s, x, 0, 0);
}
template <class T> inline void surf2Dread(T* to, cudaSurfaceObject_t s, int x, int y,
                                          cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    *to = __cuplug::read_surface<T>(s, x, y, 0);
}
template <class T> inline void surf3Dread(T* to, cudaSurfaceObject_t s, int x, int y, int z,
                                          cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    *to = __cuplug::read_surface<T>(s, x, y, z);
}
template <class T> inline void surf1Dwrite(T value, cudaSurfaceObject_t s, int x,
                                           cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    __cuplug::write_surface(value, s, x, 0, 0);
}
template <class T> inline void surf2Dwrite(T value, cudaSurfaceObject_t s, int x, int y,
                                           cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    __cuplug::write_surface(value, s, x, y, 0);
}
template <class T> inline void surf3Dwrite(T value, cudaSurfaceObject_t s, int x, int y, int z,
                                           cudaSurfaceBoundaryMode = cudaBoundaryModeTrap) {
    __cuplug::write_surface(value, s, x, y, z);
}
