"""Selection strings, and options converted by a factory's annotations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from cuplug.allocators.errors import OutOfMemoryError, PluginError
from cuplug.plugins.selection import Selection, build, needed_options, options_of, parse_selection
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from elsewhere import Unimportable  # type: ignore[import-not-found]


class Everything:
    """Takes every type of option."""

    def __init__(
        self,
        upstream: Unimportable,
        *,
        chunk: Annotated[int, "Bytes taken at once."] = 4096,
        limit: int | None = None,
        ratio: float = 0.5,
        greedy: bool = False,
        label: str = "x",
        path: str | None = None,
        schedule: Literal["eager", "lazy"] = "eager",
        hook: Unimportable = None,
    ) -> None:
        self.upstream = upstream
        self.options = (chunk, limit, ratio, greedy, label, path, schedule)


def make(text: str) -> tuple[object, ...]:
    options = parse_selection(f"everything:{text}").options
    return build("allocator", "everything", Everything, options, "upstream").options


def test_a_name_alone_is_a_selection_without_options():
    assert parse_selection(" caching ") == Selection("caching", {})


def test_options_are_split_at_commas_and_the_first_equals_sign():
    assert parse_selection("sim:schedule=random:7, memory = 2GiB,x=a=b") == Selection(
        "sim", {"schedule": "random:7", "memory": "2GiB", "x": "a=b"}
    )


names = st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True)
values = st.text(st.characters(exclude_characters=",", codec="ascii"), max_size=8).map(str.strip)


@given(names, st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), values, max_size=4))
def test_a_selection_written_out_reads_back_as_itself(name, options):
    selection = Selection(name, options)
    assert parse_selection(str(selection)) == selection


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not start with a name"),
        (":a=1", "does not start with a name"),
        ("a=1", "does not start with a name"),
        ("caching:", "is not option=value"),
        ("caching:limit", "'limit' is not option=value"),
        ("caching:a=1,,b=2", "'' is not option=value"),
        ("caching:a=1,a=2", "gives the option 'a' twice"),
    ],
)
def test_a_malformed_selection_is_an_error_that_shows_the_form(text, says):
    with pytest.raises(PluginError, match="option") as caught:
        parse_selection(text)
    assert says in str(caught.value)


def test_something_that_is_no_text_is_an_error():
    with pytest.raises(PluginError, match="not 7"):
        parse_selection(7)  # type: ignore[arg-type]


def test_options_are_converted_by_their_annotations():
    assert make("chunk=2MiB,limit=1GiB,ratio=0.25,greedy=yes,label=12,path=/tmp,schedule=lazy") == (
        2 << 20,
        1 << 30,
        0.25,
        True,
        "12",
        "/tmp",
        "lazy",
    )
    assert make("limit=none,path=none,greedy=off,chunk=-1") == (-1, None, 0.5, False, "x", None, "eager")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("chunk=many", "'many' is no whole number"),
        ("limit=1.5", "'1.5' is no whole number"),
        ("greedy=perhaps", "'perhaps' is neither true nor false"),
        ("ratio=half", "could not convert string to float"),
        ("schedule=eagerly", "it must be one of eager, lazy"),
        ("hook=print", "text cannot give its type, Unimportable"),
    ],
)
def test_a_wrong_value_is_an_error_that_lists_the_options(text, says):
    with pytest.raises(PluginError) as caught:
        make(text)
    assert says in str(caught.value)
    assert "allocator 'everything': option" in str(caught.value)
    assert "chunk (int), limit (int | None)" in str(caught.value)


def test_an_unknown_option_is_an_error_that_lists_and_suggests():
    with pytest.raises(PluginError, match=r"no option 'chunks'; its options are chunk.*Did you mean 'chunk'\?"):
        make("chunks=1")


def test_a_missing_required_option_is_an_error():
    def factory(upstream: object, *, path: str) -> None: ...

    with pytest.raises(PluginError, match=r"needs the option 'path'"):
        build("allocator", "file", factory, {}, None)


class Either:
    needs_one_of = ("path", "times")

    def __init__(
        self, *, path: Annotated[str | None, "a file"] = None, times: Annotated[int | None, "a number"] = None
    ) -> None:
        self.options = (path, times)


@pytest.mark.parametrize("given", [{}, {"path": "none"}])
def test_a_factory_that_needs_one_of_its_options_is_refused_without_any(given):
    with pytest.raises(PluginError, match=r"allocator 'either' needs path=... \(a file\) or times=... \(a number\)$"):
        build("allocator", "either", Either, given)


@pytest.mark.parametrize(("given", "made"), [({"times": "0"}, (None, 0)), ({"path": "x"}, ("x", None))])
def test_one_of_the_options_that_a_factory_needs_is_enough(given, made):
    assert build("allocator", "either", Either, given).options == made


class Chosen(Either):
    def __init__(self) -> None:
        super().__init__(path="always")


def test_a_subclass_that_gives_the_option_itself_needs_none():
    assert build("allocator", "chosen", Chosen, {}).options == ("always", None)
    assert needed_options(Chosen, options_of(Chosen)) == ()
    assert needed_options(Either, options_of(Either)) == ("path", "times")


def test_a_factory_that_fails_is_named_with_what_it_got():
    def factory(upstream: object, *, chunk: int = 1) -> None:
        raise ValueError("a chunk is positive")

    with pytest.raises(PluginError, match=r"'a' of plugin 'p', with chunk=0, cannot be made: ValueError: a chunk is"):
        build("allocator", "a", factory, {"chunk": "0"}, None, plugin="p")


def test_cuplugs_own_errors_pass_through_a_factory():
    def factory(upstream: object) -> None:
        raise OutOfMemoryError("full")

    with pytest.raises(OutOfMemoryError, match="full"):
        build("allocator", "a", factory, {}, None)


def test_options_are_described_with_type_default_and_text():
    options = options_of(Everything)
    chunk = options["chunk"]
    assert (chunk.type_name, chunk.default, chunk.description) == ("int", 4096, "Bytes taken at once.")
    assert options["limit"].type_name == "int | None"
    assert options["schedule"].type_name == "eager | lazy"
    assert options["hook"].type_name == "Unimportable"


class Caller:
    def __call__(self, upstream: object, *, chunk: Annotated[int, "text"] = 1) -> int:
        return chunk


@pytest.mark.parametrize(
    "factory", [Caller(), partial(Caller(), chunk=1), Caller().__call__], ids=["an object", "a partial", "a method"]
)
def test_any_callable_can_be_a_factory(factory):
    assert options_of(factory)["chunk"].description == "text"
    assert build("allocator", "a", factory, {"chunk": "1KiB"}, None) == 1024
