"""The examples of five descriptions of ``torch.cuda``, with ``import cuplug as torch``: each gives what its page says.

The pages:

- A: "Cuda": a notebook on CUDA semantics, with the memory figures of its session
- B: "CUDA semantics", 2017-12-29: the legacy constructors
- C: PyTorch's own note "CUDA semantics", of 0.4
- D: "Cuda语义", 2018-05-07: that note in Chinese, run as a notebook with two GPUs
- E: "Chapter 17: Using torch with CUDA"

Networks, optimisers, ``DataParallel``, AMP and ``DataLoader`` are left out, and a list of tensors stands in for the
loader. The figures of memory are PyTorch's, so its preset of the caching allocator is used. The example that the pages
call incorrect is in ``test_stream_order.py``.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import cuplug
import pytest

Example = Callable[[Any, Callable[[], str]], None]
EXAMPLES: dict[str, tuple[Example, int]] = {}
"""Each example by its page and what it shows, with the number of devices that it needs."""


def example(page: str, shows: str, devices: int = 1) -> Callable[[Example], Example]:
    """Enter a transcription into the table. It takes torch, and a function that returns what was printed."""

    def enter(function: Example) -> Example:
        EXAMPLES[f"{page}: {shows}"] = function, devices
        return function

    return enter


def shown(text: str) -> list[str]:
    """Printed numbers and words without the spaces, which changed between versions of torch."""
    return re.findall(r"[\w.:'=-]+|[\[\]()]", text.replace(",", " "))


# --- A


@example("A", "a device and whether there is CUDA")
def _(torch: Any, printed: Any) -> None:
    device = torch.device("cuda")
    print(torch.cuda.is_available())
    assert printed() == "True\n"
    assert device.type == "cuda"


@example("A", "checking GPU memory: what tensors occupy")
def _(torch: Any, printed: Any) -> None:
    device = torch.device("cuda")
    print(torch.cuda.max_memory_allocated())
    assert printed() == "0\n"
    x = torch.rand(300, 300, 300, device=device)
    torch.cuda.reset_max_memory_allocated()
    print(torch.cuda.max_memory_allocated())
    assert printed() == "108000256\n"
    assert torch.cuda.memory_allocated() == 108000256
    del x


@example("A", "checking GPU memory: what the caching allocator manages")
def _(torch: Any, printed: Any) -> None:
    # 111149056 is 2 MiB more than x: something small had been on the GPU before in the page's session.
    torch.zeros(1, device="cuda")
    x = torch.rand(300, 300, 300, device="cuda")
    assert torch.cuda.memory_cached() == 111149056
    x = torch.rand(300, 300, 300, device="cuda")  # cell 16, run after cell 7: both are alive for a moment
    torch.cuda.reset_max_memory_cached()
    print(torch.cuda.max_memory_cached())
    assert printed() == "220200960\n"
    assert torch.cuda.memory_allocated() == 108000256
    del x


@example("A", "emptying the cache leaves what tensors occupy")
def _(torch: Any, printed: Any) -> None:
    x = torch.rand(1000, 1000, device="cuda")
    del x
    y = torch.rand(10, device="cuda")
    before = torch.cuda.memory_reserved()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < before
    assert torch.cuda.memory_allocated() == 512
    assert y.sum().item() > 0


@example("A", "cross-GPU operations need peer-to-peer access", devices=2)
def _(torch: Any, printed: Any) -> None:
    x, y = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"cuda:0.*cuda:1"):
        x + y
    if torch.cuda.can_device_access_peer(0, 1):
        torch.cuda.enable_peer_access(0, 1)
        assert (x + y).tolist() == [2.0, 2.0]
        assert (x + y).device == torch.device("cuda:0")


@example("A", "pinned memory and asynchronous copies by to() and cuda()")
def _(torch: Any, printed: Any) -> None:
    host = torch.arange(1000.0)
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    assert not host.is_pinned()
    assert pinned.data_ptr() != host.data_ptr()
    for copy in (pinned.to("cuda", non_blocking=True), pinned.cuda(non_blocking=True)):
        assert copy.sum().item() == host.sum().item()


@example("ACD", "pinned storages")
def _(torch: Any, printed: Any) -> None:
    host = torch.arange(3.0).storage()
    pinned = host.pin_memory()
    assert pinned.is_pinned()
    assert not host.is_pinned()
    assert bytes(pinned.bytes) == bytes(host.bytes)


# --- B


@example("B", "where operations and copies place their results", devices=3)
def _(torch: Any, printed: Any) -> None:
    x = torch.cuda.FloatTensor(1)
    y = torch.FloatTensor(1).cuda()

    with torch.cuda.device(1):
        # allocates a tensor on GPU 1
        a = torch.cuda.FloatTensor(1)

        # transfers a tensor from CPU to GPU 1
        b = torch.FloatTensor(1).cuda()
        assert a.get_device() == b.get_device() == 1

        c = a + b
        assert c.get_device() == 1

        z = x + y
        assert z.get_device() == 0

        # even within a context, you can give a GPU id to the .cuda call
        d = torch.randn(2).cuda(2)
        assert d.get_device() == 2


@example("B", "copy_() is the exception among cross-GPU operations", devices=2)
def _(torch: Any, printed: Any) -> None:
    x, y = torch.arange(3.0).cuda(0), torch.cuda.FloatTensor(3).cuda(1)
    y.copy_(x)
    assert y.tolist() == [0, 1, 2]
    assert y.get_device() == 1


def parsed(torch: Any, arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(description="PyTorch Example")
    parser.add_argument("--disable-cuda", action="store_true", help="Disable CUDA")
    args = parser.parse_args(arguments)
    args.cuda = not args.disable_cuda and torch.cuda.is_available()
    return args


@example("B", "a flag that disables CUDA")
def _(torch: Any, printed: Any) -> None:
    assert parsed(torch, []).cuda is True
    assert parsed(torch, ["--disable-cuda"]).cuda is False


@example("B", "casting tensors by the flag")
def _(torch: Any, printed: Any) -> None:
    args = parsed(torch, [])
    x = torch.Tensor(8, 42)
    if args.cuda:
        x = x.cuda()
    assert x.is_cuda
    assert x.shape == (8, 42)


@example("B", "casting batches by a legacy type")
def _(torch: Any, printed: Any) -> None:
    dtype = torch.cuda.FloatTensor
    train_loader = [torch.arange(4), torch.ones(2, 2).double()]
    for i, x in enumerate(train_loader):
        x = x.type(dtype)  # wrapped in a Variable on the page
        assert x.is_cuda, i
        assert x.dtype == torch.float32
        assert x.type() == "torch.cuda.FloatTensor"


@example("B", "new() keeps type and device")
def _(torch: Any, printed: Any) -> None:
    x_cpu = torch.FloatTensor(1)
    x_gpu = torch.cuda.FloatTensor(1)
    x_cpu_long = torch.LongTensor(1)

    y_cpu = x_cpu.new(8, 10, 10).fill_(0.3)
    y_gpu = x_gpu.new(x_gpu.size()).fill_(-5)
    y_cpu_long = x_cpu_long.new([[1, 2, 3]])

    assert y_cpu.shape == (8, 10, 10)
    assert y_cpu.is_cpu
    assert bool((y_cpu == 0.3).all()) or abs(y_cpu.mean().item() - 0.3) < 1e-6
    assert y_gpu.tolist() == [-5.0]
    assert y_gpu.is_cuda
    assert y_cpu_long.tolist() == [[1, 2, 3]]
    assert y_cpu_long.dtype == torch.int64


@example("B", "ones_like and zeros_like keep type and device")
def _(torch: Any, printed: Any) -> None:
    x_cpu = torch.FloatTensor(1)
    x_gpu = torch.cuda.FloatTensor(1)

    y_cpu = torch.ones_like(x_cpu)  # ones_lick on the page
    y_gpu = torch.zeros_like(x_gpu)
    assert y_cpu.tolist() == [1.0]
    assert y_gpu.tolist() == [0.0]
    assert (y_cpu.device.type, y_gpu.device.type) == ("cpu", "cuda")


@example("B", "cuda(async=True), where async is no keyword of Python's")
def _(torch: Any, printed: Any) -> None:
    with pytest.raises(SyntaxError):  # since Python 3.7 the page's line cannot be written
        compile("x.cuda(async = True)", "page", "eval")
    x = torch.ones(3).pin_memory()
    assert x.cuda(**{"async": True}).tolist() == [1, 1, 1]


# --- B, C and D


@example("BCD", "the device context manager", devices=2)
def _(torch: Any, printed: Any) -> None:
    print("Outside device is 0")  # On device 0 (default in most scenarios)
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        print("Inside device is 1")  # On device 1
        assert torch.cuda.current_device() == 1
    print("Outside device is still 0")  # On device 0
    assert torch.cuda.current_device() == 0
    assert printed() == "Outside device is 0\nInside device is 1\nOutside device is still 0\n"


# --- C


@example("C", "where operations and copies place their results", devices=3)
def _(torch: Any, printed: Any) -> None:
    cuda = torch.device("cuda")  # Default CUDA device
    cuda0 = torch.device("cuda:0")
    cuda2 = torch.device("cuda:2")  # GPU 2 (these are 0-indexed)

    x = torch.tensor([1.0, 2.0], device=cuda0)
    assert repr(x.device) == "device(type='cuda', index=0)"
    y = torch.tensor([1.0, 2.0]).cuda()
    assert repr(y.device) == "device(type='cuda', index=0)"

    with torch.cuda.device(1):
        # allocates a tensor on GPU 1
        a = torch.tensor([1.0, 2.0], device=cuda)

        # transfers a tensor from CPU to GPU 1
        b = torch.tensor([1.0, 2.0]).cuda()
        assert repr(a.device) == repr(b.device) == "device(type='cuda', index=1)"

        # You can also use ``Tensor.to`` to transfer a tensor:
        b2 = torch.tensor([1.0, 2.0]).to(device=cuda)
        assert repr(b.device) == repr(b2.device) == "device(type='cuda', index=1)"

        c = a + b
        assert repr(c.device) == "device(type='cuda', index=1)"
        assert c.tolist() == [2.0, 4.0]

        z = x + y
        assert repr(z.device) == "device(type='cuda', index=0)"
        assert z.tolist() == [2.0, 4.0]

        # even within a context, you can specify the device
        # (or give a GPU index to the .cuda call)
        d = torch.randn(2, device=cuda2)
        e = torch.randn(2).to(cuda2)
        f = torch.randn(2).cuda(cuda2)
        assert repr(d.device) == repr(e.device) == repr(f.device) == "device(type='cuda', index=2)"


def device_of(torch: Any, arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser(description="PyTorch Example")
    parser.add_argument("--disable-cuda", action="store_true", help="Disable CUDA")
    args = parser.parse_args(arguments)
    args.device = None
    if not args.disable_cuda and torch.cuda.is_available():
        args.device = torch.device("cuda")
    else:
        args.device = torch.device("cpu")
    return args.device


@example("C", "a device by a flag, and a tensor on it")
def _(torch: Any, printed: Any) -> None:
    x = torch.empty((8, 42), device=device_of(torch, []))
    assert x.device.type == "cuda"
    x = torch.empty((8, 42), device=device_of(torch, ["--disable-cuda"]))
    assert x.device.type == "cpu"
    assert x.shape == (8, 42)


@example("CD", "moving batches to a device")
def _(torch: Any, printed: Any) -> None:
    train_loader = [torch.ones(3), torch.arange(2)]
    cuda0 = torch.device("cuda:0")  # CUDA GPU 0
    for i, x in enumerate(train_loader):
        x = x.to(cuda0)
        assert x.device == cuda0, i


NEW_FULL_OF_C = """
        tensor([[ 0.3000,  0.3000],
                [ 0.3000,  0.3000],
                [ 0.3000,  0.3000]])
        tensor([[-5.0000, -5.0000],
                [-5.0000, -5.0000],
                [-5.0000, -5.0000]], device='cuda:0')
        tensor([[ 1,  2,  3]])
