"""The recursion guest: ``stark.verify`` for the machine's tables, compiled for the machine."""

from __future__ import annotations

from ..lang import Constants, Function, function, riscv, u32, u64, whole
from ..lang.riscv import address_of, ecall, slice_at
from ..stark.system import Keyed
from ..stark.verify import HEADER_WORDS, verify

COMMIT = 64
INPUT = 0xFF000000  # u32 length, four bytes, then words
MEMORY = 0x80000000  # working memory; all memory reads as zero until it is written
MEMORY_WORDS = 1 << 24
LOG = 0xC0000000  # the channel's record, for comparisons
ID_WORDS = 4
HEAD = 40  # bytes of preset number and program id in the output


def build(keyed: Keyed, log_words: int = 0) -> bytes:
    """ELF of the verifier for one preset. ``log_words``: room at ``LOG`` for the channel's record; published: none."""
    return riscv.link(entry(keyed, log_words))


def entry(keyed: Keyed, log_words: int = 0) -> Function:
    """The guest's entry. It has no run-time parameters: tables and roots are constants in it."""
    key = Constants(int(w) for w in keyed.words)
    params = Constants(int(w) for w in keyed.params_words)
    vm_id = Constants(int(w) for w in keyed.vm_words)
    number = Constants([keyed.params.number])
    # where a proof states its output: after the header, entry, log heights and root of the program
    at_output = HEADER_WORDS + 5 + len(keyed.system.program_tables)

    @function
    def main() -> None:
        size = u64(slice_at(INPUT, 1, u32)[0])
        assert size >= 4 + 8 * ID_WORDS and size & 7 == 4, "the input is not an id and a proof"
        words = slice_at(INPUT + 8, (size - 4) >> 3, u64)
        program_id, proof = words[0:ID_WORDS], words[ID_WORDS:(size - 4) >> 3]
        memory = slice_at(MEMORY, MEMORY_WORDS, u64)
        log = slice_at(LOG, log_words, u64)
        verify(whole(key), whole(params), whole(vm_id), program_id, proof, memory, log)
        ecall(COMMIT, 1, address_of(whole(number)), 8)
        ecall(COMMIT, 1, address_of(program_id), 8 * ID_WORDS)
        ecall(COMMIT, 1, address_of(proof[at_output + 1:at_output + 1]), proof[at_output])

    return main
