"""Checks of the kernel and its pages: version, page size, huge pages, merging."""

from __future__ import annotations

import re

from hakmem_lab.doctor.finding import Finding, Verdict
from hakmem_lab.doctor.host import Host, size

THP = "/sys/kernel/mm/transparent_hugepage"

# What came with which version, as far as an allocator or the lab can use it.
_FEATURES = (
    ((4, 17), "MAP_FIXED_NOREPLACE"),
    ((5, 4), "MADV_COLD and MADV_PAGEOUT"),
    ((5, 7), "MREMAP_DONTUNMAP"),
    ((5, 10), "process_madvise"),
    ((5, 14), "MADV_POPULATE_WRITE"),
    ((5, 17), "names for anonymous mappings"),
    ((6, 1), "MADV_COLLAPSE"),
    ((6, 8), "huge pages of several sizes"),
)
_WANTED = (5, 7)  # realloc moves pages by MREMAP_DONTUNMAP


def kernel(host: Host) -> Finding:
    version = host.kernel()
    release = host.text("/proc/sys/kernel/osrelease") or "unknown"
    if version is None:
        return Finding("kernel", release, Verdict.NOTE, "its version cannot be read")
    missing = [f"{name} ({a}.{b})" for (a, b), name in _FEATURES if version < (a, b)]
    if version < _WANTED:
        means = "a realloc of a large block copies bytes where newer kernels move pages"
        return Finding(
            "kernel", release, Verdict.NOTE, f"{means}; it lacks {', '.join(missing)}",
            "sudo apt-get install linux-image-$(dpkg --print-architecture)",
        )  # fmt: skip
    means = f"it lacks {', '.join(missing)}" if missing else "it has all that allocators use"
    return Finding("kernel", release, Verdict.OK, means)


def page_size(host: Host) -> Finding:
    found = size(host.page_bytes)
    if host.page_bytes == 4096:
        return Finding("page size", found, Verdict.OK, "the smallest piece of resident memory")
    means = "every touched page counts whole: small heaps are larger than with pages of 4 KiB"
    return Finding("page size", found, Verdict.NOTE, f"{means}; only another kernel changes it")


def address_space(host: Host) -> Finding | None:
    found = re.search(r"(\d+) bits virtual", host.text("/proc/cpuinfo") or "")
    if found is None:
        return None
    # Of these bits half belongs to the kernel; 5-level paging is there for those who ask for it.
    bits = min(int(found[1]), 48) - 1
    if bits >= 47:
        means = "room for a window of 1 TiB and much more"
        return Finding("address space", f"{bits} bits", Verdict.OK, means)
    means = "HAKMEM's window takes what there is; blocks that find no place there are mapped singly"
    return Finding(
        "address space", f"{bits} bits", Verdict.NOTE, means, "HAKMEM_OPTIONS=arena_size=64G"
    )


def huge_pages(host: Host) -> Finding:
    name = "transparent huge pages"
    enabled = host.chosen(f"{THP}/enabled")
    if enabled is None:
        means = "this kernel has none (or hides them): more page faults and TLB misses"
        return Finding(name, "not there", Verdict.NOTE, means)
    if enabled == "always":
        means = (
            "fewer faults and TLB misses, but touching one byte may make 2 MiB resident: memory "
            "figures vary. For one program: HAKMEM_OPTIONS=thp=never"
        )
        return Finding(name, enabled, Verdict.NOTE, means, f"echo madvise | sudo tee {THP}/enabled")
    if enabled == "never":
        means = "the option thp=always of HAKMEM has no effect"
        return Finding(name, enabled, Verdict.NOTE, means, f"echo madvise | sudo tee {THP}/enabled")
    means = "who asks for them gets them: HAKMEM_OPTIONS=thp=always"
    return Finding(name, enabled, Verdict.OK, means)


