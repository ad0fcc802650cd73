"""The same code in another order.

Where the linker happens to put a function decides which cache lines, page and branch-predictor
entries it shares with which others. A change anywhere in the source moves everything behind it, so
two builds may differ by some per cent although nobody touched what is measured. That is luck: the
next change takes it away. To tell luck from effect, each of the four programs of a round is linked
anew, its functions in a random order; the interval then covers what luck does.

A revision is built for this with -ffunction-sections, so that single functions can be moved (GNU ld
sorts sections named .text.sorted.*); for a build folder its objects are shuffled as they are. The
link itself is the one of the build, taken from Ninja. A library alone cannot be linked again: only
the size of the environment is random then, which moves the stack.
"""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from elftools.elf.elffile import ELFFile

from hakmem_lab.ab import builds
from hakmem_lab.errors import MissingError

FLAGS = {"CFLAGS": "-ffunction-sections", "CXXFLAGS": "-ffunction-sections"}
ENVIRONMENT_PAD_BYTES = 4096


@dataclass(frozen=True)
class Link:
    """The command that links a library, with what is shuffled in it set apart."""

    folder: Path
    before: tuple[str, ...]
    objects: tuple[Path, ...]
    after: tuple[str, ...]
    sections: dict[Path, tuple[str, ...]]  # each object's functions that have a section each

    @property
    def pieces(self) -> int:
        """How many pieces of code can be put in any order."""
        return sum(max(1, len(self.sections[each])) for each in self.objects)


def movable(side: builds.Side, recipe: builds.Recipe) -> Link | None:
    """None: it is a library alone, and stays as it is."""
    if side.commit is not None:
        return read_link(builds.build_tree(side.commit, replace(recipe, variables=FLAGS)))
    if side.build_folder is not None:
        return read_link(side.library)
    return None


def read_link(library: Path) -> Link:
    """How Ninja links a library of a build folder."""
    folder = next((each for each in library.parents if (each / "build.ninja").is_file()), None)
    if folder is None:
        raise MissingError(f"--layout links {library} again, which needs a build by Ninja")
    target = str(library.relative_to(folder))
    words = ["ninja", "-C", str(folder), "-t", "commands", target]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError(f"Ninja does not say how it links {library}: {done.stderr.strip()}")
    command = [
        word for word in shlex.split(done.stdout.splitlines()[-1]) if word not in (":", "&&")
    ]
    output = command.index("-o")
    del command[output : output + 2]
    places = [place for place, word in enumerate(command) if word.endswith(".o")]
    if not places:
        raise MissingError(f"the last step of {library} is not a link of objects")
    objects = tuple(folder / command[place] for place in places)
    rest = [word for word in command[places[0] :] if not word.endswith(".o")]
    sections = {each: _function_sections(each) for each in objects}
    return Link(folder, tuple(command[: places[0]]), objects, tuple(rest), sections)


def _function_sections(path: Path) -> tuple[str, ...]:
    """Cold parts of functions stay where the linker gathers them."""
    with path.open("rb") as stream:
        names = [section.name for section in ELFFile(stream).iter_sections()]
    return tuple(name for name in names if name.startswith(".text.") and ".unlikely" not in name)


def shuffle(link: Link, library: Path, generator: random.Random) -> None:
    """Links the library anew in a random order."""
    folder = library.with_suffix(".objects")
    folder.mkdir(parents=True)
    order = iter(generator.sample(range(link.pieces), link.pieces))
    objects = []
    for number, path in enumerate(generator.sample(link.objects, len(link.objects))):
        names = link.sections[path]
        renames = [f"--rename-section={name}=.text.sorted.{next(order):06d}" for name in names]
        copy = folder / f"{number:04d}.o"
        if renames:
            _run(["objcopy", *renames, str(path), str(copy)], link.folder)
        objects.append(str(copy if renames else path))
    words = [*link.before, "-o", str(library), *objects, *link.after]
    _run(words, link.folder)
    shutil.rmtree(folder)


def _run(words: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MissingError(f"--layout needs {words[0]}, which is not here") from None
    if done.returncode != 0:
        raise MissingError(f"linking in another order failed: {done.stderr.strip()[-500:]}")


def environment_pad(generator: random.Random) -> dict[str, str]:
    """A variable of random length: what is above the stack decides where the stack is."""
    return {"HAKMEM_LAB_PAD": "x" * generator.randrange(ENVIRONMENT_PAD_BYTES)}
