"""The machine's memory: 2^64 bytes that read as zero, in pages of 64 dwords that a hash table finds.

Typed Python; everything lies in arrays of the caller. A dword is named by ``index`` = address / 8 in the whole space
and by ``place`` = 64 * slot + index % 64 in the arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..lang import Slice, function, length, u8, u32, u64

PAGE_BITS = 6  # log2 of the dwords of a page
FULL = 0xFFFFFFFFFFFFFFFF  # instead of a slot: no page is left
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, spreads page numbers


class Memory(NamedTuple):
    """``touched`` has a bit for each dword that is initialised or was accessed; ``when`` the time of its last access.

    ``used``: number of pages in use, number of touched dwords; of loads and stores at an address that is not a multiple
    of their width, and of those of them that reach into a second dword. ``when`` is empty in runs that record nothing.
    """

    used: Slice[u64]
    table: Slice[u32]  # slot + 1, or 0; the length is a power of two
    page: Slice[u64]  # page number of each slot: address / 512
    data: Slice[u64]
    touched: Slice[u64]
    when: Slice[u32]

    @classmethod
    def of(cls, pages: int, recording: bool) -> Memory:
        """Memory with room for ``pages`` pages."""
        buckets = 1 << max(4, (2 * pages).bit_length())
        return cls(np.zeros(4, np.uint64), np.zeros(buckets, np.uint32), np.zeros(pages, np.uint64),
                   np.zeros(pages << PAGE_BITS, np.uint64), np.zeros(pages, np.uint64),
                   np.zeros(pages << PAGE_BITS if recording else 0, np.uint32))


@function
def find(m: Memory, page: u64) -> tuple[u64, u64]:
    """Slot + 1 of ``page``, or 0, and where in the hash table it stands or would stand."""
    mask = length(m.table) - 1
    at = ((page * _GOLDEN) >> 32) & mask
    while True:
        slot = u64(m.table[at])
        if slot == 0:
            break
        if m.page[slot - 1] == page:
            break
        at = (at + 1) & mask
    return slot, at


@function
def slot_of(m: Memory, page: u64) -> u64:
    """Slot of ``page``, which is taken into use if need be; FULL if there is no room."""
    slot, at = find(m, page)
    if slot != 0:
        return slot - 1
    used = m.used[0]
    if used == length(m.page):
        return u64(FULL)
    m.table[at] = u32(used + 1)
    m.page[used] = page
    m.used[0] = used + 1
    return used


@function
def touch(m: Memory, place: u64) -> None:
    """Count a dword at its first access."""
    bit, word = u64(1) << (place & 63), m.touched[place >> PAGE_BITS]
    if word & bit == 0:
        m.touched[place >> PAGE_BITS] = word | bit
        m.used[1] += 1


@function
def count_unaligned(m: Memory, first: u64, last: u64) -> None:
    """Count a load or store of these bytes, unless it must wait for memory and is tried again."""
    if slot_of(m, first >> 9) != FULL and slot_of(m, last >> 9) != FULL:
        m.used[2] += 1
        if first >> 3 != last >> 3:
            m.used[3] += 1


@function
def fill(m: Memory, indices: Slice[u64], values: Slice[u64]) -> None:
    """Initial content of dwords; there must be room."""
    for k in range(length(indices)):
        slot = slot_of(m, indices[k] >> PAGE_BITS)
        assert slot != FULL, "no room for the initial memory"
        place = slot << PAGE_BITS | indices[k] & 63
        m.data[place] = values[k]
        touch(m, place)


@function
def rehash(m: Memory) -> None:
    """Enter the pages in use into the hash table, which is empty."""
    for slot in range(m.used[0]):
        _, at = find(m, m.page[slot])
        m.table[at] = u32(slot + 1)


@function
def copy_bytes(m: Memory, address: u64, out: Slice[u8]) -> None:
    """Copy memory from ``address`` on without accessing it."""
    for k in range(length(out)):
        a = address + k
        slot, _ = find(m, a >> 9)
        if slot != 0:
            out[k] = u8(m.data[(slot - 1) << PAGE_BITS | a >> 3 & 63] >> ((a & 7) << 3))


def enlarged(m: Memory) -> Memory:
    """A copy with room for twice as many pages; its hash table is empty."""
    bigger = Memory.of(2 * len(m.page), len(m.when) > 0)
    for name in ("used", "page", "data", "touched", "when"):
        old = getattr(m, name)
        getattr(bigger, name)[:len(old)] = old
    return bigger
