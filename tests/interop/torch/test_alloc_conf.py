"""What PyTorch's settings of its own allocator become."""

import pytest
from cuplug.runtime.interop.torch.alloc_conf import follow, read_settings

CUDA, ANY = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"


def test_lists_within_settings_are_one_value() -> None:
    text = "roundup_power2_divisions:[256:1,512:2,>:8], max_split_size_mb: 128"
    found = read_settings({ANY: text})
    assert found == (ANY, {"roundup_power2_divisions": "[256:1,512:2,>:8]", "max_split_size_mb": "128"})


def test_the_variable_for_cuda_counts_first() -> None:
    assert read_settings({ANY: "a:1", CUDA: "b:2"}) == (CUDA, {"b": "2"})
    assert read_settings({}) == ("", {})


@pytest.mark.parametrize(
    ("selection", "settings", "becomes"),
    [
        ("caching", "max_split_size_mb:64", "caching:max_split_size=67108864"),
        ("caching", "garbage_collection_threshold:0.8", "caching:garbage_collection_threshold=0.8"),
        ("caching:preset=torch", "roundup_power2_divisions:8", "caching:preset=torch,roundup_power2_divisions=8"),
        ("caching", "expandable_segments:False,backend:native", "caching"),
        ("expandable", "expandable_segments:True", "expandable"),
        ("expandable", "per_process_memory_fraction:0.5,pinned_num_register_threads:4", "expandable"),
    ],
)
def test_what_an_allocator_can_do_is_followed_without_a_word(selection: str, settings: str, becomes: str) -> None:
    assert follow(selection, {CUDA: settings}) == (becomes, "")


@pytest.mark.parametrize(
    ("selection", "settings", "idle"),
    [
        ("expandable", "max_split_size_mb:64,expandable_segments:True", "max_split_size_mb:64"),
        ("caching", "expandable_segments:True", "expandable_segments:True"),
        ("caching", "roundup_power2_divisions:[256:1,>:8]", "roundup_power2_divisions:[256:1,>:8]"),
        ("caching:max_split_size=64MiB", "max_split_size_mb:128", "max_split_size_mb:128"),
        ("caching", "backend:cudaMallocAsync", "backend:cudaMallocAsync"),
        (None, "max_split_size_mb:64", "max_split_size_mb:64"),
    ],
)
def test_the_rest_is_one_sentence(selection: str | None, settings: str, idle: str) -> None:
    becomes, sentence = follow(selection, {CUDA: settings})
    assert becomes == selection
    assert f"of {CUDA}, cuplug does not follow {idle}:" in sentence
