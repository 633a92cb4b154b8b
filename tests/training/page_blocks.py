"""The code blocks of five descriptions of ``torch.cuda``, word for word; the pages are named in
``tests/tensor/ops/test_seed_pages.py``. Where a block only hints, ``before`` is the least that makes it a program."""

# ruff: noqa: RUF001 - a page is in Chinese

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BLOCKS", "Block"]


class Block(NamedTuple):
    """A block, and what it needs."""

    page: str
    text: str
    devices: int = 1
    """How many; 0 if it runs without any, too."""
    before: str = "import torch\n"
    after: str = ""
    """What holds then."""
    shown: str | None = None
    """What the page says that it prints."""
    fails: type[Exception] | None = None
    """What it raises as it stands on the page."""


NETWORK = """import torch
from torch import nn

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(42, 2)

    def forward(self, x):
        return self.linear(x)

"""
LOADER = """import torch
from torch.utils.data import DataLoader, TensorDataset

train_loader = [x for x, in DataLoader(TensorDataset(torch.ones(6, 42)), batch_size=4)]
"""
TRAINING = """import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(8, 4), torch.randint(3, (8,)))
dataloader = [(x.to(device), y.to(device)) for x, y in DataLoader(data, batch_size=4)] * 10
model = torch.nn.Linear(4, 3).to(device)
loss_fn = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
first = float(loss_fn(model(dataloader[0][0]), dataloader[0][1]).detach())
"""
PARSED = "import sys\n\nsys.argv = ['example']\n"
NEW_FULL = """tensor([[ 0.3000,  0.3000],
        [ 0.3000,  0.3000],
        [ 0.3000,  0.3000]])
tensor([[-5., -5.],
        [-5., -5.],
        [-5., -5.]], device='cuda:0')
tensor([[ 1,  2,  3]])
"""

