"""Compile modules: python -m dissectors.compiling.build

Every module that marks classes or functions becomes one file of CPython's stable interface, which any Python from 3.11
on loads. `declare` writes what Cython reads, into a folder of its own; some processes of Cython translate all modules,
then the C compiler compiles each. Only modules are compiled again of which, or of what they cimport, something
else was written than before. Cython's own functions are compiled once, in compiling/shared, instead of once a module.
Compiled modules lie in a folder of the package that is theirs (record.py), never among the sources.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from dissectors.compiling import loading, record
from dissectors.compiling.declare import DeclarationError, Package
from dissectors.compiling.record import SHARED, SUFFIX, BuildRecord

COMPILERS = ("cc", "gcc", "clang")
VARIABLE = "BROKERSCOPE_COMPILER"
ANY, MACHINE, NONE = "any", "machine", "none"  # its values
_CIMPORT = re.compile(r"^from (\S+) cimport (.+)", re.M)
_ERROR = re.compile(r"^(?!performance hint|warning).*:\d+:\d+: (?!warning)")  # file:line:column: what is wrong
# binding: functions of Cython's own kind take two tuples at each call.
_DIRECTIVES = (
    "boundscheck=True", "wraparound=False", "cdivision=True", "initializedcheck=False", "auto_pickle=False",
    "binding=False",
)  # fmt: skip
# -O2: a sixteenth fewer instructions an exchange than -O1; -O3 makes nothing faster and takes twice as long.
# clang (ziglang's is one) and newer gcc refuse what older gcc took: a table of methods, whose types differ by the
# argument that Cython adds to those that Python may call.
# What a module does once, when it is loaded, is not made faster: it is a sixth of the compiler's time. Texts are not
# compressed: unpacking them is a two-hundredth of what a run on a small capture costs.
_FLAGS = (
    "-O2", "-g0", "-fPIC", "-fwrapv", "-w", "-DNDEBUG", "-DPy_LIMITED_API=0x030B0000",
    "-Wno-incompatible-pointer-types", "-Wno-incompatible-function-pointer-types",
    '-DCYTHON_SMALL_CODE=__attribute__((cold,optimize("O0")))', "-DCYTHON_COMPRESS_STRINGS=0",
)  # fmt: skip
_LINK = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
_NOT_WANTED = "that was asked for when it was installed"
_NO_COMPILER = "no C compiler was found when it was installed"
WITHOUT_COMPILER = 3  # exit code where one would help; `make` installs it then


Told = Callable[[str], None]


class CompilerError(Exception):
    """A module could not be compiled. The text says which, and what the compiler said first."""


def machine_compiler() -> list[str]:
    """The command of this machine's C compiler: $CC or one that is installed; empty where there is none."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    return next(([name] for name in COMPILERS if shutil.which(name)), [])


def allowed() -> str:
    """Which compilers a build may use: any, so also one that comes as a wheel; the machine's; none.

    Where nothing is said, a build for a distribution, which sets SOURCE_DATE_EPOCH, takes nothing but what the machine
    has. Raises CompilerError where $BROKERSCOPE_COMPILER says anything else.
    """
    if loading.is_forced():
        return NONE
    said = os.environ.get(VARIABLE, "") or (MACHINE if "SOURCE_DATE_EPOCH" in os.environ else ANY)
    if said not in (ANY, MACHINE, NONE):
        raise CompilerError(f"{VARIABLE} is {said!r}, and may be {ANY}, {MACHINE} or {NONE}")
    return said


