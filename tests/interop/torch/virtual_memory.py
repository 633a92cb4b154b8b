"""Memory that sleeps as serving programs have it: functions over CUDA's virtual memory, to which a MemPool calls back.

vLLM's ``cumem`` in the driver's own terms. A pool takes its segments from here; asleep, no memory stands behind their
addresses, and what they held is on the host, or lost; awake, it is there again, at the same addresses.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager

import torch


class SleepingPool:
    """A MemPool for the current device whose memory sleeps and wakes."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.pages = {}  # by address: bytes, the page's handle, or None while asleep, and its contents on the host
        self.freed = 0
        self.device = torch.cuda.current_device()
        kind_and_place = [1, 0, 1, self.device, 0, 0, 0, 0]  # pinned memory, not shared, of the device
        self.properties = (ctypes.c_int * 8)(*kind_and_place)
        granularity = ctypes.c_size_t()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(granularity), self.properties, 0)
        self.granularity = granularity.value
        malloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(self.allocate)
        free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(self.free)
        self.callbacks = malloc, free
        addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in self.callbacks]
        self.allocator = torch._C._cuda_customAllocator(*addresses)
        self.pool = torch.cuda.MemPool(self.allocator)

    def allocate(self, nbytes, _device, _stream):
        nbytes = -(-nbytes // self.granularity) * self.granularity
        address = ctypes.c_uint64()
        self.call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(nbytes), ctypes.c_size_t(0), *_zeros(2))
        self.pages[address.value] = [nbytes, self.map(address.value, nbytes), None]
        return address.value

    def free(self, address, _nbytes, _device, _stream):
        nbytes, handle, _ = self.pages.pop(address)
        self.freed += 1
        if handle is not None:
            self.unmap(address, nbytes, handle)
        self.call("cuMemAddressFree", *_numbers(address, nbytes))

    def sleep(self, *, keep):
        torch.cuda.synchronize()
        for address, page in self.pages.items():
            if keep:
                page[2] = torch.empty(page[0], dtype=torch.uint8, pin_memory=True)
                self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(page[2].data_ptr()), *_numbers(address, page[0]))
            self.unmap(address, page[0], page[1])
            page[1] = None

    def wake(self):
        for address, page in self.pages.items():
            page[1] = self.map(address, page[0])
            if page[2] is not None:
                self.call(
                    "cuMemcpyHtoD_v2", *_numbers(address), ctypes.c_void_p(page[2].data_ptr()), *_numbers(page[0])
                )
                page[2] = None

    def map(self, address, nbytes):
        handle, access = ctypes.c_uint64(), (ctypes.c_int * 3)(1, self.device, 3)
        self.call("cuMemCreate", ctypes.byref(handle), *_numbers(nbytes), self.properties, *_zeros(1))
        self.call("cuMemMap", *_numbers(address, nbytes, 0), handle, *_zeros(1))
        self.call("cuMemSetAccess", *_numbers(address, nbytes), access, *_numbers(1))
        return handle.value

    def unmap(self, address, nbytes, handle):
        self.call("cuMemUnmap", *_numbers(address, nbytes))
        self.call("cuMemRelease", *_numbers(handle))

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        assert code == 0, (name, code)

    @contextmanager
    def use(self):
        with torch.cuda.use_mem_pool(self.pool):
            yield


def _numbers(*values):
    return [ctypes.c_uint64(value) for value in values]


def _zeros(count):
    return _numbers(*[0] * count)
