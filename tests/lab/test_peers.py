"""Other allocators: found or reported missing by name, never silently left out."""

from pathlib import Path

import pytest

from hakmem_lab.errors import LabError, MissingError
from hakmem_lab.peers import install, registry
from hakmem_lab.peers.install import InstallError, Workshop
from support import hakmem


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any peer."""
    monkeypatch.setattr("hakmem_lab.paths.peers_dir", lambda: tmp_path)
    bare = tuple(
        registry.Peer(each.name, each.version, each.origin, (), each.default)
        for each in registry.PEERS
    )
    monkeypatch.setattr(registry, "PEERS", bare)
    return tmp_path


def test_the_agreed_peers_are_known() -> None:
    assert registry.default_names() == [
        "glibc", "mimalloc", "tcmalloc", "jemalloc", "snmalloc", "rpmalloc",
    ]  # fmt: skip
    assert "scudo" in registry.names()
    assert set(install.RECIPES) == {peer.name for peer in registry.PEERS}


def test_without_peers_all_are_missing_by_name(folder: Path) -> None:
    found, missing = registry.choose(None)
    assert [allocator.name for allocator in found] == ["glibc"]
    assert sorted(missing) == ["jemalloc", "mimalloc", "rpmalloc", "snmalloc", "tcmalloc"]


def test_a_peer_that_was_named_must_be_there(folder: Path) -> None:
    with pytest.raises(MissingError, match="snmalloc is not here"):
        registry.choose(["glibc", "snmalloc"])
    with pytest.raises(LabError, match="no peer 'nomalloc'"):
        registry.choose(["nomalloc"])


def test_an_installed_peer_is_found_with_its_note(folder: Path) -> None:
    shop = Workshop(folder, print)
    library = folder / "built.so"
    library.write_bytes(b"library")
    shop.keep("jemalloc", library, {"version": "5.3.0", "from": "Debian libjemalloc2"})
    found, _ = registry.choose(["jemalloc"])
    assert (found[0].version, found[0].origin) == ("5.3.0", "Debian libjemalloc2")
    assert found[0].library == (folder / "jemalloc.so").resolve()


def test_one_that_cannot_be_had_does_not_stop_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(shop: Workshop) -> Path:
        shop.run(["sh", "-c", "echo the reason >&2; exit 1"])
        raise AssertionError

    def works(shop: Workshop) -> Path:
        library = shop.fresh("works") / "lib.so"
        library.write_bytes(b"library")
        return shop.keep("rpmalloc", library, {"version": "1", "from": "here"})

    monkeypatch.setattr(install, "RECIPES", {"snmalloc": fails, "rpmalloc": works})
    said: list[str] = []
    failed = install.install(["snmalloc", "rpmalloc"], said.append)
    assert list(failed) == ["snmalloc"]
    assert "the reason" in failed["snmalloc"]
    assert (folder / "rpmalloc.so").is_file()
    assert not (folder / "build").exists()
    assert any("snmalloc could not be had" in line for line in said)


def test_builds_are_kept_from_the_callers_flags(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CFLAGS", "-O0")
    monkeypatch.setenv("LD_PRELOAD", "")
    told = Workshop(folder, print).run(["env"])
    assert "CFLAGS" not in told
    assert "LD_PRELOAD" not in told
    with pytest.raises(InstallError, match="no program"):
        Workshop(folder, print).run(["no-such-program"])


def test_the_list_names_every_peer() -> None:
    done = hakmem("peers")
    assert done.returncode == 0
    for name in registry.names():
        assert name in done.stdout