BLOCKS = {
    "A: a device": Block(
        "A",
        "import torch \ndevice = torch.device('cuda')\n\nprint(torch.cuda.is_available())\n",
        before="",
        shown="True\n",
    ),
    "A: the peak of memory": Block("A", "print(torch.cuda.max_memory_allocated())\n", shown="0\n"),
    "A: the peak after a tensor": Block(
        "A",
        "x = torch.rand(300,300,300, device=device)\n"
        "torch.cuda.reset_max_memory_allocated()\nprint(torch.cuda.max_memory_allocated())\n",
        before="import torch\ndevice = torch.device('cuda')\n",
        shown="108000256\n",
    ),
    "A: memory now": Block(
        "A",
        "#Returns the current GPU memory occupied by tensors in bytes for a given device.\n"
        "torch.cuda.memory_allocated()\n",
        before="import torch\nx = torch.rand(300, 300, 300, device='cuda')\n",
        after="assert torch.cuda.memory_allocated() == 108000256\n",
    ),
    "A: the peak of cached memory": Block(
        "A",
        "torch.cuda.reset_max_memory_cached()\nprint(torch.cuda.max_memory_cached())\n",
        before="import torch\ny = torch.zeros(1, device='cuda')\nx = torch.rand(300, 300, 300, device='cuda')\n"
        "x = torch.rand(300, 300, 300, device='cuda')\n",
        shown="220200960\n",
    ),
    "A: cached memory now": Block(
        "A",
        "torch.cuda.memory_cached()\n",
        before="import torch\ny = torch.zeros(1, device='cuda')\nx = torch.rand(300, 300, 300, device='cuda')\n",
        after="assert torch.cuda.memory_cached() == 111149056\n",
    ),
    "B: where results are": Block(
        "B",
        """x = torch.cuda.FloatTensor(1)
y = torch.FloatTensor(1).cuda()

with torch.cuda.device(1):
    # allocates a tensor on GPU 1
    a = torch.cuda.FloatTensor(1)

    # transfers a tensor from CPU to GPU 1
    b = torch.FloatTensor(1).cuda()
    # a.get_device() = b.get_device() == 1

    c = a + b
    # c.get_device() == 1

    z = x + y
    # z.get_device() == 0

    # even within a context, ou can give a GPU id to the .cuda call
    d = torch.randn(2).cuda(2)
    # d.get_device() == 2
""",
        3,
        after="assert [each.get_device() for each in (a, b, c, z, d)] == [1, 1, 1, 0, 2]\n",
    ),
    "B: a flag": Block(
        "B",
        """import argparse
import torch

parser = argparse.ArgumentParser(description = 'PyTorch Example')
parser.add_argument('--disable-cuda', action='store_true', help='Disable CUDA')
args = parser.parse_args()
args.cuda = not args.disable_cuda and torch.cuda.is_available()
""",
        0,
        before=PARSED,
        after="assert args.cuda is torch.cuda.is_available()\n",
    ),
    "B: a network by the flag": Block(
        "B",
        "x = torch.Tensor(8, 42)\nnet = Network()\nif args.cuda:\n    x = x.cuda()\n    net.cuda()\n",
        0,
        before=NETWORK + "import argparse\nargs = argparse.Namespace(cuda=torch.cuda.is_available())\n",
        after="assert net(x).shape == (8, 2)\n",
    ),
    "B: batches by a type": Block(
        "B",
        "dtype = torch.cuda.FloatTensor\nfor i, x in enumerate(train_loader):\n    x = Variable(x.type(dtype))\n",
        before=LOADER + "from torch.autograd import Variable\n",
        after="assert i == 1 and x.is_cuda and x.shape == (2, 42)\n",
    ),
    "B: the current device": Block(
        "B",
        """print("Outside device is 0") # On device 0 (default in most scenarios)
with torch.cuda.device(1):
    print("inside device is 1") # on device 1

print("Outside device is still 0") # On device 0
""",
        2,
        shown="Outside device is 0\ninside device is 1\nOutside device is still 0\n",
    ),
    "B: new()": Block(
        "B",
        """x_cpu = torch.FloatTensor(1)
x_gpu = torch.cuda.FloatTensor(1)
x_cpu_long = torch.LongTensor(1)

y_cpu = x_cpu.new(8, 10, 10).fill_(0.3)
y_gpu = x_gpu.new(x_gpu.size()).fill_(-5)
y_cpu_long = x_cpu_long.new([[1, 2, 3]])
""",
        after="assert y_cpu.shape == (8, 10, 10) and y_gpu.tolist() == [-5.0] and y_cpu_long.tolist() == [[1, 2, 3]]\n",
    ),
    "B: ones_like, misspelt": Block(
        "B",
        """x_cpu = torch.FloatTensor(1)
x_gpu = torch.cuda.FloatTensor(1)

y_cpu = torch.ones_lick(x_cpu)
y_gpu = torch.zeros_like(x_gpu)
""",
        fails=AttributeError,
    ),
    "B: ones_like": Block(
        "",
        "x_cpu = torch.FloatTensor(1)\nx_gpu = torch.cuda.FloatTensor(1)\n\n"
        "y_cpu = torch.ones_like(x_cpu)\ny_gpu = torch.zeros_like(x_gpu)\n",
        after="assert y_cpu.tolist() == [1.0] and y_gpu.tolist() == [0.0] and y_gpu.is_cuda\n",
    ),
    "C: where results are": Block(
        "C",
        """    cuda = torch.device('cuda')     # Default CUDA device
    cuda0 = torch.device('cuda:0')
    cuda2 = torch.device('cuda:2')  # GPU 2 (these are 0-indexed)

    x = torch.tensor([1., 2.], device=cuda0)
    # x.device is device(type='cuda', index=0)
    y = torch.tensor([1., 2.]).cuda()
    # y.device is device(type='cuda', index=0)

    with torch.cuda.device(1):
        # allocates a tensor on GPU 1
        a = torch.tensor([1., 2.], device=cuda)

        # transfers a tensor from CPU to GPU 1
        b = torch.tensor([1., 2.]).cuda()
        # a.device and b.device are device(type='cuda', index=1)

        # You can also use ``Tensor.to`` to transfer a tensor:
        b2 = torch.tensor([1., 2.]).to(device=cuda)
        # b.device and b2.device are device(type='cuda', index=1)

        c = a + b
        # c.device is device(type='cuda', index=1)

        z = x + y
        # z.device is device(type='cuda', index=0)

        # even within a context, you can specify the device
        # (or give a GPU index to the .cuda call)
        d = torch.randn(2, device=cuda2)
        e = torch.randn(2).to(cuda2)
        f = torch.randn(2).cuda(cuda2)
        # d.device, e.device, and f.device are all device(type='cuda', index=2)
""",
        3,
        after="found = [each.device.index for each in (x, y, a, b, b2, c, z, d, e, f)]\n"
        "assert found == [0, 0, 1, 1, 1, 1, 0, 2, 2, 2]\n",
    ),
    "CD: a stream that is not given": Block(
        "C",
        """    cuda = torch.device('cuda')
    s = torch.cuda.stream()  # Create a new stream.
    A = torch.empty((100, 100), device=cuda).normal_(0.0, 1.0)
    with torch.cuda.stream(s):
        # sum() may start execution before normal_() finishes!
        B = torch.sum(A)
""",
        fails=TypeError,
    ),
    "C: a device by a flag": Block(
        "C",
        """    import argparse
    import torch

    parser = argparse.ArgumentParser(description='PyTorch Example')
    parser.add_argument('--disable-cuda', action='store_true',
                        help='Disable CUDA')
    args = parser.parse_args()
    args.device = None
    if not args.disable_cuda and torch.cuda.is_available():
        args.device = torch.device('cuda')
    else:
        args.device = torch.device('cpu')
""",
        0,
        before=PARSED,
        after="assert args.device.type == ('cuda' if torch.cuda.is_available() else 'cpu')\n",
    ),
    "C: a network on the device": Block(
        "C",
        "    x = torch.empty((8, 42), device=args.device)\n    net = Network().to(device=args.device)\n",
        0,
        before=NETWORK
        + "import argparse\nargs = argparse.Namespace(device='cuda' if torch.cuda.is_available() else 'cpu')\n",
        after="assert net(x).shape == (8, 2)\n",
    ),
    "C: batches on a device": Block(
        "C",
        "    cuda0 = torch.device('cuda:0')  # CUDA GPU 0\n    for i, x in enumerate(train_loader):\n"
        "        x = x.to(cuda0)\n",
        before=LOADER,
        after="assert i == 1 and x.device == cuda0\n",
    ),
    "CD: the current device": Block(
        "C",
        """    print("Outside device is 0")  # On device 0 (default in most scenarios)
    with torch.cuda.device(1):
        print("Inside device is 1")  # On device 1
    print("Outside device is still 0")  # On device 0
""",
        2,
        shown="Outside device is 0\nInside device is 1\nOutside device is still 0\n",
    ),
    "CD: new_full": Block(
        "D",
        """cuda = torch.device('cuda')
x_cpu = torch.empty(2)
x_gpu = torch.empty(2, device=cuda)
x_cpu_long = torch.empty(2, dtype=torch.int64)

y_cpu = x_cpu.new_full([3, 2], fill_value=0.3)
print(y_cpu)

y_gpu = x_gpu.new_full([3, 2], fill_value=-5)
print(y_gpu)

y_cpu_long = x_cpu_long.new_tensor([[1, 2, 3]])
print(y_cpu_long)
""",
        shown=NEW_FULL,
    ),
    "CD: ones_like": Block(
        "D",
        "x_cpu = torch.empty(2, 3)\nx_gpu = torch.empty(2, 3)\n\n"
        "y_cpu = torch.ones_like(x_cpu)\ny_gpu = torch.zeros_like(x_gpu)\n",
        0,
        after="assert y_cpu.tolist() == [[1.0] * 3] * 2 and y_gpu.tolist() == [[0.0] * 3] * 2\n",
    ),
    "D: where results are": Block(
        "D",
        """import torch
cuda = torch.device('cuda')     # 默认的CUDA设备
cuda0 = torch.device('cuda:0')
cuda1 = torch.device('cuda:1')  # GPU 1 (these are 0-indexed)

x = torch.tensor([1., 2.], device=cuda0)
# x.device is device(type='cuda', index=0)
y = torch.tensor([1., 2.]).cuda()
# y.device is device(type='cuda', index=0)

with torch.cuda.device(1):
    # 在GPU1上分配一个张量
    a = torch.tensor([1., 2.], device=cuda)

    # 将一个张量从CPU转移到GPU 1
    b = torch.tensor([1., 2.]).cuda()
    # a.device和b.device都是(type='cuda', index=1)

    # 也可以使用``Tensor.to`` 去转移一个tensor:
    b2 = torch.tensor([1., 2.]).to(device=cuda)
    # b.device and b2.device are device(type='cuda', index=1)

    c = a + b
    # c.device is device(type='cuda', index=1)
    print("c.device is: ", c.device)
    z = x + y
    # z.device is device(type='cuda', index=0)
    print("z.device is: ", z.device)

    # 即使在一个上下文中，也可以指定设备
    # (或者调用.cuda，参数转入一个索引)
    d = torch.randn(2, device=cuda0)
    e = torch.randn(2).to(cuda0)
    f = torch.randn(2).cuda(cuda0)
    print("d.device is :", d.device)
    # d.device, e.device, and f.device are all device(type='cuda', index=0)
""",
        2,
        before="",
        shown="c.device is:  cuda:1\nz.device is:  cuda:0\nd.device is : cuda:0\n",
    ),
    "D: a device by a flag": Block(
        "D",
        """import argparse
import torch

parser = argparse.ArgumentParser(description='PyTorch Example')
parser.add_argument('--disable-cuda', action='store_true', help='Disable CUDA')
# args = parser.parse_args() # 官方代码，这里有问题，修改如下
args = parser.parse_args(['--disable-cuda'])
args.device = None
if not args.disable_cuda and torch.cuda.is_available():
    args.device = torch.device('cuda')
else:
    args.device = torch.device('cpu')
""",
        0,
        before="",
        after="assert args.device == torch.device('cpu')\n",
    ),
    "D: a tensor on the device": Block(
        "D",
        "x = torch.empty((8, 42), device=args.device)\nprint(x.device)\n# net = Network().to(device=args.device)\n",
        0,
        before="import torch\nimport argparse\nargs = argparse.Namespace(device=torch.device('cpu'))\n",
        shown="cpu\n",
    ),
    "E: whether there is CUDA": Block(
        "E",
        "import torch\ntorch.cuda.is_available()  # Returns True if CUDA is ready\n"
        "torch.cuda.device_count()  # Number of available GPUs\n",
        0,
        before="",
        after="assert torch.cuda.is_available() == (torch.cuda.device_count() > 0)\n",
    ),
    "E: a model on a device": Block(
        "E",
        'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n\n'
        "x = torch.randn(5, 5).to(device)\nmodel = model.to(device)\n",
        0,
        before="import torch\nmodel = torch.nn.Linear(5, 2)\n",
        after="assert model(x).device.type == device.type\n",
    ),
    "E: to the GPU and back": Block(
        "E",
        "x = torch.tensor([1.0, 2.0])\nx_cuda = x.to('cuda')\n\n# Back to CPU\nx_cpu = x_cuda.to('cpu')\n",
        after="assert x_cuda.is_cuda and x_cpu.tolist() == [1.0, 2.0]\n",
    ),
    "E: all GPUs": Block(
        "E", "for i in range(torch.cuda.device_count()):\n    print(torch.cuda.get_device_name(i))\n", 0
    ),
    "E: a model on another GPU": Block(
        "E",
        "model = model.to('cuda:1')\n",
        2,
        before="import torch\nmodel = torch.nn.Linear(5, 2)\n",
        after="assert model(torch.ones(1, 5, device='cuda:1')).device.index == 1\n",
    ),
    "E: DataParallel": Block(
        "E",
        "from torch.nn import DataParallel\n\nmodel = DataParallel(model)\nmodel = model.to('cuda')\n",
        2,
        before="import torch\nmodel = torch.nn.Linear(5, 2)\n",
        after="model(torch.ones(4, 5).cuda()).sum().backward()\n"
        "assert model.module.bias.grad.tolist() == [4.0, 4.0] and model.module.bias.grad.device.index == 0\n",
    ),
    "E: memory": Block("E", "torch.cuda.memory_allocated()\ntorch.cuda.memory_reserved()\n"),
    "E: giving memory back": Block(
        "E", "torch.cuda.empty_cache()\n", after="assert torch.cuda.memory_reserved() == 0\n"
    ),
    "E: mixed precision": Block(
        "E",
        """from torch.cuda.amp import autocast, GradScaler

scaler = GradScaler()

for input, target in dataloader:
    optimizer.zero_grad()
    with autocast():
        output = model(input)
        loss = loss_fn(output, target)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
        0,
        before=TRAINING,
        after="assert float(loss.detach()) < first\n"
        "assert output.dtype == (torch.float16 if torch.cuda.is_available() else torch.float32)\n"
        "assert scaler.is_enabled() == torch.cuda.is_available()\n",
    ),
    "E: switches of cuDNN": Block(
        "E",
        "torch.backends.cudnn.benchmark = True\ntorch.backends.cudnn.deterministic = False\n",
        0,
        after="from torch.backends import cudnn\nassert cudnn.benchmark and not cudnn.deterministic\n"
        "cudnn.benchmark = False\n",
    ),
}
