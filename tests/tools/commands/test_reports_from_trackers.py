"""Reports of memory problems from public trackers, rebuilt small: the printed sentence answers the reporter's question.

The figures are smaller than in the reports; what happened, in which order and for whom, is theirs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cuplug.tools.analysis.findings import findings, ran_out
from cuplug.tools.analysis.summarize import summarize
from cuplug.tools.foreign.load import load

from ..conftest import Command
from ..made_snapshots import BASE, GIB, MIB, MadeSnapshot, Place, saved, snapshot_of

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "what-the-sentences-mean.md"
TRAIN = ("<module>", "/home/u/train.py", 60)


def told(path: Path) -> str:
    """Everything that is found, in one line."""
    (device,) = summarize(load(path)).devices
    return " ".join(f"{one.told} {one.do}" for one in findings(device, "FILE"))


def at(number: int) -> int:
    return BASE + number * 16 * GIB


def loop(steps: int, each: int, site: Place, work: Place) -> MadeSnapshot:
    """A program that keeps a block of ``each`` in every step, beside work that comes and goes."""
    made = MadeSnapshot()
    made.reserve(at(0), 64 * MIB)
    for step in range(steps):
        made.allocate(at(0), 60 * MIB, work, TRAIN)
        made.reserve(at(1) + step * 32 * MIB, 20 * MIB)
        made.allocate(at(1) + step * 32 * MIB, each, site, TRAIN)
        made.free(at(0))
    return made


def test_pytorch_1840_memory_grows_while_losses_are_summed_up(tmp_path: Path) -> None:
    """Every loss keeps its graph: ``sum_log_likelihood += neg_log_likelihood``."""
    made = loop(60, 6 * MIB, ("neg_log_likelihood", "/home/u/crf.py", 133), ("forward", "/home/u/crf.py", 90))
    text = told(saved(tmp_path / "crf.pickle", snapshot_of(made)))
    assert "grows steadily, by 6.00 MiB a step, for 60 steps, asked for at neg_log_likelihood (crf.py:133)" in text
    assert "use .item() or .detach()" in text


def test_transformers_7232_evaluation_gathers_all_predictions_on_the_gpu(tmp_path: Path) -> None:
    gather = ("nested_concat", "/venv/lib/python3.8/site-packages/transformers/trainer_pt_utils.py", 100)
    made = MadeSnapshot()
    made.reserve(at(0), 64 * MIB)
    for step in range(60):
        made.allocate(at(0), 60 * MIB, ("forward", "/home/u/bert.py", 12), ("main", "/home/u/evaluate.py", 7))
        made.reserve(at(1) + step * 32 * MIB, 20 * MIB)
        made.allocate(at(1) + step * 32 * MIB, 8 * MIB, gather, ("main", "/home/u/evaluate.py", 7))
        made.free(at(0))
    text = told(saved(tmp_path / "evaluate.pickle", snapshot_of(made)))
    assert "grows steadily, by 8.00 MiB a step, for 60 steps, asked for at main (evaluate.py:7)" in text


def test_vllm_14632_empty_cache_gives_nothing_back_of_what_graphs_hold(command: Command, tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(at(0), 3 * GIB, pool=(0, 1))
    made.allocate(at(0), 3 * GIB, ("capture_model", "/home/u/serve.py", 40))
    made.free(at(0))
    made.reserve(at(1), 4 * GIB)
    made.allocate(at(1), 4 * GIB, ("load_weights", "/home/u/serve.py", 12))
    path = saved(tmp_path / "graphs.pickle", snapshot_of(made))
    assert "The private pool graph (0, 1) keeps 3.00 GiB, of which 3.00 GiB are idle" in told(path)
    assert "of which empty_cache() would give back 0 B" in " ".join(command("summary", path).stdout.split())


def test_rmm_1421_not_all_that_is_allocated_is_freed(tmp_path: Path) -> None:
    """A log of RMM's knows neither lines of the program nor what is reserved."""
    rows = ["Thread,Time,Action,Pointer,Size,Stream"]
    for step in range(60):
        time = f"{10 + step // 60}:{step % 60:02}:00.{{:06}}"
        rows += [
            f"1,{time.format(0)},allocate,{at(0):#x},{60 * MIB},0x0",
            f"1,{time.format(1)},allocate,{at(1) + step * 32 * MIB:#x},{5 * MIB},0x0",
            f"1,{time.format(2)},free,{at(0):#x},{60 * MIB},0x0",
        ]
    path = tmp_path / "rmm.csv"
    path.write_text("\n".join(rows) + "\n")
    text = told(path)
    assert "What is live grows steadily, by 5.00 MiB" in text
    assert "60 blocks (300.00 MiB) are never freed." in text
    assert "What was reserved from the device is not known" in text


