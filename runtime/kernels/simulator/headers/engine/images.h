// What texture and surface objects show (CUDA C++ Programming Guide, "Texture Fetching").
#pragma once

#include <math.h>

#include "faults.h"

namespace images {

static const Image** known = nullptr;  // those that exist
static cuplug_u32 count = 0, capacity = 0;

// False if there is no memory to know one more.
static bool change(const Image* image, bool add) {
    if (add) {
        if (count == capacity) {
            const cuplug_u32 larger = capacity * 2 + 16;
            const Image** items = (const Image**)realloc(known, larger * sizeof(*known));
            if (!items) return false;
            known = items;
            capacity = larger;
        }
        known[count++] = image;
        return true;
    }
    for (cuplug_u32 i = 0; i < count; ++i)
        if (known[i] == image) known[i] = known[--count];
    return true;
}

static const Image* find(cuplug_u64 handle) {
    for (cuplug_u32 i = 0; i < count; ++i)
        if ((cuplug_u64)known[i] == handle) return known[i];
    stop(FAULT_ILLEGAL_ADDRESS, "the argument of a texture or surface function is no object that exists: bind the "
                                "texture reference, or make a cuplug.Texture and pass its handle");
}

// Where a coordinate lies on an axis of `size` texels; -1: in the border.
static long fold(long i, long size, unsigned char mode, bool normalized) {
    if (i >= 0 && i < size) return i;
    if (mode == 3) return -1;
    if (mode == 0 && normalized) return (i % size + size) % size;
    if (mode == 2 && normalized) {
        const long twice = (i % (2 * size) + 2 * size) % (2 * size);
        return twice < size ? twice : 2 * size - 1 - twice;
    }
    return i < 0 ? 0 : size - 1;
}

static float half_to_float(unsigned short bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                       : exponent     ? ldexpf((float)(mantissa | 1024), exponent - 25)
                                      : ldexpf((float)mantissa, -24);
    return bits >> 15 ? -size : size;
}

static bool gives_floats(const Image& image) { return image.kind == 'f' || image.kind == 'h' || image.normalized_values; }

// One channel of one texel: as a float, or an integer's bits.
static void read_channel(const Image& image, const char* at, float* real, cuplug_u32* bits) {
    if (image.kind == 'f') memcpy(real, at, 4);
    else if (image.kind == 'h') *real = half_to_float(*(const unsigned short*)at);
    else {
        long value = 0;
        if (image.nbytes == 1) value = image.kind == 'i' ? (long)*(const signed char*)at : (long)*(const unsigned char*)at;
        if (image.nbytes == 2) value = image.kind == 'i' ? (long)*(const short*)at : (long)*(const unsigned short*)at;
        if (image.nbytes == 4) value = image.kind == 'i' ? (long)*(const int*)at : (long)*(const unsigned*)at;
        *bits = (cuplug_u32)value;
        const float most = (float)((1l << (image.nbytes * 8 - (image.kind == 'i'))) - 1);
        *real = fmaxf((float)value / most, -1.0f);
    }
}

static void read_texel(const Image& image, long x, long y, long z, float* reals, cuplug_u32* bits) {
    for (int i = 0; i < 4; ++i) reals[i] = 0, bits[i] = 0;
    if (x < 0 || y < 0 || z < 0) return;
    const char* at = image.data + (cuplug_u64)z * image.slice + (cuplug_u64)y * image.pitch +
                     (cuplug_u64)x * image.nbytes * image.channels;
    for (int i = 0; i < image.channels && i < 4; ++i) read_channel(image, at + i * image.nbytes, reals + i, bits + i);
}

static void look(cuplug_u64 handle, Look* it) {
    const Image& image = *find(handle);
    float reals[4];
    it->is_float = gives_floats(image);
    if (!it->dimensions) {
        if (image.array)
            stop(FAULT_LAUNCH_FAILED, "tex1Dfetch of a texture with texels of its own, which GPUs cannot do: make it with "
                                      "in_place=True, or use tex1D");
        if (it->index < 0 || (cuplug_u32)it->index >= image.width) read_texel(image, -1, 0, 0, reals, it->result);
        else read_texel(image, it->index, 0, 0, reals, it->result);
        if (it->is_float) memcpy(it->result, reals, sizeof reals);
        return;
    }
    const cuplug_u32 dimensions = 1 + (image.height > 0) + (image.depth > 0);
    if (dimensions != it->dimensions) {
        char text[120];
        snprintf(text, sizeof text, "tex%uD of a texture of %u dimensions", it->dimensions, dimensions);
        stop(FAULT_LAUNCH_FAILED, text);
    }
    const long sizes[3] = {image.width, image.height ? image.height : 1, image.depth ? image.depth : 1};
    float at[3] = {it->x, it->y, it->z};
    const bool filters = image.linear && it->is_float;
    long low[3];
    float share[3];
    for (cuplug_u32 axis = 0; axis < 3; ++axis) {
        low[axis] = 0, share[axis] = 0;
        if (axis >= dimensions) continue;
        if (image.normalized_coordinates) at[axis] *= (float)sizes[axis];
        if (!(fabsf(at[axis]) < 1e9f)) at[axis] = at[axis] > 0 ? 1e9f : -1e9f;
        if (filters) {  // hardware keeps eight bits of the fraction
            const float shifted = at[axis] - 0.5f, whole = floorf(shifted);
            low[axis] = (long)whole;
            share[axis] = rintf((shifted - whole) * 256.0f) / 256.0f;
        } else {
            low[axis] = (long)floorf(at[axis]);
        }
    }
    float sum[4] = {};
    for (cuplug_u32 corner = 0; corner < (filters ? 1u << dimensions : 1u); ++corner) {
        long place[3] = {};
        float weight = 1;
        for (cuplug_u32 axis = 0; axis < dimensions; ++axis) {
            const bool upper = corner >> axis & 1;
            weight *= upper ? share[axis] : 1 - share[axis];
            place[axis] = fold(low[axis] + upper, sizes[axis], image.address[axis], image.normalized_coordinates);
        }
        if (filters && weight == 0) continue;
        read_texel(image, place[0], place[1], place[2], reals, it->result);
        for (int i = 0; i < 4; ++i) sum[i] += filters ? weight * reals[i] : reals[i];
    }
    if (it->is_float) memcpy(it->result, sum, sizeof sum);
}

static char* surface(cuplug_u64 handle, int x, int y, int z, cuplug_u32 nbytes) {
    const Image& image = *find(handle);
    const cuplug_u32 row = image.width * image.nbytes * image.channels;
    if (x < 0 || (cuplug_u32)x + nbytes > row || y < 0 || (cuplug_u32)y >= (image.height ? image.height : 1) || z < 0 ||
        (cuplug_u32)z >= (image.depth ? image.depth : 1)) {
        char text[160];
        snprintf(text, sizeof text, "a surface function beyond the edges: byte %d of %u, row %d of %u, plane %d of %u", x, row, y,
                 image.height ? image.height : 1, z, image.depth ? image.depth : 1);
        stop(FAULT_ILLEGAL_ADDRESS, text);
    }
    return image.data + (cuplug_u64)z * image.slice + (cuplug_u64)y * image.pitch + (cuplug_u64)x;
}

}  // namespace images
