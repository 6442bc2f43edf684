"""What a row of the machine has to say, after the RISC-V unprivileged specification, as formulas about a row.

The operations are z3's own on 64-bit vectors, not the tables' limbs. A goal is a formula that has to follow from the
row's facts: what it takes (which registers, which dwords) and all that it gives, in terms of the values it took.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import z3
from smt import Int, Row, constant, equal, one_of, total, unsigned, vanishes, variable, width

from tailbite.vm.ops import BRANCHES, LOADS, READS_RS1, READS_RS2, STORES, WIDTH, WRITES_RD, Op

Goal = tuple[str, Any]


class Taken(NamedTuple):
    """What a row of an instruction takes: 64-bit vectors, and field elements as integers."""

    pc: Any
    ts: Int
    rom: list[Int]
    imm: Any
    a: Any
    b: Any


class Meaning(NamedTuple):
    """``assumed`` may be used; ``stones`` are proved first, one after another; then ``goals``, what the row says."""

    taken: Taken
    assumed: list[Any]
    stones: list[Goal]
    goals: list[Goal]


W, D = 32, 64


def low(x: Any, n: int = W) -> Any:
    return z3.Extract(n - 1, 0, x)


def extend(x: Any, signed: bool = True) -> Any:
    """To 64 bits."""
    return (z3.SignExt if signed else z3.ZeroExt)(D - x.size(), x)


def flag(b: Any) -> Any:
    return z3.If(b, z3.BitVecVal(1, D), z3.BitVecVal(0, D))


def shift(op: Op, a: Any, k: Any) -> Any:
    """Shifts by k, of which 6 bits count, or 5 in a word form."""
    if op in (Op.SLLW, Op.SRLW, Op.SRAW):
        x, k = low(a), low(k) & 31
        return extend({Op.SLLW: x << k, Op.SRLW: z3.LShR(x, k), Op.SRAW: x >> k}[op])
    k = k & 63
    return {Op.SLL: a << k, Op.SRL: z3.LShR(a, k), Op.SRA: a >> k}[op]


# The multiplier in the ROM of a shift by the constant k, and the shift.
SHIFTS: dict[Op, tuple[Callable[[int], int], Op, range]] = {
    Op.SHI1_LW: (lambda k: 1 << k, Op.SLLW, range(1, 32)), Op.SHI1_RW: (lambda k: 1 << 32 - k, Op.SRLW, range(1, 32)),
    Op.SHI1_LH: (lambda k: 1 << k - 32, Op.SLL, range(33, 64)),
    Op.SHI1_RH: (lambda k: 1 << 64 - k, Op.SRL, range(33, 64)),
    Op.SHI2_L: (lambda k: 1 << k, Op.SLL, range(1, 32)), Op.SHI2_R: (lambda k: 1 << 32 - k, Op.SRL, range(1, 32)),
}
REGISTER_SHIFTS = (Op.SLL, Op.SLLW, Op.SRL, Op.SRLW, Op.SRA, Op.SRAW)

RESULT: dict[Op, Callable[[Any, Any, Any, Any], Any]] = {  # of a, b, immediate, pc
    Op.ADD: lambda a, b, i, pc: a + b, Op.SUB: lambda a, b, i, pc: a - b, Op.ADDI: lambda a, b, i, pc: a + i,
    Op.ADDW: lambda a, b, i, pc: extend(low(a) + low(b)), Op.SUBW: lambda a, b, i, pc: extend(low(a) - low(b)),
    Op.ADDIW: lambda a, b, i, pc: extend(low(a) + low(i)),
    Op.MV: lambda a, b, i, pc: a, Op.SL32: lambda a, b, i, pc: a << 32, Op.SR32: lambda a, b, i, pc: z3.LShR(a, 32),
    Op.CONST: lambda a, b, i, pc: i, Op.JALR: lambda a, b, i, pc: pc + 4,
    Op.SLT: lambda a, b, i, pc: flag(a < b + i), Op.SLTU: lambda a, b, i, pc: flag(z3.ULT(a, b + i)),
    Op.AND: lambda a, b, i, pc: a & b, Op.OR: lambda a, b, i, pc: a | b, Op.XOR: lambda a, b, i, pc: a ^ b,
    Op.ANDI: lambda a, b, i, pc: a & i, Op.ORI: lambda a, b, i, pc: a | i, Op.XORI: lambda a, b, i, pc: a ^ i,
    **{op: lambda a, b, i, pc, op=op: shift(op, a, b + i) for op in REGISTER_SHIFTS},
}
TAKEN: dict[Op, Callable[[Any, Any], Any]] = {
    Op.BEQ: lambda a, b: a == b, Op.BNE: lambda a, b: a != b, Op.BLTU: z3.ULT, Op.BGEU: z3.UGE,
    Op.BLT: lambda a, b: a < b, Op.BGE: lambda a, b: a >= b,
}
SIGNED_LOADS = (Op.LB, Op.LH, Op.LW, Op.LD)


def word(row: Row, lo: Int, hi: Int) -> Any:
    return z3.Concat(row.bits("word", hi, W), row.bits("word", lo, W))


def limbs(x: Any) -> list[Int]:
    """Low and high 32 bits of a 64-bit vector."""
    return [unsigned(z3.Extract(31, 0, x)), unsigned(z3.Extract(63, 32, x))]


def same(xs: list[Int], ys: list[Int]) -> Any:
    return z3.And([vanishes(x - y, fact=False) for x, y in zip(xs, ys, strict=True)])


def taken(row: Row, op: Op) -> Taken:
    pc, ts = row.entries(row.said("EXEC", -1)[0])
    rom = row.entries(row.said("ROM", -1)[0])
    reads = [word(row, *row.entries(m)[2:]) for m in row.said("REG", -1)]
    nothing = z3.BitVecVal(0, D)
    a = reads[0] if op in READS_RS1 else nothing
    b = reads[1] if op in READS_RS2 else nothing
    return Taken(extend(row.bits("pc", pc, W), False), ts, rom, word(row, *rom[5:]), a, b)


def decoded(op: Op, t: Taken) -> list[Any]:
    """What holds of every ROM row of this operation; ``test_the_decoder_keeps_its_word`` asks the decoder.

    Immediates of 12 bits are sign-extended; one of two second operands is x0, which is 0, or an immediate of 0.
    """
    twelve = t.imm == extend(low(t.imm, 12))
    if op in (Op.SLT, Op.SLTU):
        return [twelve, z3.Or(t.imm == 0, t.b == 0)]
    if op in REGISTER_SHIFTS:
        return [z3.ULT(t.imm, 64), z3.Or(t.imm == 0, t.b == 0)]
    if op in (Op.ADDI, Op.ANDI, Op.ORI, Op.XORI, Op.JALR, *LOADS, *STORES):
        return [twelve]
    return []


def effect(row: Row, op: Op, k: int | None = None) -> Meaning:
    """Of an operation that is neither product nor division."""
    t = taken(row, op)
    npc, result, memory = t.pc + 4, None, []
    if op in BRANCHES:
        npc = z3.If(TAKEN[op](t.a, t.b), extend(low(t.imm), False), npc)
    elif op == Op.CONST:
        npc = extend(row.bits("npc", t.rom[3], W), False)
    elif op == Op.JALR:
        npc = t.a + t.imm & ~1
    if op in SHIFTS:
        result = shift(SHIFTS[op][1], t.a, z3.BitVecVal(k, D))
    elif op in RESULT:
        result = RESULT[op](t.a, t.b, t.imm, t.pc)
    elif op in (*LOADS, *STORES):
        result, memory = access(row, op, t)
    return Meaning(t, decoded(op, t), [], [*steps(row, op, t, npc), *registers(row, op, t, result), *memory])


def steps(row: Row, op: Op, t: Taken, npc: Any) -> Iterator[Goal]:
    """It fetches this operation at its pc, and goes to ``npc`` a cycle later."""
    yield "fetch", same(t.rom[:2], [row.entries(row.said("EXEC", -1)[0])[0], constant(op)])
    (out,) = row.said("EXEC", 1)
    yield "next", same(row.entries(out), [unsigned(npc), t.ts + constant(4)])
    yield "once", z3.BoolVal(all(abs(m.count or 0) == 1 for s in (1, -1) for bus in ("EXEC", "ROM", "REG")
                                 for m in row.said(bus, s)))


def registers(row: Row, op: Op, t: Taken, result: Any) -> Iterator[Goal]:
    """It reads rs1 at once and rs2 a tick later, unchanged, and writes the result into rd at the last."""
    _, _, rd, s1, s2, *_ = t.rom
    wanted: list[tuple[Int, int, Any]] = []
    if op in READS_RS1:
        wanted.append((s1, 0, t.a))
    if op in READS_RS2:
        wanted.append((s2, 1, t.b))
    if op in WRITES_RD:
        wanted.append((rd, 3, result))
    takes, gives = row.said("REG", -1), row.said("REG", 1)
    assert len(takes) == len(gives) == len(wanted)
    for n, (before, after, (key, slot, value)) in enumerate(zip(takes, gives, wanted, strict=True)):
        old, new = row.entries(before), row.entries(after)
        yield f"register {n}", same([old[0], *new], [key, key, t.ts + constant(slot), *limbs(value)])


def access(row: Row, op: Op, t: Taken) -> tuple[Any, list[Goal]]:
    """A load or store: its result (None of a store), and what is to be said about memory."""
    address, size = t.a + t.imm, 8 * WIDTH[op]
    offset = z3.Concat(z3.BitVecVal(0, 122), low(address, 3), z3.BitVecVal(0, 3))  # in bits, as a 128-bit vector
    crosses = z3.UGT(offset + size, 64)
    first = z3.Extract(63, 3, address)
    takes, gives = row.said("RAM", -1), row.said("RAM", 1)
    old = [row.entries(m) for m in takes]
    keys = [z3.Concat(row.bits("h", e[0], 32), row.bits("w", e[1], 29)) for e in old]
    dwords = [word(row, *e[3:]) for e in old]
    goals = [("dword", keys[0] == first)]
    if len(takes) == 1:
        both = z3.Concat(z3.BitVecVal(0, D), dwords[0])
        there = [z3.BoolVal(True)]
        goals.append(("fits", z3.Not(crosses)))
    else:
        second = row.form(takes[1].multiplicity).times(-1)
        assert second.is_bit
        both = z3.Concat(z3.If(second.bit, dwords[1], 0), dwords[0])
        there = [z3.BoolVal(True), second.bit]
        goals.append(("second", z3.Implies(crosses, second.bit)))
        goals.append(("next dword", z3.Implies(second.bit, z3.ZeroExt(1, keys[1]) == z3.ZeroExt(1, first) + 1)))
    new, result = both, None
    if op in LOADS:
        result = extend(low(z3.LShR(both, offset), size), op in SIGNED_LOADS)
    else:
        mask = z3.BitVecVal((1 << size) - 1, 128)
        new = both & ~(mask << offset) | (z3.ZeroExt(D, t.b) & mask) << offset
    for n, (before, after) in enumerate(zip(takes, gives, strict=True)):
        e, x = row.entries(after), z3.Extract(64 * n + 63, 64 * n, new)
        goals.append((f"times {n}", vanishes(row.form(before.multiplicity) + row.form(after.multiplicity), fact=False)))
        goals.append((f"memory {n}", z3.Implies(there[n], same(e, [*old[n][:2], t.ts + constant(2), *limbs(x)]))))
    return result, goals


# ---------------------------------------------------------------- products


def number(digits: list[Int], base: int = 16) -> Int:
    """The integer with these digits, lowest first."""
    total = constant(0)
    for k, d in enumerate(digits):
        total = total + d.times(1 << base * k)
    return total


def schoolbook(row: Row, x: list[Int], y: list[Int]) -> list[Int]:
    """Numbers w_k of which sum w_k 2^(32 k) is the product of two numbers with these 16-bit digits: the distributive
    law is all that this uses."""
    def diagonal(j: int) -> Int:
        total = None
        for i in range(max(0, j - 3), min(j, 3) + 1):
            term = row.product(x[i], y[j - i])
            total = term if total is None else total + term
        return total or constant(0)

    return [diagonal(j) + diagonal(j + 1).times(1 << 16) for j in (0, 2, 4, 6)]


class Digits(NamedTuple):
    """The digits in base 2^32, lowest first, of a sum, the carries out of them, and the equations that say so."""

    digits: list[Any]
    carries: list[Int]
    equations: list[Any]


def carried(words: list[Int], less: list[list[Int]]) -> Digits:
    """The digits of sum (w_k - sum of less_k) 2^(32 k), which exist and are unique whatever the w are."""
    out = Digits([], [], [])
    carry = constant(0)
    for w, subtracted in zip(words, less, strict=True):
        lo, hi = w.lo + carry.lo - sum(x.hi for x in subtracted), w.hi + carry.hi - sum(x.lo for x in subtracted)
        digit = variable("digit", W)
        after = Int(variable("carry", width(lo >> W, hi >> W)), lo >> W, hi >> W)
        out.equations.append(equal(w + carry, total([*subtracted, unsigned(digit)]) + after.times(1 << W)))
        out.equations.extend([after.term >= after.lo, after.term <= after.hi])
        out.digits.append(digit)
        carry = after
        out.carries.append(carry)
    return out


def columns(row: Row, *names: str) -> list[Int]:
    return [row[n] for n in names]


def multiplication(row: Row, op: Op) -> Meaning:
    t = taken(row, op)
    last = (".3", ".3") if op in (Op.MUL, Op.MULW) else ("3", "3")
    x, y = (columns(row, f"{v}.0", f"{v}.1", f"{v}.2", v + z) for v, z in zip("ab", last, strict=True))
    less: list[list[Int]] = [[], [], [], []]
    for value, other, signed in ((t.a, y, op in (Op.MULH, Op.MULHSU)), (t.b, x, op == Op.MULH)):
        if signed:  # the unsigned product has 2^64 times the other factor too much if a factor is negative
            negative = unsigned(z3.Extract(63, 63, value))
            less[2].append(negative.gated(number(other[:2])))
            less[3].append(negative.gated(number(other[2:])))
    product = carried(schoolbook(row, x, y), less)
    d = product.digits
    result = {Op.MUL: z3.Concat(d[1], d[0]), Op.MULW: extend(d[0])}.get(op, z3.Concat(d[3], d[2]))
    stones = [("digits", z3.And(number(v).equals_bits(w) for v, w in ((x, t.a), (y, t.b))))]
    r = columns(row, *(f"r{k}" for k in range(4)) if op in (Op.MUL, Op.MULW) else (f"r.{k}" for k in range(8)))
    for k in range(len(r) // 2):
        stones.append((f"word {k}", number(r[2 * k:2 * k + 2]).equals_bits(d[k])))
        if f"kl.{k}" in row.index:
            offset = constant(4 if k == 2 else 0)
            carry = number(columns(row, f"kl.{k}", f"kh.{k}"))
            stones.append((f"carry {k}", equal(carry, product.carries[k] + offset)))
    return Meaning(t, product.equations, stones, [*steps(row, op, t, t.pc + 4), *registers(row, op, t, result)])


class Division(NamedTuple):
    """Magnitudes of the operands, their signs as the operation takes them, and its kind."""

    a: Any
    b: Any
    sa: Any
    sb: Any
    word: bool
    remainder: bool


def division_of(op: Op, a: Any, b: Any) -> Division:
    n = op - Op.DIVU
    signed, short = bool(n & 2), bool(n & 4)
    if short:
        a, b = extend(low(a), signed), extend(low(b), signed)
    sa, sb = (z3.And(z3.BoolVal(signed), x < 0) for x in (a, b))
    return Division(z3.If(sa, -a, a), z3.If(sb, -b, b), sa, sb, short, bool(n & 1))


def quotient_result(d: Division, q: Any, r: Any, zero: Any) -> Any:
    """The result, from quotient and remainder of the magnitudes: rounding is towards zero, the remainder has the
    dividend's sign, x / 0 = -1 and x % 0 = x; so MIN / -1 = MIN."""
    quotient = z3.If(zero, z3.BitVecVal(-1, q.size()), z3.If(z3.Xor(d.sa, d.sb), -q, q))
    x = z3.If(d.sa, -r, r) if d.remainder else quotient
    return extend(low(x)) if d.word else x