def test_deepspeed_3568_every_process_holds_memory_on_gpu_0(command: Command, tmp_path: Path) -> None:
    for rank in range(4):
        devices = [MadeSnapshot(device) for device in range(4)]
        for device, nbytes in {0: 512 * MIB, rank: 2 * GIB}.items():
            devices[device].reserve(at(0), nbytes)
            devices[device].allocate(at(0), nbytes, ("load", "/home/u/train.py", 20))
        saved(tmp_path / f"rank{rank}.pickle", snapshot_of(*devices))
    text = " ".join(command("summary", tmp_path).stdout.split())
    assert "GPU 0 holds memory of 4 processes, 3.50 GiB together at their peaks" in text


def test_taming_transformers_194_it_is_no_fragmentation_where_little_is_unused(tmp_path: Path) -> None:
    """1.39 GiB asked for, 478 MiB free, 4.04 of 4.15 GiB in use: the model and its activations are too large."""
    made = MadeSnapshot()
    made.reserve(at(0), 4250 * MIB)
    made.allocate(at(0), 4137 * MIB, ("attention", "/home/u/unet.py", 181))
    made.entry("oom", 0, 1423 * MIB, device_free=478 * MIB)
    text = told(saved(tmp_path / "diffusion.pickle", snapshot_of(made)))
    assert "The program itself needs more than there is" in text
    assert "Most of what it held then, 4.04 GiB, was asked for at attention (unet.py:181)." in text
    assert "fragmentation" not in text


def test_the_line_that_holds_the_most_is_not_said_to_hold_most_of_it(tmp_path: Path) -> None:
    made = MadeSnapshot()
    for number in range(8):
        made.reserve(at(number), 512 * MIB)
        made.allocate(at(number), 512 * MIB - number * MIB, (f"layer{number}", "/home/u/unet.py", number + 1))
    made.entry("oom", 0, 1423 * MIB, device_free=478 * MIB)
    text = told(saved(tmp_path / "layers.pickle", snapshot_of(made)))
    assert "The largest part of what it held then, 512.00 MiB, was asked for at layer0 (unet.py:1)." in text
    assert "8 blocks (3.97 GiB) are never freed. The largest part was asked for at layer0 (unet.py:1)." in text


def test_stripformer_21_enough_is_free_but_a_small_block_keeps_the_segment(tmp_path: Path) -> None:
    """1.65 GiB asked for, 1.40 free, 3.53 of 5.28 GiB in use."""
    made = MadeSnapshot()
    made.reserve(at(0), 3600 * MIB)
    made.allocate(at(0), 3600 * MIB, ("forward", "/home/u/net.py", 30))
    made.reserve(at(1), 1800 * MIB)
    made.allocate(
        at(1), 15 * MIB, ("blur_kernel", "/home/u/predict.py", 44), ("main", "/home/u/predict.py", 80), offset=600 * MIB
    )
    made.entry("oom", 0, 1690 * MIB, device_free=1434 * MIB)
    text = told(saved(tmp_path / "deblur.pickle", snapshot_of(made)))
    assert "It was fragmentation: enough was free, but not in one piece." in text
    assert (
        "Of 1.74 GiB unused, 1.74 GiB lie in 2 pieces beside blocks, the largest of 1.16 GiB. One segment of 1.76 "
        "GiB, 1.74 GiB of it unused, is pinned by a block of 15.00 MiB, asked for at blur_kernel (predict.py:44). "
        "Without that, the request would fit."
    ) in text


