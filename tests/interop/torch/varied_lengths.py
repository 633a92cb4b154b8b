"""GPT-2 trained on batches of many lengths, where only so many GiB of the device may be used: ``varied_lengths.py 13``.

PyTorch's own allocator dies of fragmentation here, though all that the program has at once would fit. Prints in which
step, or the figures of the whole run.
"""

import random
import sys

import torch
from transformers import AutoModelForCausalLM, GPT2Config

limit = float(sys.argv[1])
steps, seed = (int(text) for text in (sys.argv[2:4] or ("16", "0")))
GIB = 1 << 30


def main() -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(limit * GIB / total)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(GPT2Config())
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    for step in range(steps):
        length = random.randint(64, 1024) // 8 * 8
        tokens = torch.randint(0, 50257, (random.choice([4, 8]), length), device="cuda")
        try:
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
        except torch.OutOfMemoryError:
            held = torch.cuda.memory_stats()
            requested = held["requested_bytes.all.peak"] / GIB
            sys.exit(f"out of memory in step {step}, with {requested:.2f} GiB requested at most")
        optimizer.zero_grad(set_to_none=True)
    held = torch.cuda.memory_stats()
    requested, reserved = (held[f"{kind}_bytes.all.peak"] / GIB for kind in ("requested", "reserved"))
    print(f"{steps} steps: {requested:.2f} GiB requested at most, {reserved:.2f} GiB reserved")


main()
