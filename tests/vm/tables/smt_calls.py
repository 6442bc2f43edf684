"""What z3 shows of rows that are no instructions of RISC-V: calls, committed bytes, and a round of Keccak-f."""

from __future__ import annotations

from typing import Any

import z3
from smt import Int, Row, constant, unsigned, vanishes
from smt_meaning import limbs, same
from smt_proofs import LIMIT, follows

# Entries of a received message that the row itself chooses; the others are what other tables gave.
CHOSEN = {"RAM": (0, 1)}  # the key


def function(table: Any, given: dict[str, int]) -> list[Any]:
    """Two rows that take the same give the same; raises Unproved. Returns the facts, for a guard."""
    first, second = Row(table, given), Row(table, given)
    known, goals = first.everything + second.everything, []
    for m, n in zip(first.messages, second.messages, strict=True):
        if m.bits is None or m.bus in ("R16", "B2", "AND", "MSB", "POW"):
            continue
        pairs = list(zip(first.entries(m), second.entries(n), strict=True))
        for k, (x, y) in enumerate(pairs):
            given = m.sign < 0 and k not in CHOSEN.get(m.bus, ())
            (known if given else goals).append(vanishes(x - y, fact=given))
    follows(known, z3.And(goals), table.name, LIMIT)
    return known


def committed_byte(row: Row) -> Any:
    """The byte that a CBYTE row outputs is the one at its pointer."""
    (com,), (ram,), (out,) = row.said("COM", -1), row.said("RAM", -1), row.said("OUT", 1)
    pointer = row.bits("plo", row.entries(com)[2], 32)
    h, w, _, lo, hi = row.entries(ram)
    dword = z3.Concat(row.bits("hi", hi, 32), row.bits("lo", lo, 32))
    byte = z3.Extract(7, 0, z3.LShR(dword, z3.ZeroExt(32, (pointer & 7) << 3)))
    key = same([h, w], [row.entries(com)[3], unsigned(z3.Extract(31, 3, pointer))])
    return z3.And(key, same(row.entries(out), [row.entries(com)[5], unsigned(byte)]))


# ---------------------------------------------------------------- Keccak-f, after FIPS 202


def rotation_offsets() -> list[int]:
    """Section 3.2.2, by lane x + 5 y."""
    out, x, y = [0] * 25, 1, 0
    for t in range(24):
        out[x + 5 * y] = (t + 1) * (t + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return out


def round_constant(r: int) -> int:
    """Section 3.2.5."""
    def rc(t: int) -> int:
        state = 1
        for _ in range(t % 255):
            state <<= 1
            if state & 0x100:
                state ^= 0x171
        return state & 1

    return sum(rc(j + 7 * r) << 2**j - 1 for j in range(7))


def rotl(x: Any, k: int) -> Any:
    return z3.RotateLeft(x, k) if k else x


def after_theta(a: list[Any]) -> list[Any]:
    """What theta adds to the columns of lanes."""
    c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    return [c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1) for x in range(5)]


def rho_pi_chi_iota(a: list[Any], constant_: Any) -> list[Any]:
    b: list[Any] = [None] * 25
    for x in range(5):
        for y in range(5):
            b[y + 5 * ((2 * x + 3 * y) % 5)] = rotl(a[x + 5 * y], rotation_offsets()[x + 5 * y])
    e = [b[k] ^ (~b[(k + 1) % 5 + k // 5 * 5] & b[(k + 2) % 5 + k // 5 * 5]) for k in range(25)]
    return [e[0] ^ constant_, *e[1:]]


def lanes(row: Row, entries: list[Int]) -> list[Any]:
    return [z3.Concat(row.bits("a", hi, 32), row.bits("a", lo, 32))
            for lo, hi in zip(entries[::2], entries[1::2], strict=True)]


def bits_of(row: Row, name: str, count: int) -> list[Any]:
    """Columns of bits as lanes."""
    return [z3.Concat([z3.Extract(0, 0, row[f"{name}.{64 * k + z}"].term) for z in reversed(range(64))])
            for k in range(count)]


def keccak_round(row: Row) -> list[tuple[str, list[Any], Any]]:
    """(name, facts, goal), of which a row is one round: its bits after theta, then what it sends, lane by lane."""
    (before,), (after,) = row.said("KST", -1), row.said("KST", 1)
    state, out = row.entries(before), row.entries(after)
    a, p, d, a1 = lanes(row, state[2:]), *(bits_of(row, n, k) for n, k in (("p", 5), ("d", 5), ("a1", 25)))
    parity = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
    sums = z3.And([x ^ d[k % 5] == y for k, (x, y) in enumerate(zip(a1, a, strict=True))])
    columns = z3.And([x ^ y == c for x, y, c in zip(p, d, parity, strict=True)])
    facts = row.everything
    steps = [
        ("in", facts, sums),
        ("parity", [*facts, sums], columns),
        ("theta", [*facts, sums, columns], z3.And([x == y for x, y in zip(d, after_theta(a), strict=True)])),
    ]
    number = row.bits("r", state[1], 5)
    rc: Any = z3.BitVecVal(0, 64)
    for r in range(24):
        rc = z3.If(number == r, z3.BitVecVal(round_constant(r), 64), rc)
    table = [f for n, f in row.facts if n.startswith("KRC")]
    steps.append(("round", table, same(out[:2], [state[0], state[1] + constant(1)])))
    for k, lane in enumerate(rho_pi_chi_iota(a1, rc)):
        steps.append((f"lane {k}", table, same(out[2 + 2 * k:4 + 2 * k], limbs(lane))))
    return steps
