"""Files that are damaged or made to do harm: ``load`` answers each with one ArgumentError, in little memory."""

from __future__ import annotations

import io
import json
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.core.tensor_errors import ArgumentError

pytestmark = pytest.mark.one_schedule


def archive(pickled: bytes, storages: dict[str, bytes] | None = None, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as made:
        made.writestr("archive/data.pkl", pickled)
        for name, content in (storages or {}).items():
            made.writestr(f"archive/data/{name}", content)
    return file.getvalue()


def load(content: bytes) -> Any:
    return cuplug.load(io.BytesIO(content))


def stored(
    size: Any, stride: Any, offset: Any = 0, count: Any = 4, name: Any = "0", kind: str = "FloatStorage"
) -> bytes:
    """A pickle of one tensor, of which any part may be anything."""

    def of(value: Any) -> bytes:
        return pickle.dumps(value, protocol=2)[2:-1]  # without its beginning and its end

    storage = b"(" + of("storage") + b"ctorch\n" + kind.encode() + b"\n" + of(name) + of("cpu") + of(count) + b"tQ"
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + of(offset) + of(size) + of(stride) + b"\x89}tR."


CONTENT = {"0": np.arange(4.0, dtype=np.float32).tobytes()}


def test_the_tensor_that_these_files_damage_is_read() -> None:
    assert load(archive(stored((2, 2), (2, 1)), CONTENT)).tolist() == [[0, 1], [2, 3]]
    assert load(archive(stored((2, 2), (2, 1)), CONTENT, zipfile.ZIP_DEFLATED)).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("kind", ["ComplexFloatStorage", "QInt8Storage", "Storage", "TypedStorage"])
def test_a_storage_of_unknown_elements_is_refused_by_name(kind: str) -> None:
    with pytest.raises(TypeError, match=rf"load: the file holds elements of torch\.{kind}, which") as raised:
        load(archive(stored((2, 2), (2, 1), kind=kind), CONTENT))
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, cuplug.CuplugError)


@pytest.mark.parametrize("kind", ["ByteStorage", "UntypedStorage"])
def test_a_storage_of_bytes_is_read(kind: str) -> None:
    found = load(archive(stored((2,), (1,), kind=kind), {"0": b"\1\2\3\4"}))
    assert found.tolist() == [1, 2]
    assert found.dtype is cuplug.uint8


@pytest.mark.parametrize(
    "part",
    [
        {"size": (-2, -2)}, {"size": (-1, 4)}, {"size": (2.0, 2)}, {"size": (True, 2)}, {"size": "22"}, {"size": 4},
        {"size": None}, {"size": (1 << 62, 1 << 62), "stride": (0, 0)}, {"size": (1,) * 100, "stride": (1,) * 100},
        {"size": (1 << 5000,), "stride": (0,)}, {"size": (4, 4)}, {"stride": (2,)}, {"stride": ("a", "b")},
        {"stride": (1 << 70, 0)}, {"stride": (-1, -1)}, {"stride": {}}, {"offset": -1}, {"offset": 1.0},
        {"offset": 1 << 63}, {"offset": "0"}, {"offset": 1}, {"count": -4}, {"count": 1 << 70}, {"count": None},
        {"name": "1"}, {"name": ["0"]}, {"name": 0}, {"name": "../data.pkl"},
    ],
    ids=repr,
)  # fmt: skip
def test_a_tensor_of_wrong_parts_is_refused(part: dict[str, Any]) -> None:
    pickled = stored(**{"size": (2, 2), "stride": (2, 1), **part})
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with pytest.raises(ArgumentError, match="load: ") as raised:
            load(archive(pickled, CONTENT, compression))
        assert len(str(raised.value)) < 300


