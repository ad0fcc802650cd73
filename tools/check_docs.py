#!/usr/bin/env python3
"""Holds the documentation to the sources.

Usage: check_docs.py

In every Markdown file of the project:
  - `path/file.c:name` must name a file of the tree and a function, type or macro defined in it;
  - `path/file` (with a slash, under a folder of the tree) must exist;
  - a relative link must lead somewhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "bench", "lab", "tests", "tools", "docs", "bin", "cmake")
CODE = re.compile(r"`([^`\s]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def defines(file: Path, name: str) -> bool:
    """A definition: the name at a line's start, behind its type, before its parameters or body."""
    text = file.read_text()
    if file.suffix == ".py":
        return re.search(rf"^\s*(?:def|class) {re.escape(name)}\b", text, re.MULTILINE) is not None
    pattern = (
        rf"^(?:[A-Za-z_][\w \t*()]*[ *])?{re.escape(name)}\s*\([^;]*?\)\s*(?:HAK_NOEXCEPT\s*)?\{{"
        rf"|^#define {re.escape(name)}\b|^(?:struct|enum) {re.escape(name)} \{{"
    )
    return re.search(pattern, text, re.MULTILINE) is not None


def faults_of_code(document: Path, text: str) -> list[str]:
    faults = []
    for word in CODE.findall(text):
        path, _, name = word.partition(":")
        if "/" not in path or path.split("/")[0] not in FOLDERS or any(c in path for c in "*<{…$"):
            continue
        file = next((f for f in (ROOT / path, ROOT / document.parent / path) if f.exists()), ROOT)
        if file == ROOT and not path.startswith("bin/"):
            faults.append(f"{document}: `{word}`: there is no {path}")
            continue
        if name and file.is_file() and re.fullmatch(r"\w+", name) and not defines(file, name):
            faults.append(f"{document}: `{word}`: {path} defines no {name}")
    return faults


def faults_of_links(document: Path, text: str) -> list[str]:
    faults = []
    for target in LINK.findall(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        if not (ROOT / document.parent / target).exists():
            faults.append(f"{document}: the link to {target} leads nowhere")
    return faults


def main() -> int:
    listing = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    output = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    documents = [Path(line) for line in output.splitlines()]
    faults = []
    for document in documents:
        text = FENCE.sub("", (ROOT / document).read_text())
        faults += faults_of_code(document, text) + faults_of_links(document, text)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"docs: {len(documents)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
