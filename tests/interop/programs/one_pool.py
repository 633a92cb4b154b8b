"""Libraries in turn allocate, fill, check and free memory of one pool on three streams.

``one_pool.py OPERATIONS SEED LIBRARY...``: prints a JSON object with what was done.
"""

from __future__ import annotations

import gc
import json
import random
import sys

import cuplug
import cuplug.interop
import numpy as np

operations, seed, names = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
cuplug.interop.install(*names, allocator="expandable")
runtime = cuplug.default_runtime()
driver = runtime.driver
cuplug.cuda.set_device(0)
streams = [cuplug.cuda.Stream() for _ in range(3)]
host = cuplug.cuda.alloc_pinned(1 << 20)
seen = host.array


class Cupy:
    def __init__(self):
        import cupy

        self.cupy = cupy
        self.streams = [cupy.cuda.ExternalStream(stream.cuda_stream) for stream in streams]

    def make(self, nbytes, value, at):
        with self.streams[at]:
            array = self.cupy.empty(nbytes, np.uint8)
            array.fill(value)
        return array, array.data.ptr


class Numba:
    def __init__(self):
        from numba import cuda

        self.cuda = cuda
        self.streams = [cuda.external_stream(stream.cuda_stream) for stream in streams]

    def make(self, nbytes, value, at):
        with cuplug.cuda.stream(streams[at]):
            array = self.cuda.device_array(nbytes, np.uint8, stream=self.streams[at])
        address = int(array.gpu_data.device_pointer_value)
        driver.memset(address, value, nbytes, stream=streams[at].cuda_stream)
        return array, address


class Rmm:
    def __init__(self):
        import rmm
        from rmm.pylibrmm.stream import Stream

        self.rmm = rmm
        self.streams = [Stream(obj=stream) for stream in streams]

    def make(self, nbytes, value, at):
        buffer = self.rmm.DeviceBuffer(size=nbytes, stream=self.streams[at])
        driver.memset(buffer.ptr, value, nbytes, stream=streams[at].cuda_stream)
        return buffer, buffer.ptr


class Pycuda:
    def __init__(self):
        import pycuda.autoprimaryctx  # noqa: F401
        from pycuda import gpuarray

        self.gpuarray = gpuarray

    def make(self, nbytes, value, at):
        with cuplug.cuda.stream(streams[at]):
            array = self.gpuarray.empty(nbytes, np.uint8)
        driver.memset(int(array.gpudata), value, nbytes, stream=streams[at].cuda_stream)
        return array, int(array.gpudata)


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        self.streams = [torch.cuda.ExternalStream(stream.cuda_stream) for stream in streams]

    def make(self, nbytes, value, at):
        with self.torch.cuda.stream(self.streams[at]):
            tensor = self.torch.full((nbytes,), value, dtype=self.torch.uint8, device="cuda")
        return tensor, tensor.data_ptr()


makers = {"cupy": Cupy, "numba": Numba, "rmm": Rmm, "pycuda": Pycuda, "torch": Torch}
libraries = {name: makers[name]() for name in names}
rng = random.Random(seed)
live = []
done = dict.fromkeys([*names, "checked", "freed unchecked"], 0)


def check(entry):
    name, _, address, nbytes, value, at = entry
    driver.memcpy_dtoh(seen.ctypes.data, address, nbytes, stream=streams[at].cuda_stream)
    streams[at].synchronize()
    found = seen[:nbytes]
    if not (found == value).all():
        place = int(np.flatnonzero(found != value)[0])
        sys.exit(f"{name}: byte {place} of {nbytes} at {address:#x}, stream {at}, is {found[place]} instead of {value}")


for number in range(operations):
    if len(live) < 20 or (len(live) < 300 and rng.random() < 0.55):
        name = names[number % len(names)]
        nbytes = rng.choice((64, 1000, 4096, 50_000, 1 << 18)) + rng.randrange(64)
        value, at = rng.randrange(256), rng.randrange(3)
        thing, address = libraries[name].make(nbytes, value, at)
        live.append((name, thing, address, nbytes, value, at))
        done[name] += 1
    else:
        entry = live.pop(rng.randrange(len(live)))
        if rng.random() < 0.7:
            check(entry)
            done["checked"] += 1
        else:
            done["freed unchecked"] += 1  # while work on it is queued
        del entry
for entry in live:
    check(entry)
counted = cuplug.cuda.memory_allocated()
held = sum(entry[3] for entry in live)
live.clear()
entry = thing = None
gc.collect()
done |= {"held": held, "counted": counted, "left": cuplug.cuda.memory_allocated()}
print(json.dumps(done))
