"""What a library's machine code is and does: `hakmem audit` and tools/fast_path.py.

    instructions   what an instruction is: branch, load, store, atomic, fence, call ...
    elf            an ELF file: its code, its functions, names for its addresses
    lines          which line of the source an instruction comes from (DWARF)
    trace          what malloc and free execute when they hit: recorded, not guessed
    listing        such a path as text, in words that moving code and data does not change
    atomics        every atomic and fence of a library, found by disassembling all of it
    annotations    the notes that our sources carry about theirs
    subject        one library under audit: all of the above of it
    verdict        do the notes and the machine code agree?
    document       all of it as JSON
    view           all of it as tables

x86-64 and AArch64. Code of the other one can be disassembled, but not run.
"""