def obstacle() -> str:
    """Why no C compiler could make modules for this Python; "" where one can."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "compiled modules need CPython with its global lock"
    if os.name != "posix":
        return "modules are compiled on Linux and macOS only"
    if not (_headers() / "Python.h").exists():
        return "Python.h was missing when it was installed (Debian's package: python3-dev)"
    return ""


def compile_in_place(package: Path, by: str = ANY, name: str = "", *, told: Told = lambda text: None) -> BuildRecord:
    """Compile the modules of the package in a folder, and write the record. Where nothing is compiled it says why.

    by: which compilers may be used, as `allowed` says. name: of the package, where another one holds it.
    told: called with what is being done, as words: `compiled 12 of 74: kafka/walk`.
    """
    compiler = machine_compiler()
    if not compiler and by == ANY and find_spec("ziglang") is not None:
        compiler = [sys.executable, "-m", "ziglang", "cc"]
    reason = _NOT_WANTED if by == NONE else obstacle()
    reason = reason or ("" if compiler else _NO_COMPILER)
    done = BuildRecord("", reason, {}, {}) if reason else _compile(package, name or package.name, compiler, told)
    record.write(package, done)
    return done


def compiled_modules(package: Path) -> list[str]:
    """The modules that are compiled, as paths relative to the package without suffix."""
    return sorted(Package(package).compiled())


def _compile(package: Path, name: str, compiler: list[str], told: Told) -> BuildRecord:
    before = record.read(str(package))
    (package / record.NAME).unlink(missing_ok=True)  # until all is compiled, nothing is
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as workers:
        try:
            tree = Path(folder) / "sources"
            place = tree / name.replace(".", "/")
            modules, sources = write_sources(package, place, name)
            made = BuildRecord(_how(compiler), "", _digests(package, sources), _needed(place, tree, modules))
            wanted = {_file_of(package, module) for module in made.modules}
            for leftover in set(package.rglob(f"*{SUFFIX}")) - wanted:
                leftover.unlink()
            changed = [module for module in made.modules if not _is_current(package, module, before, made)]
            shares = _shares(changed, place)
            written: list[tuple[str, Path]] = []
            for pairs in workers.map(partial(_translate, tree, name), shares):
                written += pairs
                told(f"translated {len(written)} of {len(changed)} modules to C")
            made_whole = workers.map(lambda pair: _compile_one(package, compiler, *pair), written)
            for number, module in enumerate(made_whole, 1):
                told(f"compiled {number} of {len(written)}: {module}")
        except (CompilerError, DeclarationError) as error:
            return BuildRecord("", str(error), {}, {})
    return made


def write_sources(package: Path, tree: Path, name: str = "") -> tuple[list[str], list[Path]]:
    """Write what the compiler reads of a package into a folder: the modules, and the sources that they are made of."""
    declared = Package(package, name)
    modules = declared.compiled()
    given = [path for suffix in ("pxd", "h") for path in package.rglob(f"*.{suffix}")]
    for path, module in modules.items():
        _write(tree / f"{path}.py", module.source())
        _write(tree / f"{path}.pxd", module.declaration())
    for file in given:
        _write(tree / file.relative_to(package), file.read_text())
    above = {tree.parents[number] for number in range(declared.name.count("."))}
    for place in {tree, *above, *(path.parent for path in tree.rglob("*.pxd"))}:
        if not (place / "__init__.py").exists():
            _write(place / "__init__.py", "")
    return sorted(modules), sorted({*given, *declared.told, *(module.path for module in modules.values())})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _how(compiler: Sequence[str]) -> str:
    return f"Cython {version('cython')} {' '.join(_DIRECTIVES)}, {shlex.join([*compiler, *_flags()])}"


def _digests(package: Path, sources: Sequence[Path]) -> dict[str, str]:
    return {str(path.relative_to(package)): record.digest(path.read_bytes()) for path in sources}


def _needed(root: Path, tree: Path, modules: Sequence[str]) -> dict[str, str]:
    """The digest of all that each module is compiled from; of `shared` nothing, for it is Cython's alone."""
    headers = b"".join(path.read_bytes() for path in sorted(root.rglob("*.h")))
    texts = {path: path.read_text() for path in root.rglob("*.pxd")}
    found = {SHARED: record.digest(b"")}
    for module in modules:
        needed: set[Path] = set()
        waiting = [root / f"{module}.pxd"]
        while waiting:
            path = waiting.pop()
            if path not in needed and path in texts:
                needed.add(path)
                for above, names in _CIMPORT.findall(texts[path]):
                    place = tree / above.replace(".", "/")
                    waiting += [place.with_suffix(".pxd"), *(place / f"{name}.pxd" for name in names.split(", "))]
        read = [(root / f"{module}.py").read_bytes(), *(texts[path].encode() for path in sorted(needed)), headers]
        found[module] = record.digest(b"\0".join(read))
    return found


