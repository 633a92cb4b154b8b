"""Texture and surface objects, and old texture references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CuplugError, DriverError
from cuplug.runtime.kernels import Texture
from cuplug.runtime.memory.copies import memcpy

pytestmark = pytest.mark.one_schedule

SOURCE = """
__global__ void line(float *out, cudaTextureObject_t t, float start, float step) {
    out[threadIdx.x] = tex1D<float>(t, start + step * threadIdx.x);
}
__global__ void plane(float *out, cudaTextureObject_t t, int w, float scale) {
    out[threadIdx.y * w + threadIdx.x] = tex2D<float>(t, (threadIdx.x + 0.5f) * scale, (threadIdx.y + 0.5f) * scale);
}
__global__ void space(float *out, cudaTextureObject_t t) {
    out[threadIdx.x] = tex3D<float>(t, threadIdx.x % 3 + 0.5f, threadIdx.x / 3 % 2 + 0.5f, threadIdx.x / 6 + 0.5f);
}
__global__ void colours(uchar4 *out, cudaTextureObject_t t) { out[threadIdx.x] = tex1Dfetch<uchar4>(t, threadIdx.x); }
__global__ void shares(float4 *out, cudaTextureObject_t t) { out[threadIdx.x] = tex1D<float4>(t, threadIdx.x + 0.5f); }
__global__ void fill(cudaSurfaceObject_t s) {
    surf2Dwrite(threadIdx.x + 10.0f * threadIdx.y, s, threadIdx.x * 4, threadIdx.y);
}
"""
REFERENCES = """
texture<float, cudaTextureType2D, cudaReadModeElementType> reference;
static texture<uchar4, 2, cudaReadModeNormalizedFloat> colours;
__global__ void by_reference(float *out, float4 *shares, int w) {
    out[threadIdx.x] = tex2D(reference, threadIdx.x % w, threadIdx.x / w);
    shares[threadIdx.x] = tex2D(colours, threadIdx.x % w, threadIdx.x / w);
}
"""
VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def textures(machine: Any) -> Any:
    """Makes textures, by default with texels of their own, which all devices can show in every way."""

    def make(memory: Any, shape: Any, dtype: Any, *, in_place: bool = False, **options: Any) -> Texture:
        return Texture(memory, shape, dtype, in_place=in_place, runtime=machine.runtime, **options)

    return make


def sample(machine: Any, texture: Texture, start: float, step: float, count: int) -> Any:
    out = machine.empty(count, np.float32)
    machine.module(SOURCE).get_function("line")(out, texture.handle, start, step, grid=1, block=count)
    return machine.down(out, count, np.float32)


def test_points_are_the_texels_that_coordinates_lie_in(machine: Any, textures: Any) -> None:
    texture = textures(machine.up(VALUES), (4, 6), np.float32)
    out = machine.empty(24, np.float32)
    machine.module(SOURCE).get_function("plane")(out, texture.handle, 6, 1.0, grid=1, block=(6, 4))
    assert (machine.down(out, (4, 6), np.float32) == VALUES).all()


def test_kernels_may_call_textures_and_surfaces_as_the_drivers_header_does(machine: Any, textures: Any) -> None:
    texture = textures(machine.up(VALUES), (4, 6), np.float32)
    source = """
    #include <cuda.h>
    __global__ void double_row(float *out, CUtexObject from, CUsurfObject to) {
        const float value = 2 * tex2D<float>(from, threadIdx.x + 0.5f, 1.5f);
        surf2Dwrite(value, to, threadIdx.x * 4, 0);
        out[threadIdx.x] = value;
    }"""
    out = machine.empty(6, np.float32)
    machine.module(source).get_function("double_row")(out, texture.handle, texture.surface, grid=1, block=6)
    assert (machine.down(out, 6, np.float32) == 2 * VALUES[1]).all()


def test_linear_filtering_lies_between_neighbours_with_eight_bits_of_the_fraction(machine: Any, textures: Any) -> None:
    values = np.array([0, 256, 512, 1024], np.float32)
    texture = textures(machine.up(values), 4, np.float32, filter="linear")
    expected = np.interp(np.arange(0, 4, 0.125) - 0.5, np.arange(4), values)
    assert np.allclose(sample(machine, texture, 0, 0.125, 32), expected)
    assert sample(machine, texture, 0.5 + 1 / 1024, 1, 1)[0] == 0  # a quarter of 1/256 is rounded away


@pytest.mark.parametrize(
    ("edges", "normalized", "expected"),
    [
        ("clamp", False, [1, 1, 1, 2, 3, 4, 4, 4]),
        ("border", False, [0, 0, 1, 2, 3, 4, 0, 0]),
        ("wrap", True, [3, 4, 1, 2, 3, 4, 1, 2]),
        ("mirror", True, [2, 1, 1, 2, 3, 4, 4, 3]),
        ("wrap", False, [1, 1, 1, 2, 3, 4, 4, 4]),  # for coordinates that are not normalised it is clamp
    ],
)
def test_beyond_the_edges(machine: Any, textures: Any, edges: str, normalized: bool, expected: list[float]) -> None:
    memory = machine.up(np.arange(1, 5, dtype=np.float32))
    texture = textures(memory, 4, np.float32, address=edges, normalized_coordinates=normalized)
    scale = 0.25 if normalized else 1.0
    assert sample(machine, texture, -1.5 * scale, scale, 8).tolist() == expected


def test_a_border_fades_along_the_axes_that_there_are(machine: Any, textures: Any) -> None:
    values = np.array([64, 128, 256, 512], np.float32)
    texture = textures(machine.up(values), 4, np.float32, filter="linear", address="border")
    expected = np.interp(np.arange(-1, 6, 0.25) - 0.5, np.arange(-1, 5), [0, *values, 0])
    assert np.allclose(sample(machine, texture, -1, 0.25, 28), expected)


def test_three_dimensions_channels_and_shares_of_integers(machine: Any, textures: Any) -> None:
    module = machine.module(SOURCE)
    cube = np.arange(12, dtype=np.float32)
    texture = textures(machine.up(cube), (2, 2, 3), np.float32)
    out = machine.empty(12, np.float32)
    module.get_function("space")(out, texture.handle, grid=1, block=12)
    assert (machine.down(out, 12, np.float32) == cube).all()
    pixels = np.arange(0, 240, 6, dtype=np.uint8)
    memory = machine.up(pixels)
    texture = textures(memory, 10, np.uint8, channels=4, in_place=True)
    out = machine.empty(40, np.uint8)
    module.get_function("colours")(out, texture.handle, grid=1, block=10)
    assert (machine.down(out, 40, np.uint8) == pixels).all()
    texture = textures(memory, 10, np.uint8, channels=4, normalized_values=True)
    out = machine.empty(40, np.float32)
    module.get_function("shares")(out, texture.handle, grid=1, block=10)
    assert np.allclose(machine.down(out, 40, np.float32), pixels / 255)


def test_a_texture_reference_shows_what_it_is_bound_to(machine: Any, textures: Any) -> None:
    module = machine.module(REFERENCES)
    pixels = np.arange(96, dtype=np.uint8)
    colours = textures(machine.up(pixels), (4, 6), np.uint8, channels=4, normalized_values=True)
    module.get_texref("colours").bind(colours)
    out, shares = machine.empty(24, np.float32), machine.empty(96, np.float32)
    for values in (VALUES, VALUES[::-1]):
        texture = textures(machine.up(values), (4, 6), np.float32)
        module.get_texref("reference").bind(texture)
        module.get_function("by_reference")(out, shares, 6, grid=1, block=24)
        assert (machine.down(out, (4, 6), np.float32) == values).all()
        assert np.allclose(machine.down(shares, 96, np.float32), pixels / 255)


def test_surfaces_write_texels(machine: Any, textures: Any) -> None:
    texture, memory = textures(machine.up(VALUES), (4, 6), np.float32), machine.empty((4, 6), np.float32)
    machine.module(SOURCE).get_function("fill")(texture.surface, grid=1, block=(6, 3))
    texture.copy_to(memory)
    expected = np.concatenate((np.arange(6) + 10 * np.arange(3)[:, None], VALUES[3:]))
    assert (machine.down(memory, (4, 6), np.float32) == expected).all()
    texture.copy_from(machine.up(VALUES))
    texture.copy_to(memory)
    assert (machine.down(memory, (4, 6), np.float32) == VALUES).all()


@pytest.mark.needs_sim
def test_surfaces_end_at_their_edges(machine: Any, textures: Any) -> None:
    texture = textures(machine.up(VALUES), (4, 6), np.float32)
    machine.module(SOURCE).get_function("fill")(texture.surface, grid=1, block=(7, 4))
    with pytest.raises(DriverError, match="byte 24 of 24, row 0 of 4"):
        machine.synchronize()


@pytest.mark.parametrize("pitch", [24, 32])
def test_rows_of_memory_may_lie_apart(machine: Any, textures: Any, pitch: int) -> None:
    padded = np.zeros((4, pitch // 4), np.float32)
    padded[:, :6] = VALUES
    texture, memory = textures(machine.up(padded), (4, 6), np.float32, pitch=pitch), machine.zeros((4, 8), np.float32)
    texture.copy_to(memory, pitch=32)
    assert (machine.down(memory, (4, 8), np.float32)[:, :6] == VALUES).all()


def test_memory_that_is_shown_in_place_shows_what_is_written_there(machine: Any, textures: Any) -> None:
    padded = np.zeros((4, 128), np.float32)
    padded[:, :6] = VALUES
    memory, out = machine.up(padded), machine.empty(24, np.float32)
    texture = textures(memory, (4, 6), np.float32, pitch=512, in_place=True)
    plane = machine.module(SOURCE).get_function("plane")
    for values in (padded, padded + 1):
        memcpy(memory, values, runtime=machine.runtime)
        plane(out, texture.handle, 6, 1.0, grid=1, block=(6, 4))
        assert (machine.down(out, (4, 6), np.float32) == values[:, :6]).all()
    with pytest.raises(CuplugError, match="in place"):
        texture.copy_to(memory)


@pytest.mark.needs_sim
def test_a_fetch_by_index_needs_memory_in_place_as_on_gpus(machine: Any, textures: Any) -> None:
    texture, out = textures(machine.up(VALUES), 6, np.uint8, channels=4), machine.empty(24, np.uint8)
    machine.module(SOURCE).get_function("colours")(out, texture.handle, grid=1, block=6)
    with pytest.raises(DriverError, match="in_place=True, or use tex1D"):
        machine.synchronize()


@pytest.mark.needs_sim
@pytest.mark.parametrize("level", [0, 3])
def test_the_level_of_a_texture_is_ignored_since_there_is_one(machine: Any, textures: Any, level: int) -> None:
    source = "__global__ void f(float *o, cudaTextureObject_t t, float l) { *o = tex2DLod<float>(t, 2.5f, 1.5f, l); }"
    texture, out = textures(machine.up(VALUES), (4, 6), np.float32), machine.empty(1, np.float32)
    machine.module(source).get_function("f")(out, texture.handle, float(level), grid=1, block=1)
    assert machine.down(out, 1, np.float32)[0] == VALUES[1, 2]


@pytest.mark.needs_sim
def test_a_number_that_is_no_texture_is_an_illegal_address(machine: Any) -> None:
    out = machine.empty(4, np.float32)
    machine.module(SOURCE).get_function("line")(out, 0x1234, 0, 1, grid=1, block=4)
    with pytest.raises(DriverError, match="no object that exists"):
        machine.synchronize()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"shape": (0, 4)}, "shape"),
        ({"channels": 3}, "1, 2 or 4"),
        ({"dtype": np.float64}, "float64"),
        ({"filter": "cubic"}, "filter"),
        ({"dtype": np.int16, "filter": "linear"}, "normalized_values"),
        ({"dtype": np.int32, "normalized_values": True}, "8 and 16 bits alone"),
        ({"shape": (40, 40)}, "needs 6400 bytes of memory, which has 96"),
        ({"pitch": 4}, "a row has 16"),
    ],
)
def test_what_no_texture_has_is_refused(machine: Any, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        Texture(machine.up(VALUES), **{"shape": 4, "dtype": np.float32, **options}, runtime=machine.runtime)
