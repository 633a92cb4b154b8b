"""Inline PTX: what people write computes what PTX's manual says, and what is not known is refused by its line."""

# ruff: noqa: E501, ISC004 - statements of PTX stand on one line
from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from cuplug.allocators.errors import CompileError, DriverError

pytestmark = pytest.mark.one_schedule

M32, M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def f32(value: float) -> int:
    """The bits of a float."""
    return int(np.float32(value).view(np.uint32))


def f64(value: float) -> int:
    """The bits of a double."""
    return int(np.float64(value).view(np.uint64))


def f16(*values: float) -> int:
    """The bits of one half, or of two, the first the lower."""
    return sum(int(np.float16(value).view(np.uint16)) << 16 * place for place, value in enumerate(values))


# Statement, and what it leaves in r (32 bits), l (64 bits) or h (16 bits).
STATEMENTS: list[tuple[str, str, int]] = [
    # moves
    ('"mov.b64 {%0, %1}, %2;" : "=r"(r), "=r"(s) : "d"(1.5)', "r", 0),
    ('"mov.b64 {%0, %1}, %2;" : "=r"(s), "=r"(r) : "d"(1.5)', "r", 0x3FF80000),
    ('"mov.b64 %0, {%1, %2};" : "=l"(l) : "r"(7u), "r"(9u)', "l", 9 << 32 | 7),
    ('"mov.b32 %0, {%1, %2};" : "=r"(r) : "h"((unsigned short)0x1234), "h"((unsigned short)0xabcd)', "r", 0xABCD1234),
    ('"{ .reg .b16 a, b; mov.b32 {a, b}, %1; mov.b32 %0, {b, a}; }" : "=r"(r) : "r"(0x11112222u)', "r", 0x22221111),
    ('"mov.b32 %0, 0f3F800000;" : "=f"(x)', "x", f32(1)),
    ('"mov.b32 %0, %1;" : "=r"(r) : "f"(2.5f)', "r", f32(2.5)),
    ('"mov.u32 %0, WARP_SZ;" : "=r"(r)', "r", 32),
    # integers
    ('"shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(0x80000001u), "r"(0x80000001u), "r"(1u)', "r", 3),
    ('"shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(5u), "r"(6u), "r"(40u)', "r", 6),
    ('"add.cc.u32 %0, %2, %3; addc.u32 %1, 0, 0;" : "=r"(s), "=r"(r) : "r"(0xffffffffu), "r"(2u)', "r", 1),
    ('"sub.cc.u32 %0, %2, %3; subc.u32 %1, 10, 0;" : "=r"(s), "=r"(r) : "r"(1u), "r"(2u)', "r", 9),
    ('"add.cc.u64 %0, %1, %1; addc.u64 %0, %0, 0;" : "=l"(l) : "l"(0x8000000000000003ull)', "l", 7),
    ('"mad.lo.cc.u32 %0, %2, %2, %2; madc.hi.u32 %1, %2, %2, 0;" : "=r"(s), "=r"(r) : "r"(0xffffffffu)', "r", M32),
    ('"mul.wide.u32 %0, %1, %1;" : "=l"(l) : "r"(0xffffffffu)', "l", M32 * M32),
    ('"mul.wide.s32 %0, %1, %2;" : "=l"(l) : "r"(-3), "r"(5)', "l", -15 & M64),
    ('"mul.wide.u16 %0, %1, %1;" : "=r"(r) : "h"((unsigned short)0xffff)', "r", 0xFFFF * 0xFFFF),
    ('"mul.hi.u64 %0, %1, %1;" : "=l"(l) : "l"(0xffffffffffffffffull)', "l", M64 - 1),
    ('"mul.hi.s32 %0, %1, %2;" : "=r"(r) : "r"(-1), "r"(1)', "r", M32),
    ('"mad.wide.s32 %0, %1, %2, %3;" : "=l"(l) : "r"(-2), "r"(3), "l"(1ll)', "l", -5 & M64),
    ('"mad.lo.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(-2), "r"(3), "r"(1)', "r", -5 & M32),
    ('"mad24.lo.u32 %0, %1, %1, 1;" : "=r"(r) : "r"(0xff000003u)', "r", 10),
    ('"add.sat.s32 %0, %1, %1;" : "=r"(r) : "r"(0x7fffffff)', "r", 0x7FFFFFFF),
    ('"sub.s16 %0, %1, %2;" : "=h"(h) : "h"((short)1), "h"((short)2)', "h", 0xFFFF),
    ('"div.s32 %0, %1, %2;" : "=r"(r) : "r"(-7), "r"(2)', "r", -3 & M32),
    ('"rem.u64 %0, %1, %2;" : "=l"(l) : "l"(17ull), "l"(5ull)', "l", 2),
    ('"min.s32 %0, %1, %2;" : "=r"(r) : "r"(-7), "r"(2)', "r", -7 & M32),
    ('"max.u32 %0, %1, %2;" : "=r"(r) : "r"(-7), "r"(2)', "r", -7 & M32),
    ('"abs.s32 %0, %1;" : "=r"(r) : "r"(-7)', "r", 7),
    ('"sad.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(3u), "r"(9u), "r"(1u)', "r", 7),
    ('"dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(0x01ff0203u), "r"(0x01ff0102u), "r"(10u)', "r", (10 + 6 + 2 - 255 + 1) & M32),
    ('"dp2a.hi.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(0x00020003u), "r"(0x05060000u), "r"(1u)', "r", 1 + 18 + 10),
    # bits
    ('"bfe.u32 %0, %1, 4, 8;" : "=r"(r) : "r"(0xABCDu)', "r", 0xBC),
    ('"bfe.s32 %0, %1, 4, 8;" : "=r"(r) : "r"(0xABCDu)', "r", 0xFFFFFFBC),
    ('"bfe.s32 %0, %1, 28, 16;" : "=r"(r) : "r"(0x90000000u)', "r", 0xFFFFFFF9),
    ('"bfe.u64 %0, %1, 60, 200;" : "=l"(l) : "l"(0xf000000000000000ull)', "l", 15),
    ('"bfi.b32 %0, %1, %2, 8, 4;" : "=r"(r) : "r"(0xffu), "r"(0x10u)', "r", 0xF10),
    ('"bfi.b64 %0, %1, %2, 40, 80;" : "=l"(l) : "l"(0xffffffffull), "l"(1ull)', "l", 0xFFFFFF << 40 | 1),
    ('"bfind.s32 %0, %1;" : "=r"(r) : "r"(-5)', "r", 2),
    ('"bfind.shiftamt.u64 %0, %1;" : "=r"(r) : "l"(1ull)', "r", 63),
    ('"prmt.b32 %0, %1, %2, 0xc3;" : "=r"(r) : "r"(0x01020304u), "r"(0x80u)', "r", 0x0404FF01),
    ('"popc.b64 %0, %1;" : "=r"(r) : "l"(0xff00ff00ff00ff00ull)', "r", 32),
    ('"clz.b64 %0, %1;" : "=r"(r) : "l"(0ull)', "r", 64),
    ('"brev.b64 %0, %1;" : "=l"(l) : "l"(1ull)', "l", 1 << 63),
    ('"shl.b64 %0, %1, 64;" : "=l"(l) : "l"(1ull)', "l", 0),
    ('"shr.s32 %0, %1, 40;" : "=r"(r) : "r"(-9)', "r", M32),
    ('"shr.u16 %0, %1, 4;" : "=h"(h) : "h"((unsigned short)0x8000)', "h", 0x800),
    ('"xor.b64 %0, %1, -1;" : "=l"(l) : "l"(5ull)', "l", 5 ^ M64),
    ('"cnot.b32 %0, %1;" : "=r"(r) : "r"(0u)', "r", 1),
    ('"lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(r) : "r"(3u), "r"(5u), "r"(6u)', "r", 7),
    # floats
    ('"add.rz.f32 %0, %1, %2;" : "=f"(x) : "f"(1.0f), "f"(-1e-10f)', "x", f32(1) - 1),
    ('"fma.rp.f64 %0, %1, %1, %2;" : "=d"(y) : "d"(1.0), "d"(1e-300)', "y", f64(1) + 1),
    ('"mul.ftz.f32 %0, %1, %2;" : "=f"(x) : "f"(1e-30f), "f"(1e-10f)', "x", 0),
    ('"add.sat.f32 %0, %1, %2;" : "=f"(x) : "f"(3.0f), "f"(1.0f)', "x", f32(1)),
    ('"fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(0x40003c00u), "r"(0x42004200u), "r"(0x3c003c00u)', "r", f16(4, 7)),
    ('"add.f16 %0, %1, %1;" : "=h"(h) : "h"((unsigned short)0x3c00)', "h", f16(2)),
    ('"mul.rn.bf16x2 %0, %1, %1;" : "=r"(r) : "r"(0x40004040u)', "r", 0x40804110),
    ('"max.f32 %0, %1, %2;" : "=f"(x) : "f"(__int_as_float(0x7fffffff)), "f"(2.0f)', "x", f32(2)),
    ('"min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(__int_as_float(0x7fffffff)), "f"(2.0f)', "x", 0x7FFFFFFF),
    ('"neg.f64 %0, %1;" : "=d"(y) : "d"(2.5)', "y", f64(-2.5)),
    ('"copysign.f32 %0, %1, %2;" : "=f"(x) : "f"(-1.0f), "f"(2.0f)', "x", f32(-2)),
    ('"sqrt.rn.f32 %0, %1;" : "=f"(x) : "f"(9.0f)', "x", f32(3)),
    ('"rcp.rn.f64 %0, %1;" : "=d"(y) : "d"(4.0)', "y", f64(0.25)),
    ('"ex2.approx.f32 %0, %1;" : "=f"(x) : "f"(3.0f)', "x", f32(8)),
    ('"div.rn.f32 %0, %1, %2;" : "=f"(x) : "f"(1.0f), "f"(3.0f)', "x", f32(1 / 3)),
    # conversions
    ('"cvt.rni.s32.f32 %0, %1;" : "=r"(r) : "f"(-2.5f)', "r", -2 & M32),
    ('"cvt.rzi.u32.f64 %0, %1;" : "=r"(r) : "d"(-2.5)', "r", 0),
    ('"cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(1.0f), "f"(2.0f)', "r", f16(2, 1)),
    ('"cvt.rz.f16.f32 %0, %1;" : "=h"(h) : "f"(1.9999f)', "h", 0x3FFF),
    ('"cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((unsigned short)0x4200)', "x", f32(3)),
    ('"cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(1.0f), "f"(3.0f)', "r", 0x3F804040),
    ('"cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__int_as_float(0x3f801000))', "r", 0x3F802000),
    ('"cvt.rpi.f32.f32 %0, %1;" : "=f"(x) : "f"(1.25f)', "x", f32(2)),
    ('"cvt.rm.f32.f64 %0, %1;" : "=f"(x) : "d"(0.1)', "x", f32(0.1) - 1),
    ('"cvt.sat.u8.s32 %0, %1;" : "=r"(r) : "r"(300)', "r", 255),
    ('"cvt.s32.s8 %0, %1;" : "=r"(r) : "r"(0xff)', "r", M32),
    ('"cvt.u32.u64 %0, %1;" : "=r"(r) : "l"(0x1234567890ull)', "r", 0x34567890),
    ('"cvt.s64.s32 %0, %1;" : "=l"(l) : "r"(-2)', "l", -2 & M64),
    # predicates
    ('"{ .reg .pred p; setp.lt.s32 p, %1, 0; selp.u32 %0, 5, 6, p; }" : "=r"(r) : "r"(-1)', "r", 5),
    ('"{ .reg .pred p, q; setp.gt.u32 p|q, %1, 3; @q mov.u32 %0, 1; @!q mov.u32 %0, 2; }" : "=r"(r) : "r"(4u)', "r", 2),
    ('"{ .reg .pred p; setp.neu.f32 p, %1, %1; @p bra YES; mov.u32 %0, 1; bra DONE; YES: mov.u32 %0, 2; DONE: }" '
     ': "=r"(r) : "f"(__int_as_float(0x7fc00000))', "r", 2),
    ('"{ .reg .pred p, q; setp.ne.f32 p, %1, %1; setp.eq.and.u32 q, 1, 1, !p; selp.u32 %0, 3, 4, q; }" '
     ': "=r"(r) : "f"(__int_as_float(0x7fc00000))', "r", 3),
    ('"set.ge.u32.s32 %0, %1, -1;" : "=r"(r) : "r"(0)', "r", M32),
    ('"slct.u32.s32 %0, 7, 8, %1;" : "=r"(r) : "r"(-1)', "r", 8),
    ('"{ .reg .pred p; testp.infinite.f32 p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "f"(__int_as_float(0x7f800000))', "r", 1),
    ('"{ .reg .u32 t<3>; mov.u32 t0, 3; mov.u32 t2, %1; { .reg .u32 t0; mov.u32 t0, 9; } add.u32 %0, t0, t2; }" '
     ': "=r"(r) : "r"(4u)', "r", 7),
    ('"{ .reg .u32 i; .reg .pred p; mov.u32 i, 0; AGAIN: add.u32 i, i, 3; setp.lt.u32 p, i, %1; @p bra AGAIN; '
     'mov.u32 %0, i; }" : "=r"(r) : "r"(10u)', "r", 12),
    ('"add.u32 %0, %0, %1; // twice\\n\\tadd.u32 %0, %0, %1; /* done */" : "+r"(r) : "n"(4)', "r", 8),
    ('"mov.b64{%0,%1},%2;" : "=r"(r), "=r"(s) : "l"(7ull)', "r", 7),
    # memory
    ('"ld.global.cg.u32 %0, [%1];" : "=r"(r) : "l"(words)', "r", 0x03020100),
    ('"ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2 + 8];" : "=r"(s), "=r"(r) : "l"(words)', "r", 0x0F0E0D0C),
    ('"ld.s8 %0, [%1 + 130];" : "=r"(r) : "l"(words)', "r", 0xFFFFFF82),
    ('"ld.volatile.global.u16 %0, [%1+2];" : "=h"(h) : "l"(words)', "h", 0x0302),
    ('"ld.acquire.gpu.global.b64 %0, [%1];" : "=l"(l) : "l"(words)', "l", 0x0706050403020100),
    ('"cvta.to.global.u64 %0, %1;" : "=l"(l) : "l"(words)); l -= (unsigned long long)words; asm volatile(""', "l", 0),
    ('"prefetch.global.L2 [%0];" :: "l"(words)', "r", 0),
    ('"st.shared.v2.u32 [%0], {%1, %2};" :: "r"(near), "r"(5u), "r"(6u) : "memory"); asm volatile('
     '"ld.shared.u32 %0, [%1 + 4];" : "=r"(r) : "r"(near)', "r", 6),
    ('"st.shared.b8 [%0+3], %1;" :: "r"(near), "r"(0x1ffu)); r = tile[0] >> 24; asm volatile(""', "r", 0xFF),
    ('"{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(s) : "l"(tile)); tile[1] = 77; '
     'asm volatile("ld.shared.u32 %0, [%1+4];" : "=r"(r) : "r"(s)', "r", 77),
    ('"cp.async.ca.shared.global [%0], [%1], 8, 4;" :: "r"(near), "l"(words)); asm volatile("cp.async.commit_group;"); '
     'asm volatile("cp.async.wait_group %0;" :: "n"(0)); l = tile[0] + ((unsigned long long)tile[1] << 32); asm volatile(""',
     "l", 0x03020100),
    ('"cp.async.cg.shared.global.L2::128B [%0], [%1], %2;" :: "r"(near), "l"(words), "n"(16)); '
     'asm volatile("cp.async.wait_all;"); r = tile[3]; asm volatile(""', "r", 0x0F0E0D0C),
    ('"{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "l"(tile)', "r", 1),
    ('"atom.global.add.u32 %0, [%1], 5;" : "=r"(r) : "l"(counter)); r += *counter; *counter = 0; asm volatile(""', "r", 5),
    ('"red.relaxed.gpu.global.max.s32 [%0], %1;" :: "l"(counter), "r"(9)); r = *counter; *counter = 0; asm volatile(""', "r", 9),
    ('"atom.acq_rel.gpu.global.cas.b32 %0, [%1], 0, 3;" : "=r"(r) : "l"(counter)); r = *counter; *counter = 0; asm volatile(""',
     "r", 3),
    ('"red.global.add.noftz.f16x2 [%0], %1;" :: "l"(counter), "r"(0x3c004000u)); r = *counter; *counter = 0; asm volatile(""',
     "r", f16(2, 1)),
    ('"atom.shared.exch.b32 %0, [%1], 8;" : "=r"(s) : "r"(near)); r = tile[0]; asm volatile(""', "r", 8),
    # threads
    ('"mov.u32 %0, %%ntid.x;" : "=r"(r)', "r", 32),
    ('"{ .reg .pred p; setp.eq.u32 p, %1, 3; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"(lane)', "r", 8),
    ('"shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(r) : "r"(lane + 100)', "r", 101),
    ('"{ .reg .pred p; shfl.sync.down.b32 %0|p, %1, 4, 0x1c03, -1; @!p mov.u32 %0, 1000; }" : "=r"(r) : "r"(lane)', "r", 1000),
    ('"shfl.sync.idx.b32 %0, %1, 6, 0x181f, -1;" : "=r"(r) : "r"(lane + 16)', "r", 22),
    ('"redux.sync.add.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane)', "r", 496),
    ('"match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(lane / 16)', "r", 0xFFFF),
    ('"bar.sync 0;"); r = 1; asm volatile("bar.warp.sync 0xffffffff;"', "r", 1),
    ('"{ .reg .pred p; setp.lt.u32 p, %1, 5; bar.red.popc.u32 %0, 0, p; }" : "=r"(r) : "r"(lane)', "r", 5),
    ('"membar.gl; fence.acq_rel.gpu; nanosleep.u32 1;" ::: "memory"', "r", 0),
]  # fmt: skip