def division(row: Row, op: Op) -> Meaning:
    """Q B + R = A and R < B, or B = 0 and R = A. So Q = A / B and R = A % B, for there is one such pair only
    (``test_quotients_are_unique``), and the result is told from Q and R; in an exact row from A / B and A % B.
    """
    t = taken(row, op)
    d = division_of(op, t.a, t.b)
    q, r, b = (columns(row, *(f"{v}.{k}" for k in range(4))) for v in ("q", "r", "mag_b"))
    q_bits, r_bits = (word(row, number(v[:2]), number(v[2:])) for v in (q, r))
    words = schoolbook(row, q, b)
    whole = carried([words[0] + number(r[:2]), words[1] + number(r[2:]), *words[2:]], [[], [], [], []])
    w, zero = whole.digits, d.b == 0
    borrow = one_of(z3.And(d.sa, low(d.a) != 0), 1)
    stones = [
        ("divisor", number(b).equals_bits(d.b)),
        ("by zero", z3.Implies(zero, r_bits == d.a)),
        ("remainder", z3.Implies(z3.Not(zero), z3.ULT(r_bits, d.b))),
        ("low word", w[0] == low(d.a)),
        ("carry", equal(whole.carries[0] + borrow,
                        number(columns(row, "kl", "kh")) + one_of(z3.And(d.sa, row["ca"].bit), 1))),
        ("high word of a", z3.Or(d.sa, w[1] == z3.Extract(63, 32, d.a))),
        ("high word", w[1] == z3.Extract(63, 32, d.a)),
        ("no more", z3.And(w[2] == 0, w[3] == 0, *(c.equals(0) for c in whole.carries[1:]))),
    ]
    if row.exact:
        q_bits, r_bits, stones = z3.UDiv(d.a, d.b), z3.URem(d.a, d.b), []
    result = quotient_result(d, q_bits, r_bits, zero)
    goals = [*steps(row, op, t, t.pc + 4), *registers(row, op, t, result)]
    return Meaning(t, [] if row.exact else whole.equations, stones, goals)


def meaning(row: Row, op: Op, k: int | None = None) -> Meaning:
    """Of a row of ``op``; ``k`` is the amount of a shift by a constant."""
    if Op.MUL <= op <= Op.MULHU:
        return multiplication(row, op)
    if Op.DIVU <= op <= Op.REMW:
        return division(row, op)
    return effect(row, op, k)
