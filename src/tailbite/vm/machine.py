"""The machine: its tables in list order, and what a program adds to them."""

from __future__ import annotations

import functools
from typing import Any

from ..stark.system import System
from .buses import BUSES, EXEC, OUT
from .chip import Chip
from .elf import Image as Loaded
from .tables.addi import Addi
from .tables.addiw import AddiW
from .tables.addsub import AddSub
from .tables.addw import AddW
from .tables.beq import Beq
from .tables.blt import Blt
from .tables.bltu import Bltu
from .tables.cbyte import Cbyte
from .tables.commit import Commit
from .tables.const import Const
from .tables.cycles import Cycles
from .tables.divrem import DivRem
from .tables.fin import Fin
from .tables.halt import Halt
from .tables.image import Image
from .tables.input import Input
from .tables.jalr import Jalr
from .tables.kcall import Kcall
from .tables.krc import Krc
from .tables.kround import Kround
from .tables.lbh import Lbh
from .tables.ld import Ld
from .tables.logic import Logic
from .tables.logic32 import Logic32
from .tables.logici import LogicI
from .tables.lut import Lut
from .tables.lw import Lw
from .tables.mload import Mload
from .tables.mstore import Mstore
from .tables.mul import Mul
from .tables.mulh import Mulh
from .tables.mv import Mv
from .tables.pow import Pow
from .tables.print import Print
from .tables.refresh import Refresh
from .tables.reg import Reg
from .tables.rom import Rom
from .tables.sbh import Sbh
from .tables.sd import Sd
from .tables.shi1 import Shi1
from .tables.shi2 import Shi2
from .tables.shr import Shr
from .tables.slt import Slt
from .tables.sw import Sw

TABLES: tuple[type[Chip], ...] = (
    # what surrounds a run
    Rom, Image, Reg, Lut, Pow, Krc, Fin, Input, Refresh,
    # calls
    Halt, Commit, Cbyte, Print, Cycles, Kcall, Kround,
    # instructions
    AddSub, Addi, AddW, AddiW, Mv, Const, Jalr, Beq, Bltu, Blt, Slt, Logic, Logic32, LogicI, Shi1, Shi2, Shr, Mul,
    Mulh, DivRem, Ld, Sd, Lw, Sw, Lbh, Sbh, Mload, Mstore,
)


@functools.cache
def machine() -> System:
    """The system of all tables, checked by the linter."""
    universal = {t.name: t.fixed_columns() for t in (Reg, Lut, Pow, Krc)}
    return System("rv64im", [t() for t in TABLES], BUSES, universal, start_bus=EXEC, output_bus=OUT)


def program_columns(image: Loaded) -> dict[int, Any]:
    """Preprocessed columns of a program, by table index; IMAGE is absent if no dword is non-zero."""
    system = machine()
    out = {system.index("ROM"): Rom.fixed_columns(image.rom)}
    if len(image.dwords.h):
        out[system.index("IMAGE")] = Image.fixed_columns(image.dwords)
    return out


def verifier_terms(entry: int, output: bytes) -> list[tuple[int, tuple[int, ...], int]]:
    """What the verifier itself puts on buses, for the trace check: the start, and the public output."""
    return [(EXEC.id, (entry, 4), 1), *((OUT.id, (i, b), -1) for i, b in enumerate(output))]