VALUES = """
extern "C" __global__ void all(unsigned long long *results, const unsigned char *words, unsigned *counter) {
    __shared__ __align__(16) unsigned tile[8];
    const unsigned lane = threadIdx.x, near = (unsigned)__cvta_generic_to_shared(tile);
    if (lane < 8) tile[lane] = 0;
    __syncthreads();
%s
}
"""


def statements() -> str:
    """A kernel that executes all of ``STATEMENTS``, of which thread 0 keeps what they leave."""
    lines = []
    for number, (statement, kept, _) in enumerate(STATEMENTS):
        value = {"x": "__float_as_uint(x)", "y": "(unsigned long long)__double_as_longlong(y)"}.get(kept, kept)
        alone = any(word in statement for word in ("atom", "red.", "counter"))
        alone = alone and "bar.red" not in statement
        code = f"asm volatile({statement});"
        lines.append(
            "    { unsigned r = 0, s = 0; unsigned long long l = 0; unsigned short h = 0; float x = 0; double y = 0;\n"
            f"      {f'if (lane == 0) {{ {code} }}' if alone else code}\n"
            f"      (void)s; (void)l; (void)h; (void)x; (void)y; if (lane == 0) results[{number}] = {value};\n"
            "      __syncthreads(); }"
        )
    return VALUES % "\n".join(lines)


