"""LLVM at work: from text to object code, for this CPU or for RV64IM guests."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ..errors import CompileError


@functools.cache
def binding() -> Any:
    """llvmlite's binding with all targets ready; imported late because it costs 60 ms."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@dataclass(frozen=True)
class Machine:
    """What code is generated for: LLVM triple, CPU and features."""

    triple: str
    cpu: str
    features: str

    def has(self, feature: str) -> bool:
        """Is e.g. ``avx512ifma`` enabled?"""
        return f"+{feature}" in self.features.split(",")

    @property
    def key(self) -> str:
        """Text that names code generation completely, for cache keys."""
        import llvmlite

        version = ".".join(map(str, binding().llvm_version_info))
        return f"{llvmlite.__version__}|{version}|{self.triple}|{self.cpu}|{self.features}|2"

    def target_machine(self) -> Any:
        llvm = binding()
        target = llvm.Target.from_triple(self.triple)
        if self.triple.startswith("riscv"):
            return target.create_target_machine(cpu=self.cpu, features=self.features, reloc="static",
                                                codemodel="medium", opt=2)
        return target.create_target_machine(cpu=self.cpu, features=self.features, opt=2, jit=True)


RISCV = Machine("riscv64-unknown-elf", "generic-rv64", "+m")


@functools.cache
def host(level: str = "native") -> Machine:
    """This CPU. ``level`` "avx2" or "baseline" asks for less than it has (x86-64 only), for tests."""
    llvm = binding()
    triple = llvm.get_process_triple()
    if level == "native":
        features = llvm.get_host_cpu_features().flatten()
        if triple.startswith("x86_64"):
            features += ",-prefer-256-bit"
        return Machine(triple, llvm.get_host_cpu_name(), features)
    names = {"avx2": "x86-64-v3", "baseline": "x86-64"}
    if level not in names or not triple.startswith("x86_64"):
        raise CompileError(f"no CPU level '{level}' on {triple}: choose native, or avx2 or baseline on x86-64")
    return Machine(triple, names[level], "")


def compile_object(text: str, machine: Machine) -> bytes:
    """Object code of LLVM text. One pass runs: SROA, which puts local variables in registers."""
    llvm = binding()
    if "llvm.x86.avx512.vpmadd52" in text and not machine.has("avx512ifma"):
        raise CompileError(f"madd52 needs AVX-512 IFMA, which {machine.cpu} lacks")  # LLVM would end the process
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as e:
        raise CompileError(f"internal: LLVM refused the generated code: {e}") from None
    module.triple = machine.triple
    tm = machine.target_machine()
    builder = llvm.create_pass_builder(tm, llvm.create_pipeline_tuning_options(0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.run(module, builder)
    return tm.emit_object(module)
