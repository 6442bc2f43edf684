"""Attacks on what single instructions compute, in whole runs: each is refused for its own reason.

A tampered row goes on with its wrong result wherever that can be hidden, :meth:`attacks.Witness.settle` does the rest,
and the honest run of the same program is accepted. Numbers group the attacks by kind: 1 to 6 and 10 to 19 operands and
results, 7 padding, 20 to 23 initial values and time, 24 to 27 order, 28 x0, 29 to 33 input and output.
"""

from __future__ import annotations

import pytest
from assembler import asm, halt, li
from attacks import M32, M64, Attacks, Sample, Witness, limbs

from tailbite.field import P
from tailbite.vm.ops import Op

ATTACKS = Attacks()
DATA = 0x400
A, B = 0x9234567887654321, 0xFEDCBA9800000007  # in x6 and x7
HALF = pow(2, -1, P)

ARITHMETIC = Sample(
    li(8, DATA), asm("ld", 6, 8, 0), asm("ld", 7, 8, 8), li(24, 33), li(25, 67), li(26, 1), li(27, -1), li(28, 7),
    li(30, 2), asm("slli", 31, 27, 63), ("old", li(29, 5)), ("new", li(29, 77)), ("twice", asm("add", 5, 29, 29)),
    ("divu", asm("divu", 9, 28, 30)), ("div0", asm("divu", 11, 28, 0)), ("mindiv", asm("div", 12, 31, 27)),
    ("add", asm("add", 13, 6, 7)), ("addi", asm("addi", 14, 6, -77)), ("andi", asm("andi", 15, 6, -5)),
    ("or", asm("or", 16, 6, 7)), ("shi1", asm("slli", 18, 26, 33)), ("sll", asm("sll", 19, 6, 25)),
    ("sllw", asm("sllw", 20, 6, 24)), ("sll0", asm("sll", 21, 6, 0)), ("shi2", asm("slli", 22, 6, 3)),
    ("mulh", asm("mulh", 23, 6, 7)), ("mul", asm("mul", 1, 6, 7)), ("rem", asm("rem", 4, 6, 28)),
    ("xor", asm("xor", 2, 6, 7)), ("slt", asm("slt", 3, 6, 28)), ("beq", asm("beq", 28, 28, 4)),
    ("bltu", asm("bltu", 28, 30, 4)), ("bltu2", asm("bltu", 6, 7, 4)), ("x0", asm("addi", 0, 6, 1)), halt(),
    data={DATA: A.to_bytes(8, "little") + B.to_bytes(8, "little")})


@ATTACKS.on(ARITHMETIC, "R16")
def a01_second_read_of_a_register_gives_its_older_value(w: Witness) -> None:
    """The write between takes the token that the first read left behind, in its own future."""
    w.rewrite("twice", b=5, tb=w.ts("old") + 3, r=5 + 77)
    w.rewrite("new", o=77, td=w.ts("twice"))


@ATTACKS.on(ARITHMETIC, "R16")
def a02_quotient_one_too_small(w: Witness) -> None:
    part, row = w.rewrite("divu", r=2)
    part.put(row, q=limbs(2), r=limbs(3), x=2, d=[-2, 0])


@ATTACKS.on(ARITHMETIC, *(f"DIVREM.bz.q{k}" for k in range(4)))
def a02_division_by_zero_gives_what_it_likes(w: Witness) -> None:
    part, row = w.rewrite("div0", r=5)
    part.put(row, q=limbs(5), x=5)


@ATTACKS.on(ARITHMETIC, "R16")
def a02_zero_called_a_divisor(w: Witness) -> None:
    """R < B is then demanded of B = 0."""
    part, row = w.rewrite("div0", r=5)
    part.put(row, q=limbs(5), x=5, bz=0, d=[-8, 0])


@ATTACKS.on(ARITHMETIC, "R16")
def a03_least_number_by_minus_one(w: Witness) -> None:
    q = 2**63 - 1
    part, row = w.rewrite("mindiv", r=q)
    part.put(row, q=limbs(q), r=limbs(1), x=q, kl=1, d=[-1, 0])


@ATTACKS.on(ARITHMETIC, "DIVREM.n")
def a03_sign_of_a_quotient(w: Witness) -> None:
    part, row = w.rewrite("divu", r=-3 & M64)
    part.put(row, n=1, x=3, v0=1, v1=1)


