"""ELF files: what loads, what is refused, and that no bytes give anything else."""

from __future__ import annotations

import random
import struct
import tracemalloc
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from assembler import BASE, asm, elf, elf_of_segments, halt, li
from elftools.elf.elffile import ELFFile

from tailbite.vm.elf import MAX_ROWS, ElfError, Image, load_elf

ROOT = Path(__file__).parents[2]
GUESTS = sorted([*ROOT.glob("examples/c/elf/*.elf"), *ROOT.glob("benchmarks/guests/*.elf")])
SMALL = elf(halt(), {0x20000: b"data" * 5})
PROGRAM_HEADERS = 64  # offset
INPUT = 0xFF000000


def memory_of(image: Image) -> dict[int, int]:
    """Non-zero bytes by address, from the dwords."""
    out = {}
    for h, w, lo, hi in zip(*(c.tolist() for c in image.dwords), strict=True):
        for k, byte in enumerate((lo | hi << 32).to_bytes(8, "little")):
            if byte:
                out[(h << 32) + 8 * w + k] = byte
    return out


def segment_bytes(parts) -> dict[int, int]:
    return {a + k: byte for _, a, data, _ in parts for k, byte in enumerate(data) if byte}


# ---------------------------------------------------------------- what loads


@pytest.mark.parametrize("path", GUESTS, ids=lambda p: p.name)
def test_guests_load_as_another_reader_reads_them(path):
    data = path.read_bytes()
    image, other = load_elf(data), ELFFile(BytesIO(data))
    loads = [s for s in other.iter_segments("PT_LOAD") if s["p_memsz"]]
    assert image.entry == other["e_entry"]
    assert [(s.address, s.data, s.size, s.executable) for s in image.segments] == [
        (s["p_vaddr"], s.data(), s["p_memsz"], bool(s["p_flags"] & 1)) for s in loads]
    assert memory_of(image) == segment_bytes([(0, s["p_vaddr"], s.data(), 0) for s in loads])
    for symbol in other.get_section_by_name(".symtab").iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC":
            assert image.symbol_at(symbol["st_value"]) == symbol.name
            assert image.symbol_at(symbol["st_value"] + 4) == f"{symbol.name}+0x4"


def test_code_and_dwords():
    words = [*li(5, 0x123456789), 0, 0xFFFFFFFF, *halt()]
    image = load_elf(elf(words, {0x20004: b"\1\2\3\4\5"}))
    assert dict(zip(image.code.pc.tolist(), image.code.word.tolist(), strict=True)) == {
        BASE + 4 * k: w for k, w in enumerate(words) if w}
    assert set(image.rom.pc.tolist()) == {BASE + 4 * k for k, w in enumerate(words) if w not in (0, 0xFFFFFFFF)}
    assert (image.word_at(BASE), image.word_at(BASE + 2), image.word_at(0x20004)) == (words[0], None, None)
    assert memory_of(image) == segment_bytes([(0, BASE, struct.pack(f"<{len(words)}I", *words), 0),
                                              (0, 0x20004, b"\1\2\3\4\5", 0)])
    keys = list(zip(image.dwords.h.tolist(), image.dwords.w.tolist(), strict=True))
    assert keys == sorted(set(keys))


def test_segments_that_share_a_dword_are_merged():
    parts = [(5, BASE, struct.pack("<2I", *halt()[:2]), 8), (6, 0x20000, b"abc", 3), (6, 0x20003, b"de", 2),
             (6, 0x20005, b"", 1), (6, 0x20006, b"g", 1), (6, (5 << 32) + 1, b"z", 1)]
    image = load_elf(elf_of_segments(parts, BASE))
    assert memory_of(image) == segment_bytes(parts)
    assert (image.dwords.h[-1], image.dwords.w[-1], image.dwords.lo[-1]) == (5, 0, ord("z") << 8)


def test_words_of_code_lie_whole_in_one_executable_segment():
    word = struct.pack("<I", asm("addi", 5, 6, 0x101))
    halves = load_elf(elf_of_segments([(5, BASE, word[:2], 2), (5, BASE + 2, word[2:], 2)], BASE))
    assert len(halves.code.pc) == 0 and len(halves.dwords.h) == 1
    lead = load_elf(elf_of_segments([(5, BASE - 2, b"\x13\0" + word, 6)], BASE))
    assert lead.code.pc.tolist() == [BASE]
    cut = [(5, BASE, word + word[:3], 8), (5, BASE, word + word[:3], 7)]
    assert [load_elf(elf_of_segments([p], BASE)).code.pc.tolist() for p in cut] == [[BASE, BASE + 4], [BASE]]
    data_only = load_elf(elf_of_segments([(6, BASE, word, 4)], BASE))
    assert len(data_only.rom) == 0 and len(data_only.dwords.h) == 1


def test_sizes_of_memory_cost_nothing():
    tracemalloc.start()
    image = load_elf(elf_of_segments([(5, BASE, b"\x13\0\0\0", 1 << 30), (6, 1 << 40, b"", 1 << 62)], BASE))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert len(image.dwords.h) == 1 and image.segments[1].size == 1 << 62