def huge_page_stalls(host: Host) -> Finding | None:
    chosen = host.chosen(f"{THP}/defrag")
    if chosen is None:
        return None
    if chosen == "always":
        means = "a page fault may wait while the kernel moves other pages together: late calls"
        return Finding(
            "huge-page defrag", chosen, Verdict.WARN, means,
            f"echo defer+madvise | sudo tee {THP}/defrag",
        )  # fmt: skip
    means = "a page fault does not wait for a huge page, unless the program asked for them"
    return Finding("huge-page defrag", chosen, Verdict.OK, means)


def khugepaged(host: Host) -> Finding | None:
    """Purged memory comes back when khugepaged fills the holes of a huge page with zeroes."""
    path = f"{THP}/khugepaged/max_ptes_none"
    holes = host.number(path)
    if holes is None or host.chosen(f"{THP}/enabled") not in ("always", "madvise"):
        return None
    found = f"up to {holes} empty pages of 512"
    if holes > 0 and host.chosen(f"{THP}/enabled") == "always":
        means = "it makes huge pages of sparse ones: memory that was given back is resident again"
        return Finding("khugepaged", found, Verdict.NOTE, means, f"echo 0 | sudo tee {path}")
    means = "it collects pages into huge ones only where a program has asked for them"
    return Finding("khugepaged", found, Verdict.OK, means)


def huge_page_sizes(host: Host) -> Finding | None:
    """mTHP, from 6.8 on: a setting for each size; `inherit` follows the one above."""
    chosen = {}
    for path in host.glob(f"{THP}/hugepages-*kB/enabled"):
        kib = re.search(r"hugepages-(\d+)kB", path)
        setting = host.chosen(path)
        if kib and setting:
            chosen[int(kib[1])] = setting
    if not chosen:
        return None
    name = "huge-page sizes"
    on = {kib: setting for kib, setting in sorted(chosen.items()) if setting != "never"}
    found = ", ".join(f"{size(kib << 10)}: {setting}" for kib, setting in on.items()) or "none"
    always = [kib for kib, setting in on.items() if setting == "always"]
    if always:
        means = "one touched byte makes a whole block of that size resident: memory figures vary"
        path = f"{THP}/hugepages-{always[0]}kB/enabled"
        return Finding(name, found, Verdict.NOTE, means, f"echo inherit | sudo tee {path}")
    return Finding(name, found, Verdict.OK, "no size is forced on programs")


def huge_shared_memory(host: Host) -> Finding | None:
    chosen = host.chosen(f"{THP}/shmem_enabled")
    if chosen is None:
        return None
    means = "for shared memory and tmpfs only; heaps are neither"
    return Finding("huge pages of shared memory", chosen, Verdict.OK, means)


def reserved_huge_pages(host: Host) -> Finding | None:
    total, free = host.meminfo("HugePages_Total"), host.meminfo("HugePages_Free")
    bytes_each = host.meminfo("Hugepagesize")
    if not total or bytes_each is None:
        return None
    means = "they are set aside for programs that ask for MAP_HUGETLB; no malloc here does"
    found = f"{size(total * bytes_each)}, {free or 0} of {total} unused"
    if not free:
        return Finding("reserved huge pages", found, Verdict.OK, means)
    command = "sudo sysctl vm.nr_hugepages=0"
    return Finding("reserved huge pages", found, Verdict.NOTE, means, command)


def same_page_merging(host: Host) -> Finding | None:
    run = host.number("/sys/kernel/mm/ksm/run")
    if run is None:
        return None
    if run == 1:
        means = "pages that programs offered are merged: a later write pays for a copy"
        return Finding(
            "page merging (KSM)", "running", Verdict.NOTE, means,
            "echo 0 | sudo tee /sys/kernel/mm/ksm/run",
        )  # fmt: skip
    return Finding("page merging (KSM)", "off", Verdict.OK, "no page is shared behind one's back")


CHECKS = (
    kernel, page_size, address_space, huge_pages, huge_page_stalls, khugepaged, huge_page_sizes,
    huge_shared_memory, reserved_huge_pages, same_page_merging,
)  # fmt: skip