def test_pytorch_147168_blocks_that_collectives_use_are_freed_late(tmp_path: Path) -> None:
    """``record_stream``: the program has freed them, the other stream has not got there yet."""
    made = MadeSnapshot()
    for layer in range(8):
        made.reserve(at(layer), 1 * GIB)
        made.allocate(at(layer), 1 * GIB, ("unshard", "/home/u/fsdp.py", 200))
        made.entry("free_requested", at(layer), 1 * GIB)
    made.reserve(at(8), 1 * GIB)
    made.allocate(at(8), 1 * GIB, ("forward", "/home/u/model.py", 9))
    for layer in range(8):
        made.entry("free_completed", at(layer), 1 * GIB)
        made.is_free(at(layer))
    text = told(saved(tmp_path / "fsdp.pickle", snapshot_of(made)))
    assert "8.00 GiB are freed, but still wait for other streams (record_stream) when the most is reserved" in text
    assert "TORCH_NCCL_AVOID_RECORD_STREAMS=1" in text


def test_pytorch_9439_adam_needs_more_than_sgd(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(at(0), 500 * MIB)
    made.allocate(at(0), 500 * MIB, ("build", "/home/u/vgg.py", 5))
    step = ("step", "/venv/lib/python3.8/site-packages/torch/optim/adam.py", 100)
    for number in range(2):
        made.reserve(at(1 + number), 500 * MIB)
        made.allocate(at(1 + number), 500 * MIB, step, ("train", "/home/u/vgg.py", 31))
    made.entry("oom", 0, 1200 * MIB, device_free=400 * MIB)
    text = told(saved(tmp_path / "adam.pickle", snapshot_of(made)))
    assert "The program itself needs more than there is" in text
    assert "Most of what it held then, 1000.00 MiB, was asked for at train (vgg.py:31)." in text
    assert "grows" not in text


def test_pytorch_69526_empty_cache_releases_only_a_part(command: Command, tmp_path: Path) -> None:
    """What is reserved for a forward pass stays as far as small tensors that live on lie in the same segments."""
    made = MadeSnapshot()
    for number in range(4):
        made.reserve(at(number), 1 * GIB)
        made.allocate(at(number), 1 * GIB, ("forward", "/home/u/net.py", 12))
        made.free(at(number))
    made.allocate(at(0), 2 * MIB, ("train", "/home/u/net.py", 25))
    path = saved(tmp_path / "net.pickle", snapshot_of(made))
    summary = " ".join(command("summary", path).stdout.split())
    assert "idle at the end 4.00 GiB of what is reserved, of which empty_cache() would give back 3.00 GiB" in summary
    pinned = "One segment of 1.00 GiB, 1022.00 MiB of it unused, is pinned by a block of 2.00 MiB"
    assert f"{pinned}, asked for at train (net.py:25)." in summary


def test_megatron_6885_a_stream_used_once_keeps_its_memory(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.reserve(at(0), 20 * GIB // 8, stream=77)
    made.allocate(at(0), 20 * GIB // 8, ("wrap", "/home/u/pretrain.py", 18), stream=77)
    made.free(at(0))
    made.reserve(at(1), 10 * GIB)
    made.allocate(at(1), 10 * GIB, ("forward", "/home/u/pretrain.py", 70))
    text = told(saved(tmp_path / "pretrain.pickle", snapshot_of(made)))
    assert "2.50 GiB lie idle in the pools of 1 other stream when the most is reserved" in text


def test_vllm_57475_graphs_are_captured_when_the_cache_has_taken_the_rest(tmp_path: Path) -> None:
    """What the cache may take was computed before the graphs were captured: 20 MiB are missing then."""
    made = MadeSnapshot()
    made.reserve(at(0), 13 * GIB)
    made.allocate(at(0), 13 * GIB, ("load_weights", "/home/u/serve.py", 12))
    made.reserve(at(1), 3 * GIB)
    made.allocate(at(1), 3 * GIB, ("allocate_kv_cache", "/home/u/serve.py", 30))
    made.reserve(at(2), 460 * MIB, pool=(0, 1))
    made.allocate(at(2), 460 * MIB, ("capture_model", "/home/u/serve.py", 40))
    made.entry("oom", 0, 32 * MIB, device_free=12 * MIB)
    text = told(saved(tmp_path / "capture.pickle", snapshot_of(made)))
    assert "32.00 MiB were asked for. 16.45 GiB were reserved then, of which 0 B were unused" in text
    assert "The program itself needs more than there is" in text
    assert "The private pool graph (0, 1) keeps 460.00 MiB" in text


def test_transformers_22123_a_checkpoint_is_read_to_the_gpu_beside_what_is_there(tmp_path: Path) -> None:
    """A fresh start fits; after ``torch.load`` the optimiser's states are there twice."""
    site = "/venv/lib/python3.10/site-packages"
    made = MadeSnapshot()
    made.reserve(at(0), 5 * GIB)
    made.allocate(at(0), 5 * GIB, ("main", "/home/u/run_clm.py", 390))
    load = ("persistent_load", f"{site}/torch/serialization.py", 1101)
    resume = ("_load_optimizer_and_scheduler", f"{site}/transformers/trainer.py", 2434)
    for number in range(2):
        made.reserve(at(1 + number), 5 * GIB)
        made.allocate(at(1 + number), 5 * GIB, load, resume, ("main", "/home/u/run_clm.py", 580))
    made.entry("oom", 0, 200 * MIB, device_free=90 * MIB)
    text = told(saved(tmp_path / "resume.pickle", snapshot_of(made)))
    assert "10.00 GiB, 66.7%) of them, in 2 blocks, were asked for at main (run_clm.py:580)." in text
    assert "The program itself needs more than there is" in text


def test_deepspeed_1611_parameters_that_went_to_the_host_and_back_take_twice_the_memory(tmp_path: Path) -> None:
    """What single parameters lay in serves no flat buffer; it would go back with ``empty_cache()`` before that."""
    made = MadeSnapshot()
    for number in range(50):
        made.reserve(at(0) + number * 32 * MIB, 20 * MIB)
        made.allocate(at(0) + number * 32 * MIB, 20 * MIB, ("build", "/home/u/train.py", 9))
    for number in range(50):
        made.free(at(0) + number * 32 * MIB)
    made.reserve(at(1), 1000 * MIB)
    made.allocate(at(1), 1000 * MIB, ("flatten", "/home/u/train.py", 14))
    text = told(saved(tmp_path / "flat.pickle", snapshot_of(made)))
    assert "2.00 for 1 requested" in text
    assert "1000.00 MiB are 50 segments that are free as a whole, the largest of 20.00 MiB." in text
    assert "empty_cache() before then would give 1000.00 MiB back" in text


def test_rmm_496_it_is_the_pool_that_grows_by_too_much(command: Command, tmp_path: Path) -> None:
    """Twice 8 GiB do not fit into 32 GiB: the program needs 16."""
    path = tmp_path / "rmm.csv"
    rows = [f"1,10:00:00:{number:06},allocate,{at(number):#x},{8 * GIB},0x0" for number in range(2)]
    path.write_text("\n".join(["Thread,Time,Action,Pointer,Size,Stream", *rows]) + "\n")
    (fit,) = json.loads(command("fit", path, "-a", "caching", "--json").stdout)
    assert fit["least"] == 16 * GIB
    assert "What was reserved from the device is not known" in told(path)


def test_pytorch_122781_lengths_that_vary_are_no_leak(command: Command, tmp_path: Path) -> None:
    """Each batch is somewhat longer than those before: what is live stays, what is reserved grows with each."""
    made = MadeSnapshot()
    made.reserve(at(0), 64 * MIB)
    made.allocate(at(0), 64 * MIB, ("__init__", "/home/u/embed.py", 4))
    for step in range(60):
        made.reserve(at(1 + step), (20 + 2 * step) * MIB)
        made.allocate(at(1 + step), (20 + 2 * step) * MIB, ("forward", "/home/u/embed.py", 8), TRAIN)
        made.free(at(1 + step))
    path = saved(tmp_path / "embed.pickle", snapshot_of(made))
    text = told(path)
    assert "grows" not in text
    assert "are 59 segments that are free as a whole" in text
    assert "empty_cache() before then would give 4.49 GiB back" in text
    advice = " ".join(command("advise", path, "--jobs", 1).stdout.split())
    assert "with PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF) it" in advice


def test_torchrec_4584_three_causes_of_unused_memory_are_told_apart(tmp_path: Path) -> None:
    """Of another stream, scattered over segments, and between blocks that live."""
    made = MadeSnapshot()
    made.reserve(at(0), 4 * GIB, stream=7)
    made.allocate(at(0), 4 * GIB, ("stash", "/home/u/step.py", 3), stream=7)
    made.free(at(0))
    for number in range(4):
        made.reserve(at(1 + number), 1 * GIB)
        made.allocate(at(1 + number), 1 * GIB, ("forward", "/home/u/step.py", 9))
        made.free(at(1 + number))
    made.reserve(at(5), 2 * GIB)
    made.allocate(at(5), 512 * MIB, ("pin", "/home/u/step.py", 12))
    made.reserve(at(6), 6 * GIB)
    made.allocate(at(6), 6 * GIB, ("restore", "/home/u/step.py", 15))
    text = told(saved(tmp_path / "stash.pickle", snapshot_of(made)))
    assert (
        "Of 9.50 GiB unused, 4.00 GiB are 4 segments that are free as a whole, the largest of 1.00 GiB; 1.50 GiB lie "
        "in one piece beside blocks; 4.00 GiB lie in the segments of 1 other stream."
    ) in text
    assert "is pinned by a block of 512.00 MiB, asked for at pin (step.py:12)." in text


@pytest.mark.parametrize("row", re.findall(r"^\| (?!---|What you see)(.*) \|$", GUIDE.read_text(), re.MULTILINE))
def test_every_row_of_the_guides_table_has_a_sentence_of_the_tools(row: str) -> None:
    """Three words in a row, at least, stand in the code that prints them: the rest are figures and names."""
    tools = Path(__file__).resolve().parents[3] / "tools"
    code = " ".join(
        re.sub(r'"\s*\n\s*f?"', "", file.read_text())
        for folder in ("analysis", "reporters")
        for file in sorted((tools / folder).glob("*.py"))
    )
    quoted = re.findall(r'"([^"]+)"', row)
    assert quoted
    for sentence in quoted:
        words = sentence.split()
        rows = [" ".join(words[at : at + 3]) for at in range(max(len(words) - 2, 1))]
        assert any(row in code for row in rows), sentence


def test_pytorch_107667_a_limit_is_no_fragmentation(tmp_path: Path) -> None:
    """``set_per_process_memory_fraction(0.25)``: a request is refused while the device has 17.6 GiB free."""
    made = MadeSnapshot()
    made.reserve(at(0), 6000 * MIB)
    made.allocate(at(0), 6000 * MIB, ("load", "/home/u/train.py", 20))
    made.entry("oom", 0, 100 * MIB, device_free=18000 * MIB)
    text = told(saved(tmp_path / "limit.pickle", snapshot_of(made)))
    assert "and the request was refused all the same: look for a limit" in text
    assert "fragmentation" not in text


def test_opacus_176_a_device_filled_by_a_leak_is_not_fragmented(command: Command, tmp_path: Path) -> None:
    """Hooks keep activations until 1 MiB is asked for, while 64 MiB are free in a piece."""
    made = loop(60, 20 * MIB, ("capture", "/home/u/hooks.py", 6), ("forward", "/home/u/net.py", 3))
    made.entry("oom", 0, 1 * MIB, device_free=0, frames=[{"name": "forward", "filename": "/home/u/net.py", "line": 3}])
    path = saved(tmp_path / "hooks.pickle", snapshot_of(made))
    text = told(path)
    assert "1.00 MiB were asked for at forward (net.py:3)" in text
    assert "by 20.00 MiB a step, for 60 steps, asked for at capture (hooks.py:6)" in text
    assert "Without that growth the request would fit." in text
    assert "fragmentation" not in text
    assert "what is live had grown to 1.17 GiB of 1.23 GiB" in " ".join(command("advise", path).stdout.split())


def test_cobra_24_a_device_that_is_full_but_for_a_little_is_called_full(tmp_path: Path) -> None:
    """158 MiB asked for, 115.69 free, 22.14 GiB in use, and 910.35 MiB reserved but unallocated."""
    made = MadeSnapshot()
    made.reserve(at(0), 23582 * MIB)
    made.allocate(at(0), 22672 * MIB, ("forward", "/home/u/train.py", 20))
    made.entry("oom", 0, 158 * MIB, device_free=115 * MIB)
    text = told(saved(tmp_path / "full.pickle", snapshot_of(made)))
    assert "The device is full: 22.14 GiB of 23.14 GiB were in use." in text
    assert "where nothing is trained, no_grad()" in text
    assert "fragmentation" not in text


def test_states_kept_until_the_training_returns_are_growth(tmp_path: Path) -> None:
    """``best.append(deepcopy(model.state_dict()))``: the list is freed where the function ends, before the snapshot."""
    made = loop(60, 8 * MIB, ("keep_best", "/home/u/train.py", 9), ("forward", "/home/u/net.py", 3))
    for step in range(60):
        made.free(at(1) + step * 32 * MIB)
    text = told(saved(tmp_path / "best.pickle", snapshot_of(made)))
    assert "What is live grows steadily, by 8.00 MiB a step, for 60 steps, asked for at keep_best (train.py:9)" in text


def test_a_model_too_large_to_load_is_no_leak(tmp_path: Path) -> None:
    made = MadeSnapshot()
    for layer in range(60):
        made.reserve(at(layer), 100 * MIB)
        made.allocate(at(layer), 100 * MIB, ("load", "/home/u/train.py", 20))
    made.entry("oom", 0, 100 * MIB, device_free=10 * MIB)
    text = told(saved(tmp_path / "load.pickle", snapshot_of(made)))
    assert "Nothing is freed meanwhile: something large is loaded, or what is not needed any more is kept." in text
    assert "leak" not in text
    assert "The program itself needs more than there is, 5.87 GiB. Hold less at the peak" in text
    assert "If the GPU has much more than 5.87 GiB, other processes and libraries hold the rest" in text


def test_pytorch_33143_a_request_for_more_than_all_memory_is_called_that(tmp_path: Path) -> None:
    """A workspace of almost 16 EiB: a size that overflowed."""
    made = MadeSnapshot()
    made.reserve(at(0), 100 * MIB)
    made.allocate(at(0), 100 * MIB, ("load", "/home/u/train.py", 20))
    made.entry("oom", 0, (1 << 59) - 512, device_free=7 * GIB)
    assert "This request alone is for more than that." in told(saved(tmp_path / "wide.pickle", snapshot_of(made)))


@pytest.mark.parametrize("freed", [False, True])
def test_pytorch_27600_what_failed_is_held_while_its_exception_is_handled(tmp_path: Path, freed: bool) -> None:
    """A smaller batch is tried within the except block, where the frames of the first still hold its tensors."""
    made = MadeSnapshot()
    for number, size in enumerate((2, 3)):
        made.reserve(at(number), size * GIB)
        made.allocate(at(number), size * GIB, ("forward", "/home/u/train.py", 20))
    made.entry("oom", 0, 4 * GIB, device_free=1 * GIB)
    if freed:
        made.free(at(1))
    made.reserve(at(2), 512 * MIB)
    made.allocate(at(2), 512 * MIB, ("forward", "/home/u/train.py", 20))
    made.entry("oom", 0, 1 * GIB, device_free=512 * MIB)
    text = told(saved(tmp_path / "retry.pickle", snapshot_of(made)))
    assert ("Nothing that was live at the first failure had been freed at the last" in text) == (not freed)
    assert ("The program itself needs more than there is" in text) == freed
    assert "(2 times): 4.00 GiB were asked for" in text


def test_a_program_that_goes_on_after_a_failure_is_told_so(tmp_path: Path) -> None:
    made = MadeSnapshot()
    made.entry("oom", 0, 4 * GIB, device_free=1 * GIB)
    made.reserve(at(0), 1 * GIB)
    made.allocate(at(0), 1 * GIB, ("forward", "/home/u/train.py", 20))
    text = told(saved(tmp_path / "search.pickle", snapshot_of(made)))
    assert "(1 time, and the program went on): 4.00 GiB were asked for" in text


def test_pytorch_71616_what_waits_for_other_streams_is_no_want_of_memory(tmp_path: Path) -> None:
    """648 MiB asked for, 228 free, 22.96 GiB in use, 36.19 reserved: the rest was freed, and not yet passed."""
    made = MadeSnapshot()
    made.reserve(at(0), 22 * GIB)
    made.allocate(at(0), 22 * GIB, ("forward", "/home/u/train.py", 20))
    for block in range(1, 14):
        made.reserve(at(block), 1 * GIB)
        made.allocate(at(block), 1 * GIB, ("gather", "/home/u/train.py", 30))
        made.entry("free_requested", at(block), 1 * GIB)
    made.entry("oom", 0, 648 * MIB, device_free=228 * MIB)
    path = saved(tmp_path / "collectives.pickle", snapshot_of(made))
    (device,) = summarize(load(path)).devices
    failure = ran_out(device, path)
    assert failure.verdict.endswith(": 13.00 GiB were freed, but waited for other streams (record_stream).")
    assert failure.no_help
    assert failure.do.startswith("Let the block's stream wait for the other one (wait_stream)")


def test_rmm_2039_a_failure_in_a_log_of_blocks_says_what_was_in_use(tmp_path: Path) -> None:
    path = tmp_path / "rmm.csv"
    rows = [f"1,10:00:0{at}.000000,allocate,{BASE + at * GIB:#x},{GIB},0x0" for at in range(5)]
    rows += [f"1,10:00:06.000000,free,{BASE:#x},{GIB},0x0", f"1,10:00:07.000000,allocate failure,0x0,{3 * GIB},0x0"]
    path.write_text("\n".join(["Thread,Time,Action,Pointer,Size,Stream", *rows]) + "\n")
    text = told(path)
    assert "3.00 GiB were asked for. 4.00 GiB were in use then; what was reserved is not known." in text


def test_timm_72_the_rank_that_ran_out_of_memory_is_shown_first(command: Command, tmp_path: Path) -> None:
    """Every process loads a checkpoint onto GPU 0; there is less room for the first, which reserves less than they."""
    for rank in range(3):
        devices = [MadeSnapshot(device) for device in range(3)]
        for device, nbytes in {0: 512 * MIB, rank: 2 * GIB}.items():
            devices[device].reserve(at(0), nbytes)
            devices[device].allocate(at(0), nbytes, ("load", "/home/u/train.py", 20))
        if rank == 0:
            devices[0].entry("oom", 0, 1 * GIB, device_free=100 * MIB)
        saved(tmp_path / f"rank{rank}.pickle", snapshot_of(*devices))
    text = " ".join(command("summary", tmp_path).stdout.split())
    assert "rank 0 runs out of memory" in text
    assert "rank0.pickle), 1 time." in text
    assert "Out of memory at 0.000 s (1 time): 1.00 GiB were asked for." in text
    said = command("report", tmp_path, "-o", tmp_path / "page.html").stderr
    assert "which ran out of memory" in " ".join(said.split())


def test_gpytorch_550_what_held_memory_when_it_ran_out_is_named_not_what_held_it_before(tmp_path: Path) -> None:
    """After ``del model`` its optimiser still has its parameters; the activations of the peak are gone."""
    made = MadeSnapshot()
    made.reserve(at(0), 2 * GIB)
    made.allocate(at(0), 2 * GIB, ("step", "/home/u/train.py", 9))
    made.reserve(at(1), 5 * GIB)
    made.allocate(at(1), 5 * GIB, ("forward", "/home/u/train.py", 7))
    made.free(at(1))
    made.release(at(1))
    made.entry("oom", 0, 6 * GIB, device_free=5 * GIB)
    text = told(saved(tmp_path / "del.pickle", snapshot_of(made)))
    assert "Most of what it held then, 2.00 GiB, was asked for at step (train.py:9)." in text


def test_pools_that_ended_before_the_snapshot_are_known_by_their_entries(command: Command, tmp_path: Path) -> None:
    """Since PyTorch 2.14 every entry says of which pool it is: graphs of four shapes, destroyed while the error goes
    up."""
    made = MadeSnapshot()
    made.reserve(at(0), 4 * GIB)
    made.allocate(at(0), 4 * GIB, ("load", "/home/u/serve.py", 12))
    for shape in range(1, 5):
        place = {"pool_id": (shape, 0)}
        made.entry("segment_alloc", at(shape), 1 * GIB, **place)
        for action in ("alloc", "free_requested", "free_completed"):
            made.entry(action, at(shape), 1 * GIB, **place)
    made.entry("oom", 0, 2 * GIB, device_free=1 * GIB)
    for shape in range(1, 5):
        made.entry("segment_free", at(shape), 1 * GIB, pool_id=(shape, 0))
    path = saved(tmp_path / "shapes.pickle", snapshot_of(made))
    text = told(path)
    assert "The 4 private pools keep 4.00 GiB, of which 3.00 GiB are idle when the most is reserved" in text
    assert "Of 4.00 GiB unused, 4.00 GiB lie in private pools." in text
    assert "fragmentation" not in text
    advice = " ".join(command("advise", path, "--memory", "9GiB").stdout.split())
    assert "4.00 GiB lay idle in private pools, which serve nothing else" in advice
    assert "None completes this history" in advice


@pytest.mark.parametrize(("free", "memory"), [(1, "9GiB"), (16, "8GiB")])
def test_a_file_that_says_what_there_was_names_the_memory_to_try(
    command: Command, tmp_path: Path, free: int, memory: str
) -> None:
    """Reserved and free together; below a limit, where more is free than was asked for, what was reserved."""
    made = MadeSnapshot()
    for part in range(2):
        made.reserve(at(part), 4 * GIB)
        made.allocate(at(part), 2 * GIB, ("forward", "/home/u/train.py", 20))
    made.entry("oom", 0, 3 * GIB, device_free=free * GIB)
    advice = " ".join(command("advise", saved(tmp_path / "run.pickle", snapshot_of(made))).stdout.split())
    assert f"Give --memory {memory}, what it had when it ran out" in advice


def test_what_a_line_asked_for_last_does_not_count_as_kept_where_most_of_it_goes(tmp_path: Path) -> None:
    """One line makes both the block that is kept and the one that comes and goes; the last of these is still there."""
    line = ("empty", "/home/u/helpers.py", 6)
    made = loop(60, 6 * MIB, line, line)
    made.allocate(at(0), 60 * MIB, line, TRAIN)
    (device,) = summarize(load(saved(tmp_path / "helper.pickle", snapshot_of(made)))).devices
    assert device.growth is not None
    assert device.growth.nbytes == device.growth.times * 6 * MIB
    assert device.growth.times == 60


def test_a_line_that_keeps_to_the_end_is_steady_though_its_last_blocks_are_not_counted(tmp_path: Path) -> None:
    """The first 18 of 60 blocks go again: the others are spread over 9 of the 12 parts of the history."""
    line = ("empty", "/home/u/helpers.py", 6)
    made = loop(60, 6 * MIB, line, line)
    for step in range(18):
        made.free(at(1) + step * 32 * MIB)
    made.allocate(at(0), 60 * MIB, line, TRAIN)
    (device,) = summarize(load(saved(tmp_path / "helper.pickle", snapshot_of(made)))).devices
    assert device.growth is not None
    assert device.growth.nbytes == device.growth.times * 6 * MIB