def test_no_segments_and_no_code_load():
    assert len(load_elf(elf_of_segments([], BASE)).rom) == 0
    assert len(load_elf(elf_of_segments([(6, 0x20000, b"x", 1)], 0x100)).rom) == 0


def test_the_compressed_flag_is_kept():
    assert load_elf(elf(halt(), flags=1)).compressed and not load_elf(elf(halt(), flags=4)).compressed


@pytest.mark.parametrize("kind", [0, 4, 6, 7, 0x6474E551, 0x70000003])
def test_other_segments_have_no_effect(kind):
    plain, data = load_elf(SMALL), bytearray(SMALL)
    struct.pack_into("<I", data, PROGRAM_HEADERS + 56, kind)  # the data segment is no PT_LOAD now
    changed = load_elf(bytes(data))
    assert len(changed.segments) == len(plain.segments) - 1 and memory_of(changed) != memory_of(plain)


def test_limits_of_rows():
    nop = struct.pack("<I", asm("addi", 0, 0, 0))
    assert len(load_elf(elf_of_segments([(5, BASE, nop * MAX_ROWS, 4 * MAX_ROWS)], BASE)).rom) == MAX_ROWS
    with pytest.raises(ElfError, match="1048577 instructions"):
        load_elf(elf_of_segments([(5, BASE, nop * (MAX_ROWS + 1), 4 * MAX_ROWS + 4)], BASE))
    ones = b"\1" * 8 * MAX_ROWS
    assert len(load_elf(elf_of_segments([(6, 1 << 32, ones, len(ones))], BASE)).dwords.h) == MAX_ROWS
    for parts in ([(6, 1 << 32, ones + b"\1", len(ones) + 1)], [(6, 1 << 32, ones, len(ones)), (6, 1 << 33, b"\1", 1)]):
        with pytest.raises(ElfError, match="at most"):
            load_elf(elf_of_segments(parts, BASE))


# ---------------------------------------------------------------- what is refused


