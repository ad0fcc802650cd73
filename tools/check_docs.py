#!/usr/bin/env python3
"""Holds the documentation to the sources.

Usage: check_docs.py

In every Markdown file of the project:
  - `path/file.c:name` must name a file of the tree and a function, type or macro defined in it;
  - `path/file` (with a slash, under a folder of the tree) must exist;
  - a relative link must lead somewhere.
The table of profiles in the reference of the options must say what the sources say.
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
PROFILES = "docs/reference/options.md"
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
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


def value_of(text: str) -> str:
    """A number of a table, in C ("32 * MIB") or for people ("32 MiB"); a word as it is."""
    number, _, unit = text.replace("* ", "").replace("IB", "iB").partition(" ")
    if not number.isdigit():
        return text.removeprefix("OS_THP_").removeprefix("PAGE_PURGE_").lower()
    return str(int(number) * (UNITS[unit] if unit else 1))


def profiles_in_code() -> dict[str, dict[str, str]]:
    """By field, by profile: the designated initialisers of `profiles`."""
    text = (ROOT / "src/os/options.c").read_text()
    table = re.search(r"hak_profile profiles\[\] = \{(.*?)\n\};", text, re.DOTALL)
    fields: dict[str, dict[str, str]] = {}
    for row in table[1].split("[PROFILE_")[1:] if table else []:
        profile = row.partition("]")[0].lower()
        for name, value in re.findall(r"\.(\w+) = ([^,]+),", row):
            if name != "name":
                fields.setdefault(name, {})[profile] = value_of(value)
    return fields


def profiles_in_docs() -> dict[str, dict[str, str]]:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / PROFILES).read_text().partition("## Profiles")[2].splitlines()
        if line.startswith("|")
    ]
    heads = rows[0][1:4] if rows else []
    return {
        row[0].strip("`"): dict(zip(heads, map(value_of, row[1:4]), strict=True))
        for row in rows[2:]
    }


def faults_of_profiles() -> list[str]:
    code, docs = profiles_in_code(), profiles_in_docs()
    if not code:
        return ["src/os/options.c: no table of profiles was found"]
    return [
        f"{PROFILES}: {name}: the sources say {code.get(name)}, the table {docs.get(name)}"
        for name in sorted(code.keys() | docs.keys())
        if code.get(name) != docs.get(name)
    ]


def main() -> int:
    listing = ["git", "ls-files", "-co", "--exclude-standard", "*.md"]
    output = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    documents = [Path(line) for line in output.splitlines()]
    faults = faults_of_profiles()
    for document in documents:
        text = FENCE.sub("", (ROOT / document).read_text())
        faults += faults_of_code(document, text) + faults_of_links(document, text)
    print(*faults, sep="\n", end="\n" if faults else "")
    print(f"docs: {len(documents)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