@pytest.mark.parametrize("check", [True, "races"])
def test_instructions_leave_what_ptx_says(machine: Any, check: Any) -> None:
    words = machine.up(np.arange(256, dtype=np.uint8))
    results, counter = machine.zeros(len(STATEMENTS), np.uint64), machine.zeros(1, np.uint32)
    machine.module(statements(), check=check).get_function("all")(results, words, counter, grid=1, block=32)
    found = machine.down(results, len(STATEMENTS), np.uint64)
    wrong = [
        (statement, hex(int(value)), hex(expected))
        for (statement, _, expected), value in zip(STATEMENTS, found, strict=True)
        if int(value) != expected
    ]
    assert not wrong


def test_a_carry_outlives_its_statement(machine: Any) -> None:
    source = """
        __device__ __forceinline__ void add(unsigned &a, unsigned b) { asm volatile("add.cc.u32 %0, %0, %1;" : "+r"(a) : "r"(b)); }
        __device__ __forceinline__ void addc(unsigned &a, unsigned b) { asm volatile("addc.cc.u32 %0, %0, %1;" : "+r"(a) : "r"(b)); }
        extern "C" __global__ void k(unsigned *a, const unsigned *b) {
            unsigned x[4];
            for (int i = 0; i < 4; ++i) x[i] = a[4 * threadIdx.x + i];
            add(x[0], b[0]);
            for (int i = 1; i < 4; ++i) addc(x[i], b[i]);
            for (int i = 0; i < 4; ++i) a[4 * threadIdx.x + i] = x[i];
        }"""
    values = [(1 << 128) - 1 - i for i in range(32)]
    a = machine.up(np.frombuffer(b"".join(value.to_bytes(16, "little") for value in values), np.uint32))
    other = 0x0123456789ABCDEF_FEDCBA9876543210
    b = machine.up(np.frombuffer(other.to_bytes(16, "little"), np.uint32))
    machine.module(source).get_function("k")(a, b, grid=1, block=32)
    found = machine.down(a, 128, np.uint32).tobytes()
    sums = [int.from_bytes(found[16 * i : 16 * i + 16], "little") for i in range(32)]
    assert sums == [(value + other) % (1 << 128) for value in values]


