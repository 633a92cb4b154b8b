"""Trainings that are held to less device memory than they ask for: ``held_trainings.py gpt2 0.95 0.9 0.8``.

The training runs first with all the memory that the device has, twice, then with each part of what it asked for there
at its peak: each time in a process of its own under cuplug, by default with ``expandable:host=24GiB``. Every pass takes
the same steps: Mask R-CNN eight with four images of 400 to 1,000 pixels each, GPT-2 twelve with eight rows of 128 to
1,024 tokens. Printed are the time of each pass, the median of those after two beside that with enough memory, the host
memory used at most, and how far the losses are from those of the first run. Kernels that add by atomics give other
losses in each run: the second run with enough memory shows how far two such runs are apart. With ``--deterministic``
PyTorch takes kernels that give equal results each time, where it has some. With ``--python`` the cuplug of another
environment is run: to compare two versions on one machine. Needs a GPU, transformers and torchvision.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

GIB = 1 << 30
MARK = "held training: "


def gpt2(device: str) -> tuple[torch.nn.Module, Callable[[Any], torch.Tensor], list[Any]]:
    """The model, what computes a batch's loss, and the batches of a pass: eight rows of tokens each."""
    from transformers import AutoModelForCausalLM, GPT2Config

    with torch.device(device):
        model = AutoModelForCausalLM.from_config(GPT2Config())
    lengths = [random.randint(16, 128) * 8 for _ in range(11)] + [1024]
    batches = [torch.randint(0, 50257, (8, length)) for length in lengths]

    def loss(tokens: torch.Tensor) -> torch.Tensor:
        tokens = tokens.to(device)
        with torch.autocast(device, torch.bfloat16):
            return model(input_ids=tokens, labels=tokens).loss

    return model, loss, batches


def mask_rcnn(device: str) -> tuple[torch.nn.Module, Callable[[Any], torch.Tensor], list[Any]]:
    """The model, what computes a batch's loss, and the batches of a pass: four images with three objects each."""
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    with torch.device(device):
        model = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=10)
    batches = [[_image_of(random.randint(400, 1000), random.randint(400, 1000)) for _ in range(4)] for _ in range(8)]

    def loss(batch: Any) -> torch.Tensor:
        images = [image.to(device) for image, _ in batch]
        targets = [{name: value.to(device) for name, value in target.items()} for _, target in batch]
        return sum(model(images, targets).values())

    return model, loss, batches


def _image_of(height: int, width: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    boxes, masks = [], torch.zeros(3, height, width, dtype=torch.uint8)
    for mask in masks:
        x, y = random.randint(0, width - 200), random.randint(0, height - 200)
        boxes.append([x, y, x + 150, y + 180])
        mask[y : y + 180, x : x + 150] = 1
    target = {"boxes": torch.tensor(boxes, dtype=torch.float), "labels": torch.randint(1, 10, (3,)), "masks": masks}
    return torch.rand(3, height, width), target


TRAININGS = {"gpt2": gpt2, "mask_rcnn": mask_rcnn}


def passes_of(name: str, passes: int, device: str = "cuda") -> Iterator[tuple[float, list[float]]]:
    """The time of each pass in seconds, and the losses of its steps."""
    random.seed(0)
    torch.manual_seed(0)
    model, loss, batches = TRAININGS[name](device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for _ in range(passes):
        begin = time.perf_counter()
        losses = []
        for batch in batches:
            found = loss(batch)
            found.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(found.item())
        yield time.perf_counter() - begin, losses


def run_one(name: str, passes: int, limit: int, deterministic: bool) -> None:
    """Trains in this process with at most ``limit`` bytes of device memory (0: no limit), and prints what was found."""
    if deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)
    if limit:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(limit / total)
    seconds, losses = map(list, zip(*passes_of(name, passes), strict=True))
    found = {
        "seconds": seconds,
        "losses": losses,
        "requested": torch.cuda.memory_stats()["requested_bytes.all.peak"],
        "host": most_on_host(),
    }
    print(MARK + json.dumps(found), flush=True)


def most_on_host() -> int:
    """Bytes of the host's memory that stood under the device's addresses at most."""
    from cuplug.runtime.interop.installations import runtime_of

    runtime = runtime_of("torch")
    allocator = None if runtime is None else runtime.find_allocator(0)
    return 0 if allocator is None else allocator.statistics().all.host_bytes.peak


def started(asked: argparse.Namespace, limit: int) -> dict[str, Any] | str:
    """What a process of its own finds, or its last line where it fails."""
    environment = dict(os.environ)
    environment.pop("CUPLUG_TORCH", None)
    if asked.on != "native":
        environment["CUPLUG_TORCH"] = asked.on
    command = [asked.python, __file__, asked.training, "--passes", str(asked.passes), "--limit", str(limit)]
    if asked.deterministic:
        environment["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # cuBLAS repeats its sums only with a workspace of its own
        command.append("--deterministic")
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return dict(json.loads(line.removeprefix(MARK)))
    return f"status {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing was printed'])[-1][:150]}"


def compare(asked: argparse.Namespace) -> int:
    """Runs the training with enough memory and with each part of it, and prints a line for each."""
    print(f"{asked.training} on {asked.on}{', deterministic' if asked.deterministic else ''}")
    enough = started(asked, 0)
    if isinstance(enough, str):
        print(f"with enough memory: {enough}")
        return 1
    print(f"with enough memory: {described(enough, enough)}", flush=True)
    failed = False
    for name, part in [("with enough memory again", 0.0), *((f"at {part}", part) for part in asked.parts)]:
        found = started(asked, int(part * enough["requested"]))
        failed |= isinstance(found, str)
        print(f"{name}: {found if isinstance(found, str) else described(found, enough)}", flush=True)
    return 1 if failed else 0


def described(found: dict[str, Any], enough: dict[str, Any]) -> str:
    """What a run took, beside one with enough memory."""
    warm, whole = (statistics.median(one["seconds"][2:]) for one in (found, enough))
    pairs = [
        pair
        for mine, theirs in zip(found["losses"], enough["losses"], strict=True)
        for pair in zip(mine, theirs, strict=True)
    ]
    apart = max(abs(mine - theirs) / abs(theirs) for mine, theirs in pairs)
    first = "equal" if found["losses"][0] == enough["losses"][0] else "not equal"
    times = " ".join(f"{seconds:.2f}" for seconds in found["seconds"])
    return (
        f"{warm / whole:.2f} x the time; of {found['requested'] / GIB:.2f} GiB requested at most "
        f"{found['host'] / GIB:.2f} on the host; losses of the first pass {first}, all within {apart:.1e}; "
        f"passes of {times} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("training", choices=TRAININGS)
    parser.add_argument("parts", nargs="*", type=float, default=[0.95, 0.9, 0.8])
    parser.add_argument("--on", default="expandable:host=24GiB", help="what CUPLUG_TORCH says, or native")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)  # of a process that main() started
    asked = parser.parse_args()
    if asked.passes < 3:
        parser.error(f"--passes {asked.passes}: at least 3, of which the first two are not measured")
    if asked.limit is not None:
        run_one(asked.training, asked.passes, asked.limit, asked.deterministic)
        return 0
    return compare(asked)


if __name__ == "__main__":
    sys.exit(main())