@ATTACKS.on(ARITHMETIC, "R16")
def a04_limb_out_of_range(w: Witness) -> None:
    """The sum without its carry out of 64 bits."""
    part, row = w.at("add")
    part.put(row, r__3=int(part["r.3"][row]) + 2**16)


@ATTACKS.on(ARITHMETIC, "ROM")
def a05_sign_of_an_immediate(w: Witness) -> None:
    w.rewrite("addi", i1=0, r=A + 2**32 - 77)


@ATTACKS.on(ARITHMETIC, "ROM")
def a05_piece_of_an_immediate(w: Witness) -> None:
    w.rewrite("andi", i0=M32 - 6, r=A & (M64 - 6))


@ATTACKS.on(ARITHMETIC, "LOGIC.fo.bit")
def a06_selectors_that_are_no_bits(w: Witness) -> None:
    """1, -1, 1 select the operation 20 - 21 + 22 = 21, and the result x & y - x | y + x ^ y = 0."""
    part, row = w.rewrite("or", r=0)
    part.put(row, fa=1, fo=-1, fx=1)


@ATTACKS.on(ARITHMETIC, "LOGIC.fa.bit", "LOGIC.fx.bit")
def a06_half_of_two_operations(w: Witness) -> None:
    part, row = w.at("or")
    lo, hi = ((x + y - (x & y)) * HALF for x, y in zip(limbs(A, 2, 32), limbs(B, 2, 32), strict=True))
    part.put(row, fa=HALF, fo=0, fx=HALF, r__lo=lo, r__hi=hi)


@ATTACKS.on(ARITHMETIC, "LOGIC.flag.sum", "...")
def a06_two_operations_at_once(w: Witness) -> None:
    part, row = w.at("or")
    part.put(row, fa=1, fx=1, fo=0)


@ATTACKS.on(ARITHMETIC, "ADDSUB.sub.bit", "ADDSUB.flag.sum")
def a06_two_half_rows(w: Witness) -> None:
    """Half of SUB has the number of ADD, 2 / 2 = 1, and two halves take and give whole messages."""
    part, row = w.rewrite("add", op=Op.SUB, r=A - B)
    part.put(row, sub=HALF)
    other = part.free_row()
    part.main[:, other] = part.main[:, row]


@ATTACKS.on(ARITHMETIC, "SHR.w.bit")
def a06_word_form_that_is_no_bit(w: Witness) -> None:
    """srl - 2 is the number of sll; by 0 it yields three times the high limb, less 2 M if bit 31 is set."""
    part, row = w.rewrite("sll0", op=Op.SRL)
    low, high = limbs(A, 2, 32)
    high = 3 * high - 2 * M32 * (low >> 31)
    part.put(row, w=-2, u__hi=high, r__hi=high, xh=0, xl=3 * (A >> 32) - 2 * (A & M32))


@ATTACKS.on(ARITHMETIC, "ROM", "EXEC", "REG", "R16", "...")
def a07_padding_row_in_use(w: Witness) -> None:
    w["ADDSUB"].put(31, add=1)


@ATTACKS.on(ARITHMETIC, "REG")
def a10_limbs_of_another_operand(w: Witness) -> None:
    a = A ^ 1 << 40
    w.rewrite("mul", a=a, r=a * B)


@ATTACKS.on(ARITHMETIC, "R16", "B2")
def a14_carry_split_oddly(w: Witness) -> None:
    part, row = w.at("mul")
    part.put(row, kl__1=int(part["kl.1"][row]) + 2**16, kh__1=int(part["kh.1"][row]) - 1)


@ATTACKS.on(ARITHMETIC, "ADDSUB.lo", "R16")
def a14_carry_that_is_no_bit(w: Witness) -> None:
    """The low limb is one too small; a limb of the high one absorbs the fraction by which the carry is too large."""
    part, row = w.rewrite("add", r=A + B - 1)
    part.put(row, r__2=int(part["r.2"][row]) + pow(2**32, -1, P))


@ATTACKS.on(ARITHMETIC, "MSB")
def a15_product_plus_p(w: Witness) -> None:
    """1 * 2 = 2 + 0 * 2^32 = 3 + (2^32 - 1) * 2^32 - p."""
    part, row = w.rewrite("shi1", r=3 << 32)
    part.put(row, p00=3, p01=0, p10=0xFFFF, p11=0xFFFF, s=0)