DEEP = 200_000
PICKLES = {
    "nothing": b"",
    "no end": b"\x80\x02]",
    "an index that was never written": b"\x80\x02j\xff\xff\xff\x7f.",
    "a negative index in words": b"]p-5\n.",
    "an index in words without end": b"]p" + b"9" * 5000 + b"\n.",
    "a key of nested tuples": b"\x80\x02}" + b")" + b"\x85" * DEEP + b"Ns.",
    "a set of nested tuples": b"\x80\x04\x8f(" + b")" + b"\x85" * DEEP + b"\x90.",
    "a frozen set of nested tuples": b"\x80\x04(" + b")" + b"\x85" * DEEP + b"\x91.",
    "an ordered dictionary of nested tuples": (
        b"\x80\x02ccollections\nOrderedDict\n(](" + b")" + b"\x85" * DEEP + b"Nteat.R."
    ),
    "a counter of nested tuples": b"\x80\x02ccollections\nCounter\n(](" + b")" + b"\x85" * DEEP + b"etR.",
    "a counter of text": b"\x80\x02ccollections\nCounter\n(X\x01\x00\x00\x00atR.",
    "a key that doubles with each level": b"\x80\x02})" + b"2\x86" * 60 + b"Ns.",
    "a bytearray of a petabyte": b"\x80\x05\x96" + struct.pack("<Q", 1 << 50) + b".",
    "bytes of an exabyte": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".",
    "a frame of an exabyte": b"\x80\x04\x95" + struct.pack("<Q", 1 << 60) + b".",
    "a call of a number": b"\x80\x02K\x05)R.",
    "a call of a tensor's type without arguments": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "a call with a list of arguments": b"\x80\x02ctorch\nSize\n]R.",
    "an object of a number's": b"\x80\x02K\x05)\x81.",
    "attributes of a function": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}X\x01\x00\x00\x00aK\x01s\x86b.",
    "attributes of a class": b"\x80\x02ctorch\nSize\nN}X\x01\x00\x00\x00aK\x01s\x86b.",
    "an item of a class": b"\x80\x02ctorch\nSize\nK\x01K\x01s.",
    "an element of a dictionary": b"\x80\x02}K\x01a.",
    "a key that is a list": b"\x80\x02}]K\x01s.",
    "a number by copyreg": b"\x80\x02\x82\x01.",
    "a buffer out of band": b"\x80\x05\x97.",
    "a persistent identity that is a number": b"\x80\x02K\x05Q.",
    "a persistent identity in words": b"P0\n.",
    "a device that is none": b"\x80\x02ctorch\ndevice\n(X\x05\x00\x00\x00stovetR.",
    "a size of text": b"\x80\x02ctorch\nSize\n(X\x05\x00\x00\x00stovetR.",
    "bytes of a number": b"\x80\x02c__builtin__\nbytearray\n(J\xff\xff\xff\x7ftR.",
    "bytes of another encoding": b"\x80\x02c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR.",
    "an array of text repeated": (
        b"\x80\x02cnumpy\nndarray\n((X\x01\x00\x00\x00aJ\xff\xff\xff\x7ftX\x03\x00\x00\x00<f8X\x00\x00\x00\x00tR."
    ),
    "a scalar of a list": b"\x80\x02cnumpy\nfloat32\n(]tR.",
    "a name that is not text": b"\x80\x04K\x01K\x02\x93.",
    "a protocol to come": b"\x80\xff.",
    "marks without end": b"(" * DEEP,
    "an instruction that is none": b"\x80\x02\xff.",
    "a name of the system's": b"cos\nsystem\n(S'true'\ntR.",
}  # fmt: skip


@pytest.mark.parametrize("what", PICKLES)
def test_a_pickle_that_is_damaged_or_hostile_is_refused(what: str) -> None:
    with pytest.raises(ArgumentError, match="load: ") as raised:
        load(archive(PICKLES[what]))
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("opening", [b"]", b"(", b"}K\x01"], ids=["lists", "tuples", "dictionaries"])
def test_what_is_nested_deeply_is_read_and_let_go(opening: bytes) -> None:
    closing = {b"]": b"a", b"(": b"t", b"}K\x01": b"s"}[opening]
    load(archive(b"\x80\x02" + opening * DEEP + b"N" + closing * DEEP + b"."))


def test_an_index_of_the_memo_may_be_anything() -> None:
    assert load(archive(b"\x80\x02]r\xff\xff\xff\x7f.")) == []


def test_a_counter_takes_what_its_dictionary_holds_once() -> None:
    counter = b"ccollections\nCounter\n"
    pickled = b"\x80\x02" + counter + b"}q\x00K\x05K\x01s\x85R" + counter + b"h\x00\x85R\x86."
    assert load(archive(pickled)) == ({5: 1}, {})


BOMBS = """
import io, resource, sys, zipfile
import cuplug
from cuplug.runtime.tensor.core.tensor_errors import ArgumentError
bomb = open(sys.argv[1], "rb").read()
cuplug.ones(1)
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    cuplug.load(io.BytesIO(bomb))
except ArgumentError as error:
    print(error, file=sys.stderr)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 160 << 10, grown  # KiB
else:
    sys.exit("it was read")
"""


def _zeros(name: str, file: zipfile.ZipFile) -> None:
    with file.open(name, "w") as entry:
        for _ in range(3):
            entry.write(bytes(1 << 26))


