"""Tailbite: prove that a program ran.

    import tailbite
    from tailbite import u64

    @tailbite.guest
    def collatz(start: u64) -> u64:
        n = start
        steps = u64(0)
        while n != 1:
            n = n >> 1 if n & 1 == 0 else 3 * n + 1
            steps += 1
        return steps

    proof = collatz.prove(837799)
    tailbite.verify(proof, collatz).result  # 524
"""

from .errors import CompileError, ParameterError, TailbiteError, Trap
from .guest import ArgumentError, Bytes, Guest, Private, commit, guest
from .lang.function import function, unroll
from .lang.intrinsics import Constants, length, mulhi, rotl, rotr, sdiv, select, srem
from .lang.types import Array, Slice, i64, u8, u16, u32, u64
from .program import Program, Run
from .proof import Proof, ProofFileError, Statement, VerificationError, verify
from .recursion import Attestation, attest, check_attestation, recursion_program
from .stark.params import preset
from .vm.elf import ElfError
from .vm.executor import ExecutionError
from .vm.trace import NotProvable

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Array",
    "Attestation",
    "Bytes",
    "CompileError",
    "Constants",
    "ElfError",
    "ExecutionError",
    "Guest",
    "NotProvable",
    "ParameterError",
    "Private",
    "Program",
    "Proof",
    "ProofFileError",
    "Run",
    "Slice",
    "Statement",
    "TailbiteError",
    "Trap",
    "VerificationError",
    "attest",
    "check_attestation",
    "commit",
    "function",
    "guest",
    "i64",
    "length",
    "mulhi",
    "preset",
    "recursion_program",
    "rotl",
    "rotr",
    "sdiv",
    "select",
    "srem",
    "u8",
    "u16",
    "u32",
    "u64",
    "unroll",
    "verify",
]