def test_barriers_with_a_number_are_for_some_of_the_threads(machine: Any) -> None:
    source = """
        extern "C" __global__ void k(int *out) {
            __shared__ int ready[2];
            const int half = threadIdx.x / 64;
            if (threadIdx.x % 64 == 0) ready[half] = half + 5;
            asm volatile("bar.sync %0, 64;" :: "r"(half + 1) : "memory");
            out[threadIdx.x] = ready[half];
            if (half == 0) asm volatile("bar.arrive 4, 128;" ::: "memory");
            else { asm volatile("bar.sync 4, 128;" ::: "memory"); out[threadIdx.x] += out[threadIdx.x - 64]; }
        }"""
    out = machine.zeros(128, np.int32)
    machine.module(source).get_function("k")(out, grid=1, block=128)
    assert machine.down(out, 128, np.int32).tolist() == [5] * 64 + [11] * 64


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ('asm volatile("wgmma.fence.sync.aligned;");', "kernel.cu:3: 'wgmma.fence.sync.aligned'"),
        ('asm volatile("mov.u32 %0, 1;\\n\\t"\n"  frobnicate.b32 %0, %0;" : "=r"(x[0]));', "kernel.cu:4: 'frobnicate.b32 %0, %0'"),
        ('asm volatile("add.u32.surely %0, %0, 1;" : "+r"(x[0]));', "its '.surely'"),
        ('asm volatile("{ AGAIN: wgmma.fence.sync.aligned;}" ::);', "kernel.cu:3: 'wgmma.fence.sync.aligned'"),
        ('asm volatile("max.f32 %0, %0;" : "+r"(x[0]));', "its form"),
        ('asm volatile("mov.u32 %0, %%unheard_of;" : "=r"(x[0]));', "the special register '%unheard_of'"),
        ('asm volatile("add.u32 %0, nowhere, 1;" : "=r"(x[0]));', "'nowhere'"),
        ('asm volatile("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%0}, {%0}, {%0}, {%0};" : "+r"(x[0]));', "'.m8n8k4'"),
        ('asm volatile("cp.async.bulk.commit_group;"); asm volatile("cp.async.bulk.prefetch.L2.global [%0], 16;" :: "l"(x));',
         "bulk"),
    ],
)  # fmt: skip
@pytest.mark.needs_sim
def test_what_is_not_known_is_refused_by_instruction_and_line(machine: Any, statement: str, said: str) -> None:
    with pytest.raises(CompileError) as caught:
        machine.module(f"// one\n__global__ void k(unsigned *x) {{\n{statement}\n}}\n")
    assert said in str(caught.value)
    assert "does not support this inline PTX" in str(caught.value)


