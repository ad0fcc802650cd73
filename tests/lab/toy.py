"""A tiny allocator, in as many versions as a test wants, and a program that uses it: small enough
to be built in a blink, and with differences large enough to be seen on any machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = """\
#include <stddef.h>
#include <stdint.h>

static _Alignas(64) unsigned char memory[1 << 16];
static size_t used;
static volatile unsigned sink;
static volatile unsigned long trimmed;

static void work(unsigned rounds) {
    for (unsigned i = 0; i < rounds; ++i) sink += i;
}

void *malloc(size_t size) {
    size = (size + 31) & ~(size_t)15;
    if (size > sizeof memory) return NULL;
    if (size > sizeof memory - used) used = 0;
    size_t *block = (size_t *)(void *)(memory + used);
    used += size;
    *block = size;
    work(@WORK@);
    return block + 2;
}

void free(void *block) { (void)block; @FREE@ }

void *calloc(size_t count, size_t size) {
    unsigned char *block = malloc(count * size);
    for (size_t i = 0; block && i < count * size; ++i) block[i] = 0;
    return block;
}

void *realloc(void *old, size_t size) {
    unsigned char *block = malloc(size);
    for (size_t i = 0; old && block && i < size && i < ((size_t *)old)[-2] - 16; ++i)
        block[i] = ((unsigned char *)old)[i];
    return block;
}

int malloc_trim(size_t keep) {
    (void)keep;
    @TRIM@
    return 0;
}
"""

PROGRAM = """\
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < 100000; ++i) {
        char *volatile block = malloc(32);
        block[0] = 1;
        free(block);
    }
    return 0;
}
"""

FLAGS = ("-O2", "-fno-builtin", "-Wall", "-Werror")


def source(work: int = 20, free: str = "", trim: str = "") -> str:
    text = SOURCE.replace("@WORK@", str(work)).replace("@FREE@", free)
    return text.replace("@TRIM@", trim)


def compile_library(text: str, target: Path, *flags: str, language: str = "c") -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    words = ["gcc", *FLAGS, "-shared", "-fPIC", *flags, "-x", language, "-", "-o", str(target)]
    subprocess.run(words, input=text, text=True, check=True)
    return target


def compile_program(folder: Path) -> Path:
    target = folder / "program"
    words = ["gcc", *FLAGS, "-x", "c", "-", "-o", str(target)]
    subprocess.run(words, input=PROGRAM, text=True, check=True)
    return target
