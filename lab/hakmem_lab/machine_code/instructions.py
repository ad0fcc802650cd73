"""What an instruction is.

An *atomic* here is a read-modify-write that other processors see as one step: on x86-64 an
instruction with a LOCK prefix, or XCHG with memory, which locks without one; on AArch64 one of the
Large System Extensions (CAS, SWP, LDADD ...), the store of a load-exclusive, store-exclusive pair,
or a call of the compiler's helper that chooses between the two. These, and *fences*, are what costs
20 cycles and more.

Atomic loads and stores are not counted: on x86-64 they are plain moves, and nothing in the machine
code sets them apart (a store in sequentially consistent order is an XCHG, and counts). The plain
moves of AArch64 are LDAR and STLR beside LDR and STR.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import capstone

# In the order in which people read them.
KINDS = (
    "branches",
    "jumps",
    "loads",
    "stores",
    "atomics",
    "fences",
    "calls",
    "divisions",
    "syscalls",
)

_ARM_ATOMIC = re.compile(r"stl?x[rp][bh]?$|cas|swp|(ld|st)(add|clr|set|eor|[su]max|[su]min)")
_ARM_FENCE = re.compile(r"dmb|dsb")
# libgcc's and compiler-rt's: __aarch64_ldadd4_relax and the like.
_ARM_HELPER = re.compile(r"__aarch64_(cas|swp|ldadd|ldclr|ldeor|ldset)\d+_")
_X86_FENCES = ("mfence", "lfence", "sfence")
# What compilers write for a full fence, as it is quicker than mfence: the stack's own line.
_X86_LOCKED_NOTHING = re.compile(r"[dq]word ptr \[rsp( [+-] \w+)?\], (0x)?0$")


def is_helper(function: str) -> bool:
    """Whether a function is a helper of the compiler that is an atomic by itself."""
    return _ARM_HELPER.match(function) is not None


def ordering_kind(machine: str, mnemonic: str, operands: str) -> str | None:
    """ "atomics", "fences" or None, from the text that a disassembler writes."""
    if machine == "aarch64":
        if _ARM_FENCE.match(mnemonic):
            return "fences"
        return "atomics" if _ARM_ATOMIC.match(mnemonic) else None
    if mnemonic in _X86_FENCES:
        return "fences"
    words = mnemonic.split()
    if "lock" in words:
        return "fences" if _X86_LOCKED_NOTHING.match(operands) else "atomics"
    return "atomics" if words[-1] == "xchg" and "[" in operands else None


def kinds_of(insn: capstone.CsInsn, machine: str) -> Iterator[str]:
    """Which of KINDS an executed instruction is. It may be several: `add rax, [rdi]` loads too."""
    ordering = ordering_kind(machine, insn.mnemonic, insn.op_str)
    if ordering:
        yield ordering
    if capstone.CS_GRP_CALL in insn.groups:
        yield "calls"
    yield from _x86_kinds(insn) if machine == "x86_64" else _arm_kinds(insn.mnemonic)


def _x86_kinds(insn: capstone.CsInsn) -> Iterator[str]:
    name = insn.mnemonic
    if capstone.CS_GRP_JUMP in insn.groups:
        yield "jumps" if name.split()[-1] == "jmp" else "branches"
    if name in ("div", "idiv"):
        yield "divisions"
    if name in ("syscall", "sysenter"):
        yield "syscalls"
    touched = [op for op in insn.operands if op.type == capstone.x86.X86_OP_MEM]
    if name in ("lea", "nop"):
        return  # they only look as if they did
    if name == "pop" or any(op.access & capstone.CS_AC_READ for op in touched):
        yield "loads"
    if name == "push" or any(op.access & capstone.CS_AC_WRITE for op in touched):
        yield "stores"


def _arm_kinds(name: str) -> Iterator[str]:
    if name.startswith(("b.", "cbz", "cbnz", "tbz", "tbnz")):
        yield "branches"
    elif name in ("b", "br"):
        yield "jumps"
    elif name in ("udiv", "sdiv"):
        yield "divisions"
    elif name == "svc":
        yield "syscalls"
    elif name.startswith("ld"):
        yield "loads"
    elif name.startswith("st"):
        yield "stores"


def is_repeated(insn: capstone.CsInsn) -> bool:
    """x86's string instructions trap once an element when they are single-stepped."""
    return str(insn.mnemonic).startswith("rep")
