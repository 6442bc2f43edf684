"""Typed Python: ordinary functions with annotations, interpreted here or compiled by LLVM.

    @function
    def total(xs: Slice[u64]) -> u64:
        t = u64(0)
        for i in range(length(xs)):
            t += xs[i]
        return t

    total([1, 2, 3])                              # interpreted: the meaning of the function
    cpu.Library("demo", [total]).total(array)     # compiled for this CPU
    riscv.link([total], entry=total)              # an RV64IM ELF
"""

from . import backend, cpu
from .function import Function, function, unroll
from .intrinsics import (
    Constants,
    bswap,
    lane,
    length,
    madd52hi,
    madd52lo,
    mulhi,
    opaque,
    rotl,
    rotr,
    sdiv,
    select,
    shuffle,
    srem,
    umin,
    whole,
    window,
)
from .types import LANES, Array, Int, Memory, Ptr, Slice, boolx8, i64, u8, u16, u32, u64, u64x8

__all__ = [
    "LANES", "Array", "Constants", "Function", "Int", "Memory", "Ptr", "Slice", "backend", "boolx8", "bswap", "cpu",
    "function", "i64", "lane", "length", "madd52hi", "madd52lo", "mulhi", "opaque", "rotl", "rotr", "sdiv", "select",
    "shuffle", "srem", "u8", "u16", "u32", "u64", "u64x8", "umin", "unroll", "whole", "window",
]
