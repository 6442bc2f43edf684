"""ROM, IMAGE and REG: what a program and the machine fix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from harness import M32, messages, u64

from tailbite.air import lint
from tailbite.air.check import Trace, check_buses
from tailbite.vm.buses import BUSES, RAM, REG, ROM
from tailbite.vm.decode import decode
from tailbite.vm.elf import Dwords
from tailbite.vm.executor import Registers
from tailbite.vm.tables.image import Image
from tailbite.vm.tables.reg import Reg
from tailbite.vm.tables.rom import Rom, program_height

ROM_TABLE, IMAGE, REG_TABLE = Rom(), Image(), Reg()
ADDI, EBREAK, ECALL = 0x00150513, 0x00100073, 0x73


def test_shape() -> None:
    lint([ROM_TABLE, IMAGE, REG_TABLE], BUSES)
    for table, fixed, main, interactions, fixed_in in ((ROM_TABLE, 7, 1, 1, "program"), (IMAGE, 5, 0, 1, "program"),
                                                       (REG_TABLE, 4, 3, 2, "universal")):
        lay = table.layout
        assert (lay.fixed_count, lay.main_count, len(lay.interactions)) == (fixed, main, interactions)
        assert (table.fixed_in, table.required, table.instances) == (fixed_in, True, 1)
    assert (REG_TABLE.min_log, REG_TABLE.max_log) == (6, 6)
    assert ROM_TABLE.max_log == IMAGE.max_log == 20


@pytest.mark.parametrize("rows, height", [(0, 32), (1, 32), (31, 32), (32, 32), (33, 64), (64, 64), (65, 128),
                                          (2**20, 2**20)])
def test_height(rows: int, height: int) -> None:
    assert program_height(rows) == height


# ---------------------------------------------------------------- ROM


def program(words: list[int]) -> Any:
    pcs = 0x1000 + 4 * np.arange(len(words), dtype=np.uint64)
    return decode(pcs, np.array(words, dtype=np.uint32))


@pytest.mark.parametrize("count", [2, 31, 32, 33])
def test_rom_rows(count: int) -> None:
    """Instructions by ascending pc; other words have no row; padding is zero."""
    rom = program([ADDI, EBREAK, 0] + [ADDI] * (count - 2) + [ECALL])
    assert len(rom) == count
    fixed = Rom.fixed_columns(rom)
    assert fixed.shape == (7, program_height(count)) and fixed.dtype == np.uint64
    assert not fixed[:, count:].any()
    assert (np.diff(fixed[0, :count].astype(np.int64)) > 0).all()
    assert 0x1004 not in fixed[0] and 0x1008 not in fixed[0]
    for column, name in zip(fixed, ("pc", "op", "rd", "s1", "s2", "i0", "i1"), strict=True):
        assert np.array_equal(column[:count], getattr(rom, name))


def test_rom_offers_its_rows_and_no_others() -> None:
    rom = program([ADDI, ECALL])
    hits = np.array([3, 1], dtype=np.uint32)
    trace = Trace(ROM_TABLE, Rom.fixed_columns(rom), ROM_TABLE.witness(Rom.rows(hits), 32))
    rows = list(zip(rom.pc, rom.op, rom.rd, rom.s1, rom.s2, rom.i0, rom.i1, strict=True))
    fetches = [(ROM.id, tuple(map(int, rows[k])), -int(n)) for k, n in enumerate(hits)]
    assert not check_buses([trace], fetches)
    for j in range(7):
        other = list(map(int, rows[0]))
        other[j] += 1
        assert check_buses([trace], [*fetches, (ROM.id, tuple(other), -1)])
    assert check_buses([trace], [*fetches, (ROM.id, tuple(map(int, rows[1])), -1)])


# ---------------------------------------------------------------- IMAGE


def test_image_sends_every_dword_once() -> None:
    keys, values = [(0, 5), (0, 9), (3, 0), (M32, 2**29 - 1)], [7, 2**64 - 1, 2**32, 1]
    dwords = Dwords(u64(h for h, _ in keys), u64(w for _, w in keys), u64(v & M32 for v in values),
                    u64(v >> 32 for v in values))
    fixed = Image.fixed_columns(dwords)
    assert fixed.shape == (5, 32)
    trace = Trace(IMAGE, fixed, np.zeros((0, 32), np.uint64))
    taken = [(RAM.id, (*k, 0, v & M32, v >> 32), -1) for k, v in zip(keys, values, strict=True)]
    assert not check_buses([trace], taken)
    for k in range(4):
        assert check_buses([trace], taken[:k] + taken[k + 1:])
    assert not messages(trace)[1][4:].any()


# ---------------------------------------------------------------- REG


def registers(t: list[int], value: list[int]) -> Trace:
    rows = Reg.rows(SimpleNamespace(registers=Registers(u64(t), u64(value))))
    return Trace(REG_TABLE, Reg.fixed_columns(), REG_TABLE.witness(rows, 64))


def test_initial_registers() -> None:
    """All zero but x2; 34 keys."""
    trace = registers([0] * 34, [2**64 - 16 if r == 2 else 0 for r in range(34)])
    assert not check_buses([trace])  # nobody accessed anything
    _, sent = messages(trace)
    assert [list(map(int, x)) for x in sent[:34]] == [
        [r, 0, 0xFFFFFFF0 if r == 2 else 0, M32 if r == 2 else 0, 1] for r in range(34)]
    assert not sent[34:].any()


def test_final_registers() -> None:
    t, value = [4 * r for r in range(34)], [3**r * 2**11 % 2**64 for r in range(34)]
    trace = registers(t, value)
    received, _ = messages(trace)
    for r in range(34):
        assert list(map(int, received[r][:4])) == [r, t[r], value[r] & M32, value[r] >> 32]
    assert not received[34:].any()
    chains = []
    for r in range(34):
        chains.append((REG.id, (r, 0, 0xFFFFFFF0 if r == 2 else 0, M32 if r == 2 else 0), -1))
        chains.append((REG.id, (r, t[r], value[r] & M32, value[r] >> 32), 1))
    assert not check_buses([trace], chains)
    assert check_buses([trace], chains[:-1])


@pytest.mark.parametrize("column", range(3))
def test_every_column_matters(column: int) -> None:
    trace = registers([0] * 34, [2**64 - 16 if r == 2 else 0 for r in range(34)])
    for r in range(64):
        main = trace.main.copy()
        main[column, r] += np.uint64(1)
        assert bool(check_buses([Trace(REG_TABLE, trace.fixed, main)])) == (r < 34)