@pytest.mark.needs_sim
def test_what_no_kernel_comes_to_is_no_hindrance_until_one_does(machine: Any) -> None:
    source = """
        struct Hopper { __device__ static void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); } };
        __device__ int never(int x) { Hopper::fence(); return x; }
        __global__ void k(int *x) { x[0] = 5; }
        __device__ void through(void (*f)()) { f(); }
    """
    x = machine.zeros(1, np.int32)
    machine.module(source).get_function("k")(x, grid=1, block=1)
    assert machine.down(x, 1, np.int32)[0] == 5
    with pytest.raises(CompileError, match=r"kernel.cu:2: 'wgmma"):
        machine.module(source + "__global__ void m(int *x) { x[0] = never(x[0]); }")


@pytest.mark.needs_sim
def test_a_shared_address_of_another_kind_of_memory_is_an_error(make_machine: Any) -> None:
    machine = make_machine()
    source = """extern "C" __global__ void k(unsigned *x) {
        unsigned v; asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "l"(x)); x[0] = v; }"""
    x = machine.zeros(1, np.int32)
    machine.module(source).get_function("k")(x, grid=1, block=1)
    with pytest.raises(DriverError, match="ILLEGAL_ADDRESS"):
        machine.synchronize()


def test_a_statement_is_one_statement(machine: Any) -> None:
    source = """extern "C" __global__ void k(unsigned *x) {
        if (x[0] == 1) asm("mov.u32 %0, 7;" : "=r"(x[1])); else asm("mov.u32 %0, 8;" : "=r"(x[1]));
        for (int i = 0; i < 3; ++i) asm("add.u32 %0, %0, %1;" : "+r"(x[2]) : "r"(i << x[0])); }"""
    x = machine.up(np.array([1, 0, 0], np.uint32))
    machine.module(source).get_function("k")(x, grid=1, block=1)
    assert machine.down(x, 3, np.uint32).tolist() == [1, 7, 6]


def test_bits_of_floats_are_as_struct_has_them() -> None:
    assert (f32(1.5), f64(-2)) == (
        struct.unpack("<I", struct.pack("<f", 1.5))[0],
        struct.unpack("<Q", struct.pack("<d", -2))[0],
    )