@pytest.mark.parametrize("what", ["a pickle", "a storage", "overlapping entries", "a header of safetensors"])
def test_what_inflates_out_of_proportion_is_refused_before_it_does(what: str, tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        if what == "a pickle":
            _zeros("archive/data.pkl", made)
        else:
            made.writestr("archive/data.pkl", stored((1 << 25,), (1,), count=1 << 25))
            if what == "a storage":
                _zeros("archive/data/0", made)
    content = file.getvalue()
    if what == "overlapping entries":
        # Four hundred names of one deflated entry of 16 MiB, which is no honest file.
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
            pickled = b"".join(stored((1 << 22,), (1,), count=1 << 22, name=f"{number}")[2:-1] for number in range(400))
            made.writestr("archive/data.pkl", b"\x80\x02(" + pickled + b"l.")
            made.writestr("archive/data/0", bytes(1 << 24))
            entry = made.getinfo("archive/data/0")
            for number in range(1, 400):
                other = zipfile.ZipInfo(f"archive/data/{number}")
                for field in ("header_offset", "CRC", "compress_size", "file_size", "compress_type", "flag_bits"):
                    setattr(other, field, getattr(entry, field))
                other.orig_filename = entry.filename
                made.filelist.append(other)
        content = file.getvalue()
    elif what == "a header of safetensors":
        entries = {f"{n}": {"dtype": "U8", "shape": [1 << 22], "data_offsets": [0, 1 << 22]} for n in range(2000)}
        header = json.dumps(entries).encode()
        content = len(header).to_bytes(8, "little") + header + bytes(1 << 22)
    (tmp_path / "bomb").write_bytes(content)
    command = [sys.executable, "-c", BOMBS, str(tmp_path / "bomb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-1000:]
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [-1, -2]}, {"shape": [2.0]}, {"shape": ["a"]}, {"shape": "aa"}, {"shape": 2}, {"shape": [1 << 80]},
        {"data_offsets": [-8, 0]}, {"data_offsets": [0, 8.0]}, {"data_offsets": [8, 0]}, {"data_offsets": [0]},
        {"data_offsets": [0, 1 << 70]}, {"data_offsets": None}, {"dtype": []}, {"dtype": "F33"},
    ],
    ids=repr,
)  # fmt: skip
def test_an_entry_of_safetensors_that_is_wrong_is_refused(entry: dict[str, Any]) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **entry}}).encode()
    with pytest.raises(ArgumentError, match="load: "):
        load(len(header).to_bytes(8, "little") + header + bytes(8))


@pytest.mark.parametrize("header", [b"[" * 100_000, b'{"a":' * 100_000, b"{}", b"[]", b"1", b'{"x": 1}', b"\xff" * 9])
def test_a_header_of_safetensors_that_is_none_is_refused(header: bytes) -> None:
    with pytest.raises(ArgumentError, match="load: "):
        load(len(header).to_bytes(8, "little") + header)


def test_an_entry_packed_in_another_way_is_refused() -> None:
    for compression in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(ArgumentError, match="compressed in another way"):
            load(archive(stored((4,), (1,)), CONTENT, compression))


INSTRUCTIONS = b"(.0123]}[tRQbsuaehlp\x85\x86\x8f\x90\xff\x00\x80"


@pytest.mark.parametrize("seed", range(4))
def test_whatever_bytes_are_changed_the_answer_is_an_object_or_one_error(seed: int) -> None:
    dice = random.Random(seed)
    file = io.BytesIO()
    content = {"a": cuplug.arange(6.0).reshape(2, 3), "b": [1, 2.5, "text", None, {1, 2}], "c": np.arange(3)}
    cuplug.save(content, file)
    with zipfile.ZipFile(file) as made:
        pickled, storage = made.read("archive/data.pkl"), made.read("archive/data/0")
    plain = file.getvalue()
    refused = 0
    for _ in range(400):
        if dice.random() < 0.7:  # the pickle, in an archive whose sums are right
            data = bytearray(pickled)
            for _ in range(dice.choice((1, 1, 2, 8))):
                at = dice.randrange(len(data))
                data[at : at + dice.choice((0, 1, 1))] = bytes([dice.choice(INSTRUCTIONS)])
            changed = archive(bytes(data), {"0": storage})
        else:
            damaged = bytearray(plain)
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            changed = bytes(damaged)
        try:
            load(changed)
        except ArgumentError as error:
            assert str(error).startswith("load: ")  # noqa: PT017
            refused += 1
    assert refused > 100


def test_an_error_of_the_programs_own_function_is_its_own() -> None:
    class OwnError(Exception):
        pass

    def nowhere(storage: Any, location: str) -> Any:
        raise OwnError(location)

    file = io.BytesIO()
    cuplug.save(cuplug.ones(2), file)
    file.seek(0)
    with pytest.raises(OwnError, match="cpu"):
        cuplug.load(file, nowhere)


def test_the_sum_of_a_storage_that_changed_is_wrong() -> None:
    content = archive(stored((4,), (1,)), CONTENT)
    at = content.index(CONTENT["0"])
    with pytest.raises(ArgumentError, match="damaged"):
        load(content[: at + 5] + b"\x77" + content[at + 6 :])
