"""An independent RV64IM machine for tests: QEMU's processor core through Unicorn, with Tailbite's calls.

It shares no code with the package. Four ways in:

* ``run_elf``: a whole program, to its halt;
* ``run_words``: a few raw instructions from given registers;
* ``run_function``: one compiled function, from raw code, an executable or a relocatable object;
* ``UnicornMachine``: what they stand on.

Every run uses a fresh machine (0.4 ms), so nothing leaks from one to the next. Where QEMU differs from the
VM: an access that crosses 2**64 wraps, which is made a trap here; compressed, atomic, floating-point and CSR
instructions execute, which ``run_words`` refuses and the others trust their caller about; and stores into
code change what runs, which no test should rely on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile
from unicorn import (
    UC_ARCH_RISCV,
    UC_ERR_FETCH_UNMAPPED,
    UC_HOOK_BLOCK,
    UC_HOOK_INTR,
    UC_HOOK_MEM_READ,
    UC_HOOK_MEM_READ_UNMAPPED,
    UC_HOOK_MEM_WRITE,
    UC_HOOK_MEM_WRITE_UNMAPPED,
    UC_MODE_RISCV64,
    Uc,
    UcError,
)
from unicorn.riscv_const import UC_RISCV_REG_PC, UC_RISCV_REG_X0

CODE_BASE = 0x10000
STACK_TOP = 0xFFFF_FFFF_FFFF_FFF0  # x2 at the start of a program
INPUT_BASE = 0xFF00_0000
OUTPUT_LIMIT = 1 << 20  # bytes, all commits together
BUFFER_LIMIT = 1 << 24  # bytes read at once, for printing too: a limit of this machine, not of the VM

PRINT, PANIC, COMMIT, HALT = 1, 2, 64, 93
KECCAK_PERMUTE, CYCLES = 2**64 - 2, 2**64 - 32

_PAGE = 1 << 16  # bytes mapped at a time
_RETURN = 0xDEAD_0000  # where a called function returns to: never code
_NOWHERE = 2**64 - 2  # an address no program is at
_ECALLS = (8, 9, 11)  # exception numbers of ECALL from user, supervisor and machine mode
_SP, _GP, _TP, _A0, _A7 = 2, 3, 4, 10, 17
_CALLEE_SAVED = (_SP, _GP, _TP, 8, 9, *range(18, 28))


class OracleTrap(Exception):
    """The program did what the VM cannot prove; the message says what."""


class ElfRun(NamedTuple):
    exit_code: int  # all 64 bits of a0 at the halt
    output: bytes
    instructions: int  # ECALLs included, each once

    @property
    def cycles(self) -> int:
        """Steps of the VM: one an instruction and one a committed byte."""
        return self.instructions + len(self.output)


class WordsRun(NamedTuple):
    regs: list[int]  # x0..x31
    memory: dict[int, int]  # final value of each byte that was stored to, by address
    pc: int  # after the last instruction executed


class FunctionRun(NamedTuple):
    a0: int
    a1: int
    memory: dict[int, bytes]  # the regions given, with their final contents
    instructions: int


class Image(NamedTuple):
    """What to load: parts are (address, bytes, executable)."""

    parts: list[tuple[int, bytes, bool]]
    symbols: dict[str, int]
    entry: int


def run_elf(elf: bytes, private_input: bytes = b"", max_steps: int = 10_000_000) -> ElfRun:
    """Runs a static executable until it halts. Any other end is an ``OracleTrap``."""
    image = load_executable(elf)
    machine = UnicornMachine(max_steps)
    machine.load(image)
    machine.write(INPUT_BASE, struct.pack("<I", len(private_input)) + private_input)
    machine.set_registers({_SP: STACK_TOP})
    pc = machine.run(image.entry)
    if machine.exit_code is None:
        raise OracleTrap(f"jump out of the code to {pc:#x}")
    return ElfRun(machine.exit_code, bytes(machine.output), machine.instructions)


def run_words(
    words: Sequence[int],
    regs: Mapping[int, int] | None = None,
    memory: Mapping[int, bytes] | None = None,
    pc: int = CODE_BASE,
    max_steps: int = 1000,
) -> WordsRun:
    """Executes instruction words placed at ``pc`` until control leaves them.

    ``regs`` maps register numbers to values, ``memory`` addresses to bytes; all else starts at zero, x2 too.
    An ECALL finds the services of a program.
    """
    machine = UnicornMachine(max_steps)
    for word in words:
        if not is_rv64im(word):
            raise OracleTrap(f"{word:#010x} is not an RV64IM instruction")
    machine.write(pc, struct.pack(f"<{len(words)}I", *words), executable=True)
    machine.write_regions(memory or {})
    machine.set_registers(regs or {})
    stored = machine.record_stores()
    end = machine.run(pc, pc + 4 * len(words))
    return WordsRun(machine.registers(), {a: machine.read(a, 1)[0] for a in sorted(stored)}, end)


def run_function(
    code: bytes,
    args: Sequence[int] = (),
    memory: Mapping[int, bytes] | None = None,
    entry: int | str = 0,
    max_steps: int = 10_000_000,
) -> FunctionRun:
    """Calls a function with up to 8 integer arguments (negative ones allowed) and runs it until it returns.

    ``code`` is raw machine code, placed at ``CODE_BASE`` with ``entry`` an offset into it, or an ELF
    executable or object with ``entry`` a symbol. Changing a register that must be kept is an ``OracleTrap``.
    """
    image = load_code(code)
    start = image.symbols[entry] if isinstance(entry, str) else image.entry + entry
    machine = UnicornMachine(max_steps)
    machine.load(image)
    machine.write_regions(memory or {})
    kept = {r: 0x5A5A_0000_0000_0000 + r for r in _CALLEE_SAVED} | {_SP: STACK_TOP}
    machine.set_registers(kept | {1: _RETURN} | {_A0 + i: arg for i, arg in enumerate(args)})
    pc = machine.run(start, _RETURN)
    if pc != _RETURN:
        raise OracleTrap(f"jump out of the code to {pc:#x}")
    regs = machine.registers()
    for r, value in kept.items():
        if regs[r] != value:
            raise OracleTrap(f"x{r} must be kept by a function, but became {regs[r]:#x}")
    regions = {a: machine.read(a, len(data)) for a, data in (memory or {}).items()}
    return FunctionRun(regs[_A0], regs[_A0 + 1], regions, machine.instructions)


class UnicornMachine:
    """One hart and 2**64 bytes of memory that read as zero; pages are mapped when first touched."""

    def __init__(self, max_steps: int) -> None:
        self.output = bytearray()
        self.log = bytearray()  # what the program printed
        self.exit_code: int | None = None
        self.instructions = 0
        self._max_steps = max_steps
        self._code: list[range] = []
        self._pages: set[int] = set()
        self._uc: Any = Uc(UC_ARCH_RISCV, UC_MODE_RISCV64)
        self._uc.hook_add(UC_HOOK_BLOCK, self._enter_block)
        self._uc.hook_add(UC_HOOK_INTR, self._exception)
        self._uc.hook_add(UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED, self._first_touch)
        watched = UC_HOOK_MEM_READ | UC_HOOK_MEM_WRITE
        self._uc.hook_add(watched, self._last_bytes, begin=2**64 - 7, end=2**64 - 1)
        # Unicorn 2.1.4 loses the store that first touches the last page, where the stack begins.
        self._map(2**64 - _PAGE, _PAGE)

    def load(self, image: Image) -> None:
        for address, data, executable in image.parts:
            self.write(address, data, executable)

    def write(self, address: int, data: bytes, executable: bool = False) -> None:
        """Sets memory; executable bytes become code, outside of which nothing runs."""
        self._map(address, len(data))
        self._uc.mem_write(address, data)
        if executable:
            self._code.append(range(address, address + len(data)))

    def write_regions(self, regions: Mapping[int, bytes]) -> None:
        for address, data in regions.items():
            self.write(address, data)

    def read(self, address: int, size: int) -> bytes:
        if size > BUFFER_LIMIT or address + size > 2**64:
            raise OracleTrap(f"buffer of {size} bytes at {address:#x}")
        self._map(address, size)
        return bytes(self._uc.mem_read(address, size))

    def set_registers(self, values: Mapping[int, int]) -> None:
        self._uc.reg_write_batch([(UC_RISCV_REG_X0 + r, v & 2**64 - 1) for r, v in values.items() if r != 0])

    def registers(self) -> list[int]:
        return list(self._uc.reg_read_batch([UC_RISCV_REG_X0 + r for r in range(32)]))

    def record_stores(self) -> set[int]:
        """A set that from now on collects the address of every byte stored to."""
        stored: set[int] = set()

        def on_store(_uc: Uc, _access: int, address: int, size: int, _value: int, _data: Any) -> None:
            stored.update(range(address, address + size))

        self._uc.hook_add(UC_HOOK_MEM_WRITE, on_store)
        return stored

    def run(self, pc: int, until: int = _NOWHERE) -> int:
        """Runs until control reaches ``until``, leaves the code or the program halts; returns the pc then."""
        try:
            self._uc.emu_start(pc, until)
        except UcError as error:
            if error.errno != UC_ERR_FETCH_UNMAPPED:
                raise OracleTrap(f"{error} at pc {self._pc():#x}") from error
        return self._pc()

    def _pc(self) -> int:
        return int(self._uc.reg_read(UC_RISCV_REG_PC))

    def _map(self, address: int, size: int) -> None:
        for page in range(address // _PAGE, (min(address + size, 2**64) + _PAGE - 1) // _PAGE):
            if page not in self._pages:
                self._uc.mem_map(page * _PAGE, _PAGE)
                self._pages.add(page)

    def _first_touch(self, _uc: Uc, _access: int, address: int, size: int, _value: int, _data: Any) -> bool:
        self._map(address, size)
        return True

    def _last_bytes(self, _uc: Uc, _access: int, address: int, size: int, _value: int, _data: Any) -> None:
        if address + size > 2**64:
            raise OracleTrap(f"access of {size} bytes at {address:#x} crosses 2**64")

    def _enter_block(self, uc: Uc, address: int, size: int, _data: Any) -> None:
        """Counts a straight run of instructions before it executes; a hook on each would be far slower."""
        if address % 4 or not any(address in code and address + size <= code.stop for code in self._code):
            uc.emu_stop()
            return
        self.instructions += size // 4
        if self.instructions > self._max_steps:
            raise OracleTrap(f"more than {self._max_steps} instructions")

    def _exception(self, uc: Uc, number: int, _data: Any) -> None:
        pc = self._pc()
        if number not in _ECALLS:
            raise OracleTrap(f"exception {number} before pc {pc:#x}")
        self._call(*(self.registers()[r] for r in (_A7, _A0, _A0 + 1, _A0 + 2)))
        if self.exit_code is None:
            uc.reg_write(UC_RISCV_REG_PC, pc)  # already past the ECALL, but Unicorn wants it set
        else:
            uc.reg_write(UC_RISCV_REG_PC, _NOWHERE)  # emu_stop alone has been seen to run on
            uc.emu_stop()

    def _call(self, number: int, a0: int, a1: int, a2: int) -> None:
        """The services behind ECALL (``tailbite.h``); what the VM cannot prove traps."""
        if number == HALT:
            self.exit_code = a0
        elif number == COMMIT:
            self._commit(a0, a1, a2)
        elif number == PRINT:
            self.log += self.read(a0, a1)
        elif number == PANIC:
            raise OracleTrap(f"panic: {self.read(a0, a1).decode(errors='replace')}")
        elif number == KECCAK_PERMUTE:
            self._keccak(a0)
        elif number == CYCLES:
            self.set_registers({_A0: self.instructions - 1 + len(self.output)})
        else:
            raise OracleTrap(f"unknown call {number}")

    def _commit(self, stream: int, address: int, length: int) -> None:
        if stream != 1:
            raise OracleTrap(f"commit with a0 = {stream}, not 1")
        if address % 2**32 + length > 2**32:
            raise OracleTrap(f"commit of {length} bytes at {address:#x} crosses a multiple of 2**32")
        if len(self.output) + length > OUTPUT_LIMIT:
            raise OracleTrap(f"public output over {OUTPUT_LIMIT} bytes")
        self.output += self.read(address, length)
        self.set_registers({_A0: length})

    def _keccak(self, address: int) -> None:
        if address % 8 or address + 200 > 2**64:
            raise OracleTrap(f"keccak_permute of a state at {address:#x}")
        state = struct.unpack("<25Q", self.read(address, 200))
        self.write(address, struct.pack("<25Q", *keccak_f1600(state)))


def keccak_f1600(state: Sequence[int]) -> list[int]:
    """The permutation of FIPS 202 section 3 on 25 words, lane (x, y) at x + 5y."""
    a = list(state)
    lfsr = 1
    for _ in range(24):
        c = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        a = [a[i] ^ c[(i + 4) % 5] ^ _rotl(c[(i + 1) % 5], 1) for i in range(25)]
        x, y, lane = 1, 0, a[1]
        for t in range(24):  # rho and pi follow one orbit of 24 lanes
            x, y = y, (2 * x + 3 * y) % 5
            a[x + 5 * y], lane = _rotl(lane, (t + 1) * (t + 2) // 2 % 64), a[x + 5 * y]
        a = [a[i] ^ ~a[i // 5 * 5 + (i + 1) % 5] & a[i // 5 * 5 + (i + 2) % 5] for i in range(25)]
        for j in range(7):  # iota: seven bits of the round constant from an LFSR
            a[0] ^= (lfsr & 1) << (2**j - 1)
            lfsr = lfsr << 1 ^ (0x171 if lfsr & 0x80 else 0)
    return a


def _rotl(word: int, n: int) -> int:
    return (word << n | word >> (64 - n)) & 2**64 - 1


def is_rv64im(word: int) -> bool:
    """Whether the opcode belongs to RV64IM; FENCE and ECALL in full. QEMU checks the rest as it executes."""
    opcodes = (0x03, 0x13, 0x17, 0x1B, 0x23, 0x33, 0x37, 0x3B, 0x63, 0x67, 0x6F)
    return word & 0x7F in opcodes or word & 0x707F == 0x0F or word == 0x73


def load_code(code: bytes) -> Image:
    """An image of raw machine code, of an ELF object or of an ELF executable."""
    if not code.startswith(b"\x7fELF"):
        return Image([(CODE_BASE, code, True)], {}, CODE_BASE)
    is_object = ELFFile(BytesIO(code))["e_type"] == "ET_REL"
    return link_object(code) if is_object else load_executable(code)


def load_executable(elf: bytes) -> Image:
    file = ELFFile(BytesIO(elf))
    segments = [s for s in file.iter_segments("PT_LOAD") if s["p_filesz"]]
    parts = [(s["p_vaddr"], s.data(), bool(s["p_flags"] & 1)) for s in segments]
    return Image(parts, {s.name: s["st_value"] for s in _symbols(file)}, file["e_entry"])


def link_object(elf: bytes) -> Image:
    """Places the sections of a relocatable object from ``CODE_BASE`` on and applies its relocations."""
    file: Any = ELFFile(BytesIO(elf))
    placed: dict[int, tuple[int, bytearray]] = {}
    address = CODE_BASE
    for index, section in enumerate(file.iter_sections()):
        if section["sh_flags"] & 2:  # SHF_ALLOC
            address += -address % max(section["sh_addralign"], 1)
            placed[index] = (address, bytearray(section.data()))
            address += section["sh_size"]

    def value(symbol: Any) -> int:
        if symbol["st_shndx"] not in placed:
            raise ValueError(f"symbol {symbol.name!r} is not in the object")
        return int(placed[symbol["st_shndx"]][0] + symbol["st_value"])

    for section in file.iter_sections("SHT_RELA"):
        if section["sh_info"] in placed:
            table = file.get_section(section["sh_link"])
            entries = [
                (r["r_offset"], r["r_info_type"], value(table.get_symbol(r["r_info_sym"])) + r["r_addend"])
                for r in section.iter_relocations()
                if r["r_info_type"] not in _HINTS
            ]
            _relocate(*placed[section["sh_info"]], entries)
    parts = [(a, bytes(b), bool(file.get_section(i)["sh_flags"] & 4)) for i, (a, b) in placed.items()]
    return Image(parts, {s.name: value(s) for s in _symbols(file) if s["st_shndx"] in placed}, CODE_BASE)


def _symbols(file: Any) -> Iterable[Any]:
    table = file.get_section_by_name(".symtab")
    return table.iter_symbols() if table else ()


# Relocation types by number (RISC-V ELF psABI): what the value is, and the ``struct`` format or immediate it
# goes into. "pair": the low half of the distance whose high half is in the AUIPC the relocation points to.
_HINTS = (0, 43, 51)  # NONE, ALIGN and RELAX tell a linker how to shrink code
_CALLS = (18, 19)  # CALL, CALL_PLT: AUIPC and JALR
_PCREL_HI20 = 23
_RELOCATIONS = {
    1: ("absolute", "<I"),  # 32
    2: ("absolute", "<Q"),  # 64
    57: ("relative", "<I"),  # 32_PCREL
    16: ("relative", "B"),  # BRANCH
    17: ("relative", "J"),  # JAL
    _PCREL_HI20: ("relative", "U"),
    24: ("pair", "I"),  # PCREL_LO12_I
    25: ("pair", "S"),  # PCREL_LO12_S
    26: ("absolute", "U"),  # HI20
    27: ("absolute", "I"),  # LO12_I
    28: ("absolute", "S"),  # LO12_S
}
# Immediate fields of each format: bits high..low of the value lie at bit ``at`` of the instruction.
_FIELDS = {
    "I": ((11, 0, 20),),
    "S": ((11, 5, 25), (4, 0, 7)),
    "B": ((12, 12, 31), (10, 5, 25), (4, 1, 8), (11, 11, 7)),
    "U": ((31, 12, 12),),
    "J": ((20, 20, 31), (10, 1, 21), (11, 11, 20), (19, 12, 12)),
}


def _relocate(base: int, data: bytearray, entries: Sequence[tuple[int, int, int]]) -> None:
    """Applies (offset, type, symbol + addend) entries to the bytes of a section at ``base``."""
    distances = {base + at: target - base - at for at, kind, target in entries if kind == _PCREL_HI20}
    for at, kind, target in entries:
        relative = target - base - at
        if kind in _CALLS:
            _put(data, at, "U", relative)
            _put(data, at + 4, "I", relative)
        elif kind in _RELOCATIONS:
            origin, form = _RELOCATIONS[kind]
            value = distances[target] if origin == "pair" else target if origin == "absolute" else relative
            _put(data, at, form, value)
        else:
            raise ValueError(f"relocation type {kind} is not supported")


def _put(data: bytearray, offset: int, form: str, value: int) -> None:
    """Writes a value, or the immediate of the instruction at ``offset``."""
    if form not in _FIELDS:
        struct.pack_into(form, data, offset, value % 2 ** (8 * struct.calcsize(form)))
        return
    word = struct.unpack_from("<I", data, offset)[0]
    value += 0x800 if form == "U" else 0  # the low half is sign-extended when it is added
    for high, low, at in _FIELDS[form]:
        mask = (2 << high - low) - 1
        word = word & ~(mask << at) | (value >> low & mask) << at
    struct.pack_into("<I", data, offset, word)