def patched(at: int, form: str, value: int) -> bytes:
    data = bytearray(SMALL)
    struct.pack_into("<" + form, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(("data", "message"), [
    (b"", "not an ELF file"), (b"MZ" + SMALL[2:], "not an ELF file"), (SMALL[:63], "cut off: 63 of 64"),
    (patched(4, "B", 1), "64-bit"), (patched(5, "B", 2), "little-endian"),
    (patched(16, "H", 3), "-static -no-pie"), (patched(16, "H", 1), "static executable"),
    (patched(18, "H", 62), "e_machine is 62"),
    (patched(24, "Q", BASE + 2), "entry point 0x10002"), (patched(24, "Q", 1 << 32), "below 2\\^32"),
    (patched(32, "Q", 1 << 63), "program header table"), (patched(32, "Q", len(SMALL) - 56), "program header table"),
    (patched(54, "H", 0), "program headers of 0 bytes"), (patched(54, "H", 55), "of 55 bytes"),
    (patched(56, "H", 0xFFFF), "fewer than 65535"), (patched(56, "H", 0xFFFE), "program header table"),
    (patched(PROGRAM_HEADERS, "I", 2), "dynamic"), (patched(PROGRAM_HEADERS, "I", 3), "dynamic"),
    (patched(PROGRAM_HEADERS + 8, "Q", 1 << 60), "beyond the end of the file"),
    (patched(PROGRAM_HEADERS + 40, "Q", 1), "more than its 1 bytes of memory"),
    (patched(PROGRAM_HEADERS + 32, "Q", 1 << 60), "more bytes than the file"),
    (patched(PROGRAM_HEADERS + 40, "Q", 0x10001), "overlap"),
    (patched(PROGRAM_HEADERS + 40, "Q", 1 << 63), "private input"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_refused(data, message):
    with pytest.raises(ElfError, match=message):
        load_elf(data)


@pytest.mark.parametrize(("flags", "address", "size", "fine"), [
    (6, INPUT - 16, 16, True), (6, INPUT - 16, 17, False), (6, INPUT, 1, False), (6, (1 << 32) - 1, 1, False),
    (6, 1 << 32, 16, True), (6, INPUT - 1, 1 << 33, False), (5, INPUT - 16, 16, True), (5, INPUT - 16, 17, False),
    (5, 1 << 32, 16, False), (6, (1 << 64) - 16, 16, True), (6, (1 << 64) - 16, 17, False), (6, 1 << 63, 1 << 63, True),
    (6, BASE + 8, 16, False), (6, BASE - 16, 16, True), (6, BASE - 16, 17, False),
])
def test_layout(flags, address, size, fine):
    data = elf_of_segments([(5, BASE, struct.pack("<4I", *[0x13] * 4), 16), (flags, address, b"", size)], BASE)
    if fine:
        assert len(load_elf(data).segments) == 2
    else:
        with pytest.raises(ElfError):
            load_elf(data)


# ---------------------------------------------------------------- any bytes


def image_or_error(data: bytes) -> bool:
    try:
        assert isinstance(load_elf(data), Image)
    except ElfError:
        return False
    return True


@pytest.mark.parametrize("data", [SMALL, GUESTS[0].read_bytes()], ids=["small", "guest"])
def test_truncated_anywhere(data):
    ends = [*range(300), *random.Random(3).sample(range(300, len(data)), 200)] if len(data) > 500 else range(len(data))
    assert not any(image_or_error(data[:n]) for n in range(64))
    assert {image_or_error(data[:n]) for n in ends} >= {False}
    assert image_or_error(data)


def test_random_changes():
    rng, outcomes = random.Random(4), set()
    source = GUESTS[0].read_bytes()
    tables = struct.unpack_from("<Q", source, 40)[0]
    for _ in range(3000):
        data = bytearray(source)
        for _ in range(rng.randint(1, 4)):
            at = rng.choice((rng.randrange(64), rng.randrange(64, 200), rng.randrange(tables, len(data)),
                             rng.randrange(len(data))))
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        outcomes.add(image_or_error(bytes(data)))
    assert outcomes == {True, False}


def test_random_bytes_after_the_magic():
    rng = random.Random(5)
    for n in (10, 64, 200, 1000):
        for _ in range(50):
            image_or_error(SMALL[:18] + rng.randbytes(n))


def test_many_headers_of_one_large_range_are_refused_at_once():
    """65,534 segments that all claim the whole file must not make 65,534 copies of it."""
    n = 65534
    size = 64 + 56 * n
    data = bytearray(elf_of_segments([], BASE)[:64])
    struct.pack_into("<H", data, 56, n)
    for i in range(n):
        data += struct.pack("<IIQQQQQQ", 1, 6, 0, (i + 1) << 33, 0, size, size, 1)
    with pytest.raises(ElfError, match="more bytes than the file"):
        load_elf(bytes(data))


# ---------------------------------------------------------------- symbols


def with_symbols(symbols: list[tuple[str, int, int, int, int]], names: bytes | None = None, **change: int) -> bytes:
    """SMALL and a symbol table of (name, type, section, value, size)."""
    text, table = bytearray(b"\0"), bytearray(24)
    for name, kind, section, value, size in symbols:
        table += struct.pack("<IBBHQQ", len(text), kind, 0, section, value, size)
        text += name.encode() + b"\0"
    text = text if names is None else bytearray(names)
    fields = {"offset": len(SMALL), "size": len(table), "link": 2} | change
    headers = bytes(64) + b"".join(struct.pack("<IIQQQQIIQQ", 0, *s, 0, 0, *w, 0, 0, 0) for s, w in (
        ((2,), (fields["offset"], fields["size"], fields["link"])), ((3,), (len(SMALL) + len(table), len(text), 0))))
    data = bytearray(SMALL + table + text + headers)
    struct.pack_into("<Q", data, 40, len(SMALL) + len(table) + len(text))
    struct.pack_into("<HHH", data, 58, 64, 3, 0)
    return bytes(data)


def test_symbols_name_places_in_code():
    image = load_elf(with_symbols([("file", 4, 1, BASE, 0), ("label", 0, 1, BASE, 0), ("main", 2, 1, BASE, 8),
                                   ("$x", 0, 1, BASE + 4, 0), ("absolute", 0, 0xFFF1, BASE + 4, 0),
                                   ("undefined", 2, 0, BASE + 4, 0), ("end", 0, 1, BASE + 8, 0)]))
    assert [image.symbol_at(BASE + k) for k in (0, 4, 8, 12, 16)] == ["main", "main+0x4", "end", "", ""]
    assert image.symbol_at(0) == "" and image.symbol_at(0x20000) == ""


@pytest.mark.parametrize("data", [
    with_symbols([("f", 2, 1, BASE, 8)], size=1 << 60), with_symbols([("f", 2, 1, BASE, 8)], link=7),
    with_symbols([("f", 2, 1, BASE, 8)], offset=1 << 62), with_symbols([("f", 2, 1, BASE, 8)], names=b"\xff"),
    SMALL[:40] + struct.pack("<Q", 1 << 63) + SMALL[48:58] + struct.pack("<HHH", 64, 9, 9) + SMALL[64:],
], ids=["size", "link", "offset", "names", "sections"])
def test_damaged_symbols_are_ignored(data):
    image = load_elf(data)
    assert image.symbol_at(BASE) in ("", "\ufffd") and np.array_equal(image.rom.pc, load_elf(SMALL).rom.pc)


def test_unterminated_names_are_cut():
    """Each of many symbols must not search all of a long string table for its end."""
    many = [("", 2, 1, BASE + k, 0) for k in range(20000)]
    image = load_elf(with_symbols(many, names=b"n" * 2_000_000))
    assert image.symbol_at(BASE) == "n" * 512
