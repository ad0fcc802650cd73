"""Fetches and builds the other allocators from their public packages.

Each has a recipe; a recipe that fails leaves its peer missing and says why, and the rest go on.
Nothing is written outside the peers' folder, except that cargo, where there is none, is installed
as a Debian package (by root only). Variables such as CFLAGS are kept away from the builds: a peer
is measured with the flags of its own release.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab import paths
from hakmem_lab.errors import LabError
from hakmem_lab.peers import registry

_FLAG_VARIABLES = (
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "RUSTFLAGS", "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET", "LD_PRELOAD", "CMAKE_GENERATOR",
)  # fmt: skip

# rpmalloc's own flags of its release build for gcc (build/ninja/gcc.py in its source).
_RPMALLOC_FLAGS = (
    "-std=c11", "-DRPMALLOC_COMPILE=1", "-D_GNU_SOURCE=1", "-DBUILD_DYNAMIC_LINK=1",
    "-DBUILD_RELEASE=1", "-O3", "-g", "-funroll-loops", "-fPIC", "-funit-at-a-time",
    "-fstrict-aliasing", "-fno-math-errno", "-ffinite-math-only", "-funsafe-math-optimizations",
    "-fno-trapping-math", "-ffast-math", "-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1",
)  # fmt: skip


class InstallError(LabError):
    """One peer could not be had."""


@dataclass
class Workshop:
    """The folder that peers are built in; what several recipes need is done once."""

    root: Path
    say: Callable[[str], None]
    _vendor: Path | None = field(default=None)

    @property
    def build(self) -> Path:
        return self.root / "build"

    def fresh(self, name: str) -> Path:
        """An empty folder."""
        folder = self.build / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def run(self, words: Sequence[str], cwd: Path | None = None) -> str:
        """Runs a command of a build; its output is the reason when it fails."""
        clean = {name: value for name, value in os.environ.items() if name not in _FLAG_VARIABLES}
        try:
            done = subprocess.run(
                words, cwd=cwd, env=clean, capture_output=True, text=True, check=False
            )
        except FileNotFoundError:
            raise InstallError(f"there is no program '{words[0]}'") from None
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines()[-5:]
            raise InstallError(f"'{' '.join(words[:3])} ...' failed: {' / '.join(output)}")
        return done.stdout

    def keep(self, name: str, library: Path, facts: Mapping[str, str]) -> Path:
        """Puts a finished library in its place."""
        target = self.root / f"{name}.so"
        partial = target.with_suffix(".partial")
        shutil.copyfile(library, partial)
        partial.chmod(0o755)
        partial.replace(target)
        note = target.with_suffix(".json")
        note.write_text(json.dumps(dict(facts), indent=1) + "\n", encoding="utf-8")
        return target

    def vendor(self) -> Path:
        """The sources of all crates, fetched once by `cargo vendor`."""
        if self._vendor is None:
            require_cargo(self)
            self.say("fetching the sources that Rust's registry carries")
            project = self.fresh("crates")
            shutil.copytree(_crates(), project, dirs_exist_ok=True)
            self.run(["cargo", "vendor", "--locked", "--quiet", "vendor"], cwd=project)
            self._vendor = project / "vendor"
        return self._vendor


def _crates() -> Path:
    """The Cargo package that names the crates and their versions."""
    return Path(__file__).resolve().parents[2] / "peers"


def require_cargo(shop: Workshop) -> None:
    """Debian 12's own cargo is too old for the crates; its cargo-web package is a newer one."""
    if shutil.which("cargo"):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise InstallError("there is no cargo; install Rust, or the Debian package cargo-web")
    shop.say("installing cargo (Debian package cargo-web)")
    shop.run(["apt-get", "update", "-q"])
    apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends",
           "-o", "DPkg::Lock::Timeout=600"]  # fmt: skip
    try:
        shop.run([*apt, "cargo-web", "rustc-web"])
    except InstallError:
        shop.run([*apt, "cargo", "rustc"])


def _facts(name: str, **more: str) -> dict[str, str]:
    entry = registry.peer(name)
    return {"version": entry.version, "from": entry.origin} | more


def _only(files: Sequence[Path], what: str) -> Path:
    if not files:
        raise InstallError(f"{what} is not where it was expected")
    return files[0]


def install_mimalloc(shop: Workshop) -> Path:
    entry = registry.peer("mimalloc")
    folder = shop.fresh("mimalloc")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
           "--no-deps", "--only-binary=:all:", "--dest", str(folder)]  # fmt: skip
    shop.run([*pip, f"cmeel-mimalloc=={entry.version}"])
    with zipfile.ZipFile(_only(sorted(folder.glob("*.whl")), "the wheel")) as wheel:
        wheel.extractall(folder)
    library = _only(sorted(folder.glob("cmeel.prefix/lib/libmimalloc.so.*.*")), "libmimalloc.so")
    return shop.keep("mimalloc", library, _facts("mimalloc"))