"""
NEW_FULL_OF_D = """
tensor([[ 0.3000,  0.3000],
        [ 0.3000,  0.3000],
        [ 0.3000,  0.3000]])
tensor([[-5., -5.],
        [-5., -5.],
        [-5., -5.]], device='cuda:0')
tensor([[ 1,  2,  3]])
"""


@example("CD", "new_full and new_tensor keep type and device")
def _(torch: Any, printed: Any) -> None:
    cuda = torch.device("cuda")
    x_cpu = torch.empty(2)
    x_gpu = torch.empty(2, device=cuda)
    x_cpu_long = torch.empty(2, dtype=torch.int64)

    y_cpu = x_cpu.new_full([3, 2], fill_value=0.3)
    print(y_cpu)
    y_gpu = x_gpu.new_full([3, 2], fill_value=-5)
    print(y_gpu)
    y_cpu_long = x_cpu_long.new_tensor([[1, 2, 3]])
    print(y_cpu_long)
    # C was written before torch printed whole numbers as `-5.`, which D's own output shows.
    found = shown(printed())
    assert found == shown(NEW_FULL_OF_D)
    assert found == [word.replace("-5.0000", "-5.") for word in shown(NEW_FULL_OF_C)]


@example("CD", "ones_like and zeros_like keep shape, type and device")
def _(torch: Any, printed: Any) -> None:
    x_cpu = torch.empty(2, 3)
    x_gpu = torch.empty(2, 3)  # without a device on the page, too

    y_cpu = torch.ones_like(x_cpu)
    y_gpu = torch.zeros_like(x_gpu)
    assert y_cpu.tolist() == [[1.0] * 3] * 2
    assert y_gpu.tolist() == [[0.0] * 3] * 2
    on_gpu = torch.ones_like(torch.empty(2, 3, device="cuda"))
    assert on_gpu.is_cuda


@example("CD", "stream() without a stream is a TypeError")
def _(torch: Any, printed: Any) -> None:
    with pytest.raises(TypeError, match=r"stream\(\) missing 1 required positional argument: 'stream'"):
        torch.cuda.stream()


# --- D


@example("D", "where operations and copies place their results", devices=2)
def _(torch: Any, printed: Any) -> None:
    cuda = torch.device("cuda")
    cuda0 = torch.device("cuda:0")

    x = torch.tensor([1.0, 2.0], device=cuda0)
    y = torch.tensor([1.0, 2.0]).cuda()
    with torch.cuda.device(1):
        a = torch.tensor([1.0, 2.0], device=cuda)
        b = torch.tensor([1.0, 2.0]).cuda()
        b2 = torch.tensor([1.0, 2.0]).to(device=cuda)
        assert b2.device == torch.device("cuda:1")
        c = a + b
        print("c.device is: ", c.device)
        z = x + y
        print("z.device is: ", z.device)
        d = torch.randn(2, device=cuda0)
        e = torch.randn(2).to(cuda0)
        f = torch.randn(2).cuda(cuda0)
        print("d.device is :", d.device)
        assert d.device == e.device == f.device
    assert printed() == "c.device is:  cuda:1\nz.device is:  cuda:0\nd.device is : cuda:0\n"


@example("D", "device-agnostic code with CUDA disabled")
def _(torch: Any, printed: Any) -> None:
    x = torch.empty((8, 42), device=device_of(torch, ["--disable-cuda"]))
    print(x.device)
    assert printed() == "cpu\n"


# --- E


@example("E", "checking that CUDA is available")
def _(torch: Any, printed: Any) -> None:
    assert torch.cuda.is_available() is True
    assert torch.cuda.device_count() >= 1


@example("E", "setting a device")
def _(torch: Any, printed: Any) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(5, 5).to(device)
    assert x.is_cuda
    assert x.shape == (5, 5)


@example("E", "moving data to and from the GPU")
def _(torch: Any, printed: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    x_cuda = x.to("cuda")
    x_cpu = x_cuda.to("cpu")
    assert x_cuda.is_cuda
    assert x_cpu.is_cpu
    assert x_cpu.tolist() == x.tolist()


@example("E", "mixing CPU and GPU tensors is a RuntimeError")
def _(torch: Any, printed: Any) -> None:
    with pytest.raises(RuntimeError, match=r"cpu and cuda:0"):
        torch.tensor([1.0, 2.0]) + torch.tensor([1.0, 2.0]).to("cuda")


@example("E", "listing all GPUs", devices=2)
def _(torch: Any, printed: Any) -> None:
    for i in range(torch.cuda.device_count()):
        print(torch.cuda.get_device_name(i))
    lines = printed().splitlines()
    assert len(lines) == torch.cuda.device_count()
    assert all(lines)


@example("E", "tracking and freeing memory")
def _(torch: Any, printed: Any) -> None:
    x = torch.ones(1000, device="cuda")
    assert torch.cuda.memory_allocated() == 4096
    assert torch.cuda.memory_reserved() == 2 << 20
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.memory_allocated() == torch.cuda.memory_reserved() == 0


@example("E", "running out of memory: torch.no_grad(), where there are no gradients")
def _(torch: Any, printed: Any) -> None:
    with torch.no_grad():
        assert (torch.ones(2, device="cuda") * 2).tolist() == [2.0, 2.0]


@example("E", "benchmark settings of cuDNN")
def _(torch: Any, printed: Any) -> None:
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = False


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_gives_what_its_page_states(
    name: str, make_driver: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run, devices = EXAMPLES[name]
    cuplug.init(driver=make_driver(devices=devices), allocator="caching:preset=torch")
    try:
        run(cuplug, lambda: capsys.readouterr().out)
    finally:
        cuplug.shutdown()
