"""What a kernel may reach by the names that it mentions: whether its threads may wait for one another."""

from __future__ import annotations

import re

from ..source import declarations as syntax

MEETING = frozenset(
    (
        *("__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp"),
        *("__activemask", "__shfl", "__shfl_up", "__shfl_down", "__shfl_xor", "__shfl_sync"),
        *("__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__any", "__all", "__ballot"),
        *("__any_sync", "__all_sync", "__ballot_sync", "__uni_sync", "__match_any_sync", "__match_all_sync"),
        *("__reduce_add_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync"),
        *("__reduce_or_sync", "__reduce_xor_sync", "__nanosleep", "this_thread_block", "tiled_partition"),
        *("this_grid", "grid_group"),
        *("asm", "__asm__", "__asm"),  # which may ask for the lane
        *(
            "coalesced_threads",
            "thread_block",
            "barrier",
            "pipeline_shared_state",
            "atomic",
            "atomic_ref",
            "wmma",
            "cub",
        ),
    )
)
"""What lets threads wait for one another: a kernel from which one of these can be reached needs fibres."""
SPINNING = frozenset(
    {
        *("volatile", "atomicCAS", "atomicExch", "atomicAdd", "atomicSub", "atomicInc", "atomicDec"),
        *("atomicAnd", "atomicOr", "atomicXor", "atomicMin", "atomicMax", "__ldcv", "__ldcg"),
    }
)
"""And what a thread may look at until another one has come by: under ``races`` it must be able to, so as to say who
waits for whom."""


class Reach:
    """Which names lead to a barrier or a warp function."""

    def __init__(self, found: syntax.SourceDeclarations, meeting: frozenset[str]) -> None:
        self._tokens = tokens = found.tokens
        self._meeting = meeting
        self._mentions: dict[str, set[str]] = {}
        for name, first, last in found.aliases:
            self._mentions.setdefault(name, set()).update(syntax.identifiers(tokens, first, last))
        for declaration in found.declarations:
            mentioned = syntax.identifiers(tokens, declaration.head[0], declaration.body[1])
            owners = [scope.name for scope in declaration.scopes if scope.kind == "type"]
            for name in (declaration.name, *owners):
                self._mentions.setdefault(name, set()).update(mentioned)

    def __call__(self, start: set[str]) -> bool:
        """Whether anything that these names mention, however indirectly, lets threads wait."""
        return not self._meeting.isdisjoint(self.names(start | ({"", "operator"} & self._mentions.keys())))

    def names(self, start: set[str]) -> set[str]:
        """All names that these mention, however indirectly."""
        seen: set[str] = set()
        waiting = set(start)
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting |= self._mentions.get(name, set()) - seen
        return seen

    def kernel(self, kernel: syntax.Kernel, expression: str = "", besides: str = "") -> bool:
        """Whether threads of the kernel may wait for one another, ``besides`` where the kernel itself says this."""
        words = set(re.findall(r"\w+", expression))
        if kernel.body:
            words |= syntax.identifiers(self._tokens, kernel.parameters[0], kernel.body[1])
        return kernel.name in self._meeting or self(words - {kernel.name, besides})