def _debian(shop: Workshop, name: str, package: str, pattern: str, **more: str) -> Path:
    """A library out of a Debian package, which is unpacked here and not installed."""
    folder = shop.fresh(name)
    folder.chmod(0o777)  # apt downloads as a user of its own
    try:
        shop.run(["apt-get", "download", "-q", package], cwd=folder)
    except InstallError:
        if os.geteuid() != 0:
            raise
        shop.run(["apt-get", "update", "-q"])
        shop.run(["apt-get", "download", "-q", package], cwd=folder)
    archive = _only(sorted(folder.glob("*.deb")), package)
    shop.run(["dpkg-deb", "-x", str(archive), str(folder / "root")])
    version = shop.run(["dpkg-deb", "-f", str(archive), "Version"]).strip()
    library = _only(sorted((folder / "root").glob(pattern)), pattern)
    facts = _facts(name, version=version, **more)
    return shop.keep(name, library.resolve(), facts)


def install_tcmalloc(shop: Workshop) -> Path:
    pattern = "usr/lib/*/libtcmalloc_minimal.so.4.*"
    return _debian(shop, "tcmalloc", "libtcmalloc-minimal4", pattern)


def install_scudo(shop: Workshop) -> Path:
    machine = platform.machine()
    pattern = f"usr/lib/llvm-14/lib/clang/14*/lib/linux/libclang_rt.scudo_standalone-{machine}.so"
    return _debian(shop, "scudo", "libclang-rt-14-dev", pattern)


def install_jemalloc(shop: Workshop) -> Path:
    try:
        return _jemalloc_from_crate(shop)
    except InstallError as error:
        shop.say(f"jemalloc 5.3.1 could not be built ({error}); taking Debian's 5.3.0")
        origin = {"from": "Debian libjemalloc2"}
        return _debian(shop, "jemalloc", "libjemalloc2", "usr/lib/*/libjemalloc.so.2", **origin)


def _jemalloc_from_crate(shop: Workshop) -> Path:
    """cargo builds the static library; linked whole into a shared object it can be preloaded."""
    project = shop.vendor().parent
    target = shop.fresh("jemalloc")
    shop.run(
        ["cargo", "build", "--release", "--locked", "--quiet", "-p", "tikv-jemalloc-sys",
         "--target-dir", str(target)], cwd=project)  # fmt: skip
    archives = sorted(target.glob("release/build/tikv-jemalloc-sys-*/out/lib/libjemalloc_pic.a"))
    library = target / "libjemalloc.so"
    shop.run(
        ["cc", "-shared", "-o", str(library), "-Wl,-soname,libjemalloc.so.2", "-Wl,--whole-archive",
         str(_only(archives, "libjemalloc_pic.a")), "-Wl,--no-whole-archive", "-pthread", "-ldl",
         "-lm"])  # fmt: skip
    return shop.keep("jemalloc", library, _facts("jemalloc"))


def install_snmalloc(shop: Workshop) -> Path:
    source = shop.vendor() / "snmalloc-sys/upstream"
    build = shop.fresh("snmalloc")
    shop.run(["cmake", "-S", str(source), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"])
    shop.run(["cmake", "--build", str(build), "--target", "snmallocshim"])
    return shop.keep("snmalloc", build / "libsnmallocshim.so", _facts("snmalloc"))


def install_rpmalloc(shop: Workshop) -> Path:
    source = shop.vendor() / "rpmalloc-sys/rpmalloc/rpmalloc/rpmalloc.c"
    library = shop.fresh("rpmalloc") / "librpmalloc.so"
    link = ["-shared", "-o", str(library), str(source), "-pthread", "-ldl"]
    shop.run(["cc", *_RPMALLOC_FLAGS, *link])
    return shop.keep("rpmalloc", library, _facts("rpmalloc"))


RECIPES: dict[str, Callable[[Workshop], Path]] = {
    "mimalloc": install_mimalloc,
    "tcmalloc": install_tcmalloc,
    "jemalloc": install_jemalloc,
    "snmalloc": install_snmalloc,
    "rpmalloc": install_rpmalloc,
    "scudo": install_scudo,
}


def install(wanted: Sequence[str], say: Callable[[str], None]) -> dict[str, str]:
    """Installs the peers named; returns those that could not be had, each with the reason."""
    root = paths.peers_dir()
    root.mkdir(parents=True, exist_ok=True)
    shop = Workshop(root, say)
    failed: dict[str, str] = {}
    for name in wanted:
        say(f"installing {name}")
        try:
            RECIPES[name](shop)
        except (InstallError, OSError) as error:
            failed[name] = str(error)
            say(f"{name} could not be had: {error}")
    shutil.rmtree(shop.build, ignore_errors=True)
    return failed
