"""The comparison x < y of two words, for every table that needs one.

A table that compares declares ``e`` (a bit: are the high limbs equal?), ``d`` (two 16-bit limbs) and, unless the
answer is known, the bit ``lt``. Then u, the difference of the limbs that decide, is an integer with |u| < 2^33, and
the range of d makes the answer a statement on integers:

* lt = 1 demands -u - 1 >= 0, that is x < y in the deciding limb;
* lt = 0 demands u >= 0 if the low limbs decide (e = 1), u >= 1 if the high ones do (e = 0).

e = 1 is possible on equal high limbs only (``e``). e = 0 on equal ones gives u = 0, and d is -1 either way, which is
no pair of 16-bit limbs. So e and lt are both determined. Signed operands enter with the high limb
x_hi - 2^32 sign, from -2^31 up to 2^31 - 1: equal exactly where the unsigned limbs are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...air import Word
from ...air.expr import Expr
from ..chip import B16, B32, canonical, limbs32


def difference(t: Any, x: Word, y: Word) -> Expr:
    """x - y in the limbs that decide: the low ones if ``t.e``, which says that the high ones agree."""
    t.zero("e", t.e * (x.hi - y.hi))
    return t.e * (x.lo - y.lo) + (1 - t.e) * (x.hi - y.hi)


def less(t: Any, x: Word, y: Word) -> None:
    """``t.lt`` says whether x < y."""
    u = difference(t, x, y)
    # real in place of 1 lets the row of zeros pass
    t.zero("d", t.d[0] + B16 * t.d[1] - t.lt * (-u - 1) - (1 - t.lt) * (u - (t.real - t.e)))


def signed_word(t: Any, x: Word, limb: Expr, sign: Expr, when: Any = "real") -> Word:
    """``x`` as a signed number: ``limb`` holds bits 48 to 63, ``sign`` bit 63. On other rows ``sign`` must be 0."""
    t.look("R16", (x.hi - B16 * limb,), when)  # the lookup of limb and sign comes with their kinds
    return Word(x.lo, x.hi - B32 * sign)


def fill_difference(x: Any, y: Any, signed: Any = False) -> tuple[Any, Any]:
    """Columns e and u, the latter as signed integers; ``signed`` may be a mask."""
    (xl, xh), (yl, yh) = limbs32(x), limbs32(y)
    e = xh == yh
    top = (np.asarray(signed) * (1 << 31)).astype(np.uint64)
    # flipping the sign bits orders signed limbs as unsigned ones, at the same distance
    u = np.where(e, xl, xh ^ top).astype(np.int64) - np.where(e, yl, yh ^ top).astype(np.int64)
    return e, u


def split(d: Any) -> tuple[Any, Any]:
    """Low 16 bits and the rest of signed integers; a negative one leaves a rest that is out of range."""
    v = canonical(d)
    return v & B16 - 1, v >> 16


def fill_less(x: Any, y: Any, lt: Any, signed: Any = False) -> dict[str, Any]:
    """Columns ``e``, ``lt`` and ``d`` for the claim ``lt``."""
    e, u = fill_difference(x, y, signed)
    return {"e": e, "lt": lt, "d": split(np.where(lt == 1, -u - 1, u - ~e))}


def fill_sign(x: Any) -> tuple[Any, Any]:
    """Bits 48 to 63, and bit 63."""
    return x >> 48, x >> 63