@ATTACKS.on(ARITHMETIC, "MSB")
def a19_sign_of_a_factor_denied(w: Witness) -> None:
    part, row = w.rewrite("mulh", op=Op.MULHU, r=A * B >> 64)
    part.put(row, mulhu=0, mulh=1, sa=0, sb=0, ea=0, eb=0)


@ATTACKS.on(ARITHMETIC, "ROM")
def a28_x0_written(w: Witness) -> None:
    part, row = w.at("x0")
    part.put(row, rd=0, k=1, td=w.ts("sll0") + 1)


@ATTACKS.on(ARITHMETIC, "LOGIC32.sa.bit", "LOGIC32.sb.bit")
def a38_wide_operands_in_logic32(w: Witness) -> None:
    """High limbs that are M times something else than a bit."""
    sa, sb = (x * pow(M32, -1, P) for x in (A >> 32, B >> 32))
    part, row = w.rewrite("xor", table="LOGIC32")
    part.put(row, sa=sa, sb=sb, sr=sa + sb - 2 * sa * sb)


@ATTACKS.on(ARITHMETIC, "REG")
def a38_high_limbs_ignored_by_logic32(w: Witness) -> None:
    part, row = w.rewrite("xor", table="LOGIC32")
    part.put(row, sa=1, sb=1, sr=0)


@ATTACKS.on(ARITHMETIC, "AND")
def a39_amount_of_a_word_shift_not_reduced(w: Witness) -> None:
    part, row = w.rewrite("sllw", r=0)
    part.put(row, k=33, pw=2, b5=1, u=0, r=0)
    u = A << 1
    part.put(row, m=2, u__lo=u & M32, u__hi=M32 * (u >> 31 & 1), r__lo=0, r__hi=u & M32)


@ATTACKS.on(ARITHMETIC, "POW")
def a39_power_zero(w: Witness) -> None:
    """(0, 0, 0) is no power of two, and no row of padding in its table."""
    part, row = w.rewrite("sll0", r=0)
    part.put(row, pw=0, m=0, low=[0] * 4, t0h=0, q0h=0, t1h=0, q1h=0, mt0=0, mt1=0, u=0)


@ATTACKS.on(ARITHMETIC, "ROM")
def a40_multiplier_of_the_program(w: Witness) -> None:
    w.rewrite("shi2", i0=16, r=A << 4)


@ATTACKS.on(ARITHMETIC, "SHR.m.l")
def a40_multiplier_of_a_register(w: Witness) -> None:
    part, row = w.rewrite("sll", b=4, r=A << 4)
    part.put(row, y=67, b0=67, k=3, pw=8)


@ATTACKS.on(ARITHMETIC, "R16")
def a41_equal_high_limbs_called_different(w: Witness) -> None:
    part, row = w.at("bltu")
    part.put(row, e=0, lt=1, d=[-1, 0])


@ATTACKS.on(ARITHMETIC, "BLTU.e")
def a41_different_high_limbs_called_equal(w: Witness) -> None:
    part, row = w.at("bltu2")
    part.put(row, e=1, lt=0, d=limbs((A & M32) - (B & M32), 2))


@ATTACKS.on(ARITHMETIC, "MSB")
def a41_sign_denied(w: Witness) -> None:
    """A, which is negative, is not less than 7."""
    part, row = w.rewrite("slt", r=0)
    part.put(row, sa=0, d=limbs((A >> 32) - 1, 2))


@ATTACKS.on(ARITHMETIC, "BEQ.neq")
def a42_equal_operands_called_different(w: Witness) -> None:
    part, row = w.at("beq")
    part.put(row, eq=0, inv=123)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_attack(name: str) -> None:
    ATTACKS.run(name)


def test_43_odd_split_of_a_magnitude_changes_nothing() -> None:
    """The carry of -a in the other limb: the same integer, so the same quotient, and no reason to refuse."""
    w = ARITHMETIC.honest().copy()
    part, row = w.at("rem")
    lo, hi = int(part["mag_a.lo"][row]), int(part["mag_a.hi"][row])
    assert part["ca"][row] == 1
    part.put(row, ca=0, mag_a__lo=lo - 2**32, mag_a__hi=hi + 1, kl=int(part["kl"][row]) + 1)
    w.settle()
    assert not w.reasons() and w.verdict() == ""
