"""Which files a source includes, as the compile cache has to know."""

from __future__ import annotations

from pathlib import Path

from cuplug.runtime.kernels.compile.compile_cache import Cache, Entry, dependencies_of
from cuplug.runtime.kernels.source.includes import folders_of, included_files


def test_headers_of_headers_are_found_beside_them_and_in_the_folders(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.h").write_text('  #  include \\\n "b.h"\n')
    (tmp_path / "inner" / "b.h").write_text('#include <c.h>\n#include "a.h"\n')
    (tmp_path / "c.h").write_text("")
    places, complete = included_files('#include "inner/a.h"\n', [str(tmp_path)])
    assert complete
    assert {str(tmp_path / name) for name in ("inner/a.h", "inner/b.h", "c.h")} <= set(places)


def test_a_header_that_appears_in_an_earlier_folder_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    (second / "a.h").write_text("")
    places, _ = included_files("#include <a.h>", [str(first), str(second)])
    entry = Entry(b"", {}, dependencies_of(places, absent=True))
    assert entry.current()
    (first / "a.h").write_text("")
    assert not entry.current()


def test_files_that_are_tested_for_count_and_names_made_by_macros_are_not_known(tmp_path: Path) -> None:
    places, complete = included_files('#if __has_include("maybe.h")\n#endif\n', [str(tmp_path)])
    assert complete
    assert str(tmp_path / "maybe.h") in places
    assert not included_files("#include HEADER\n", [])[1]


def test_an_entry_whose_files_are_not_all_known_is_not_kept(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path), []
    for complete in (False, True, True):
        cache.get_or_make("0123", lambda complete=complete: made.append(1) or Entry(b"x", complete=complete))  # type: ignore[misc,func-returns-value]
    assert len(made) == 2


def test_options_name_folders_and_files() -> None:
    options = [
        "-I",
        "/a",
        "-I/b",
        "--include-path=/c",
        "-include-path",
        "/d",
        "--pre-include=x.h",
        "-include",
        "y.h",
        "-DI",
    ]
    assert folders_of(options) == (["/a", "/b", "/c", "/d"], ["x.h", "y.h"])
