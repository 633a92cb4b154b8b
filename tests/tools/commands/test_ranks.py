"""A job of eight processes on the simulator, of which one leaks and one fragments: the tools name both."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cuplug.runtime.machine.runtime import Runtime

from ..conftest import Command

RANKS, LEAKS, FRAGMENTS = 8, 3, 6
KIB, MIB = 1 << 10, 1 << 20


def train(path: Path, rank: int) -> None:
    """What a rank of a training job allocates: weights once, activations in each step."""
    with Runtime(allocator="caching:preset=torch", driver="sim", trace=path) as runtime:
        weights = [runtime.alloc(2 * MIB) for _ in range(4)]
        kept = []
        for step in range(40):
            factor = 1 + step / 7 if rank == FRAGMENTS else 2  # sequences that get longer
            activations = [runtime.alloc(int(factor * (layer + 11) * MIB)) for layer in range(3)]
            if rank == LEAKS:
                kept.append(runtime.alloc(300 * KIB + step))
            while activations:
                activations.pop().close()
        for buffer in (*kept, *weights):
            buffer.close()  # at its end, so that nothing is live: what leaks is seen in the course of it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    for rank in range(RANKS):
        train(folder / f"rank{rank}.cuplug", rank)
    return folder


def named(text: str) -> str:
    return " ".join(text.split())


def test_summary_compares_the_ranks_and_names_which_leaks_and_which_fragments(command: Command, folder: Path) -> None:
    result = command("summary", folder)
    assert result.exit_code == 0, result.stderr
    told = named(result.stdout)
    assert f"rank {LEAKS} leaks" in told
    assert f"rank {FRAGMENTS} fragments" in told
    assert told.count(" leaks (") == told.count(" fragments (") == 1
    data = json.loads(command("summary", folder, "--json").stdout)
    assert [rank["name"] for rank in data["job"]["ranks"]] == [f"rank {rank}" for rank in range(RANKS)]
    assert len(data["histories"]) == RANKS
    reserved = {entry["what"]: entry for entry in data["job"]["spreads"]}["peak reserved"]
    each = [sum(device["reserved"]["nbytes"] for device in one["devices"]) for one in data["histories"]]
    assert (reserved["least"], reserved["most"]) == (min(each), max(each))
    assert reserved["worst"] == data["job"]["worst"] == f"rank {each.index(max(each))}"


def test_advise_makes_one_choice_for_all_and_names_both(command: Command, folder: Path) -> None:
    words = ("advise", folder, "--jobs", 1)
    told = named(command(*words).stdout)
    assert f"rank {LEAKS} leaks" in told
    assert f"rank {FRAGMENTS} fragments" in told
    data = json.loads(command(*words, "--json").stdout)
    tried = {
        entry["allocator"]: max(
            other["peak_reserved_bytes"]
            for history in data["histories"]
            for other in history["tried"]
            if other["allocator"] == entry["allocator"]
        )
        for entry in data["histories"][0]["tried"]
        if all(entry["allocator"] in {other["allocator"] for other in one["tried"]} for one in data["histories"])
    }
    assert tried[data["recommended"]] == min(tried.values())
    assert f"Use {data['recommended']} in every process" in told


def test_report_names_both_and_shows_the_worst(command: Command, folder: Path, tmp_path: Path) -> None:
    result = command("report", folder, "-o", tmp_path / "r.html")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "r.html").read_text()
    assert f"rank {LEAKS} leaks" in page
    assert f"rank {FRAGMENTS} fragments" in page
    assert f"{RANKS} processes reserve between" in page


def test_fit_and_compare_show_the_worst_rank_and_the_spread(command: Command, folder: Path) -> None:
    told = command("fit", *(folder / f"rank{rank}.cuplug" for rank in (0, FRAGMENTS)), "-a", "direct", "--jobs", 1)
    assert "All 2 processes" in told.stdout
    assert f"rank{FRAGMENTS}" in told.stdout.partition("All 2 processes")[2]
    told = command("compare", folder)
    assert "Peak reserved over all" in told.stdout
    assert f"rank{FRAGMENTS}" in told.stdout.partition("Peak reserved over all")[2]


def test_a_folder_stands_for_its_traces_in_the_order_of_their_numbers(
    command: Command, folder: Path, tmp_path: Path
) -> None:
    for number in (10, 9, 2):
        shutil.copy(folder / "rank0.cuplug", tmp_path / f"rank{number}.cuplug")
    told = json.loads(command("summary", tmp_path, "--json").stdout)
    assert [rank["name"] for rank in told["job"]["ranks"]] == ["rank 2", "rank 9", "rank 10"]


@pytest.mark.parametrize(
    "make", [lambda folder: f"file://{folder}", lambda folder: f"file://{folder}/rank[01]*.cuplug"]
)
def test_traces_are_read_by_their_addresses(command: Command, folder: Path, make: Callable[[Path], str]) -> None:
    pytest.importorskip("fsspec")
    result = command("summary", make(folder), "--json")
    assert result.exit_code == 0, result.stderr
    by_address = json.loads(result.stdout)
    by_path = json.loads(command("summary", folder, "--json").stdout)
    for one, other in zip(by_address["histories"], by_path["histories"], strict=False):
        assert one["devices"] == other["devices"]
        assert one["path"] == f"file://{other['path']}"


def test_an_address_that_cannot_be_read_is_one_line(refused: Callable[..., str]) -> None:
    pytest.importorskip("fsspec")
    assert "does not exist" in refused("summary", "file:///no/such/trace.cuplug")
    assert "cannot read nonsense://bucket/x" in refused("summary", "nonsense://bucket/x")