def _is_current(package: Path, module: str, before: BuildRecord | None, now: BuildRecord) -> bool:
    """Whether a module was compiled before, in the same way and from the same texts."""
    if before is None or before.compiler != now.compiler or not _file_of(package, module).exists():
        return False
    return before.modules.get(module) == now.modules[module]


def _shares(modules: Sequence[str], package: Path) -> list[list[str]]:
    """Modules that one process of Cython translates: as many shares as processors, of about one size; `shared` alone.

    A process needs a second before it translates anything.
    """
    others = sorted(set(modules) - {SHARED}, key=lambda module: (-(package / f"{module}.py").stat().st_size, module))
    count = min(len(others), os.cpu_count() or 1)
    return [[SHARED]] * (SHARED in modules) + [others[at::count] for at in range(count)]


def _translate(tree: Path, name: str, modules: Sequence[str]) -> list[tuple[str, Path]]:
    """Translate modules of a package to C, beside their sources in a tree: (module, its C file) of each."""
    cython = [sys.executable, "-m", "cython"]
    within = name.replace(".", "/")
    written = [(module, tree / within / f"{module}.c") for module in modules]
    if modules[0] == SHARED:
        _run(SHARED, [*cython, f"--generate-shared={written[0][1]}"], tree)
        return written
    directives = [word for directive in _DIRECTIVES for word in ("-X", directive)]
    shared = f"--shared={name}.{SHARED.replace('/', '.')}"
    sources = [f"{within}/{module}.py" for module in modules]
    what = modules[0] if len(modules) == 1 else f"one of {len(modules)} modules"
    _run(what, [*cython, "-3", *directives, shared, *sources], tree)
    for _, code in written:  # Cython 3.3 writes the suffix twice where the value for errors stands in the .pxd alone
        code.write_text(code.read_text().replace("-1LLLL", "-1LL"))
    return written


def _compile_one(package: Path, compiler: Sequence[str], module: str, code: Path) -> str:
    """Compile the C file of one module, and put it in its place when it is whole; returns the module."""
    made = code.with_suffix(".so")
    include = [f"-I{_headers()}", f"-I{package}", f"-I{(package / module).parent}"]
    _run(module, [*compiler, *_flags(), *_LINK, *include, str(code), "-o", str(made)], code.parent)
    target = _file_of(package, module)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(made, beside := target.with_suffix(".new"))
    beside.replace(target)  # a process that runs it keeps the old file
    return module


def _run(module: str, command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompilerError(f"{command[0]} could not be started: {error.strerror}") from None
    if done.returncode:
        said = [line.strip() for line in f"{done.stderr}\n{done.stdout}".splitlines() if line.strip()]
        first = next(filter(_ERROR.search, said), said[-1] if said else "no reason was given")
        raise CompilerError(f"{module} could not be compiled: {first}")


def _flags() -> list[str]:
    """The compiler's flags, those of the environment last."""
    return [*_FLAGS, *shlex.split(os.environ.get("CFLAGS", "")), *shlex.split(os.environ.get("ARCHFLAGS", ""))]


def _file_of(package: Path, module: str) -> Path:
    return package / record.FOLDER / f"{module}{SUFFIX}"


def _headers() -> Path:
    return Path(sysconfig.get_paths()["include"])


def say(text: str) -> None:
    """One line of progress to stderr; on a terminal each takes the place of the one before."""
    over = sys.stderr.isatty()
    print(f"\r\033[K  {text}" if over else f"  {text}", end="" if over else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    result = compile_in_place(Path(__file__).parent.parent, told=say)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"brokerscope: not compiled: {result.reason}" if result.reason else f"compiled by {result.compiler}")
    sys.exit(WITHOUT_COMPILER if result.reason == _NO_COMPILER else 1 if result.reason else 0)
