// PyCUDA's helpers for textures: double precision and complex numbers, which textures do not know, read as texels of
// several channels, and those for surfaces, whose x counts elements here. Those for layers are left out.
#pragma once
#include "pycuda-complex.hpp"
#ifdef CUPLUG_SCAN
#pragma cuplug_include pycuda-helpers.hpp
#else
typedef float fp_tex_float;
typedef int2 fp_tex_double;
typedef float2 fp_tex_cfloat;
typedef int4 fp_tex_cdouble;

namespace pycuda {
template <class T> inline T whole(T texel) { return texel; }
inline double whole(int2 texel) { return __hiloint2double(texel.y, texel.x); }
inline complex<float> whole(float2 texel) { return {texel.x, texel.y}; }
inline complex<double> whole(int4 texel) {
    return {__hiloint2double(texel.y, texel.x), __hiloint2double(texel.w, texel.z)};
}
}  // namespace pycuda

template <class Texture> inline auto fp_tex1Dfetch(Texture t, int i) { return pycuda::whole(tex1Dfetch(t, i)); }
template <class Texture> inline auto fp_tex1D(Texture t, float x) { return pycuda::whole(tex1D(t, x)); }
template <class Texture> inline auto fp_tex2D(Texture t, float x, float y) { return pycuda::whole(tex2D(t, x, y)); }
template <class Texture> inline auto fp_tex3D(Texture t, float x, float y, float z) {
    return pycuda::whole(tex3D(t, x, y, z));
}

#define CUPLUG_FP_SURFACE(d, place, ...)                                                                             \
    template <class T> inline void fp_surf##d##Dread(T* to, cudaSurfaceObject_t s, __VA_ARGS__,                      \
                                                     cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {          \
        surf##d##Dread(to, s, place, mode);                                                                          \
    }                                                                                                                \
    template <class T> inline void fp_surf##d##Dwrite(T value, cudaSurfaceObject_t s, __VA_ARGS__,                   \
                                                      cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {         \
        surf##d##Dwrite(value, s, place, mode);                                                                      \
    }
#define CUPLUG_PLACE(...) x * (int)sizeof(T) __VA_ARGS__
CUPLUG_FP_SURFACE(1, CUPLUG_PLACE(), int x)
CUPLUG_FP_SURFACE(2, CUPLUG_PLACE(, y), int x, int y)
CUPLUG_FP_SURFACE(3, CUPLUG_PLACE(, y, z), int x, int y, int z)
#undef CUPLUG_PLACE
#undef CUPLUG_FP_SURFACE
#endif
