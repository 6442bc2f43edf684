"""How a table is written: columns with types, constraints with names, messages on buses."""

from .expr import Expr
from .lint import lint
from .program import Program, compile_table
from .table import (
    AirError,
    Bus,
    Table,
    Word,
    bit,
    byte,
    derived,
    derived_word,
    fixed,
    free,
    msb16,
    rom,
    rom_word,
    selector,
    sign_of,
    token,
    u15,
    u16,
    word,
)

__all__ = [
    "AirError", "Bus", "Expr", "Program", "Table", "Word", "bit", "byte", "compile_table", "derived", "derived_word",
    "fixed", "free", "lint", "msb16", "rom", "rom_word", "selector", "sign_of", "token", "u15", "u16",
    "word",
]
