"""Compile modules in place: python -m dissectors.compiling.build

Every module that a .pxd declares becomes one file of CPython's stable interface, which any Python from 3.11 on loads.
Cython translates the modules of a folder in one process, then the C compiler compiles each. Only modules are compiled
again whose source has changed, or a .pxd that it needs. Cython's own functions are compiled once, in compiling/shared,
instead of once a module.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from dissectors.compiling import record
from dissectors.compiling.record import SHARED, SUFFIX, BuildRecord

COMPILERS = ("cc", "gcc", "clang")
_CIMPORT = re.compile(r"^from (\S+) cimport", re.M)
_DECLARES_CODE = re.compile(r"^(cdef class |c?p?def [^(\n]+\()", re.M)  # others are lists of constants
_ERROR = re.compile(r"^(?!performance hint|warning).*:\d+:\d+: (?!warning)")  # file:line:column: what is wrong
_DIRECTIVES = ("boundscheck=True", "wraparound=False", "cdivision=True", "initializedcheck=False")
# -O1: what is hot is loops that Cython wrote out already; -O3 makes none faster and takes twice as long.
_FLAGS = ("-O1", "-g0", "-fPIC", "-fwrapv", "-w", "-DNDEBUG", "-DPy_LIMITED_API=0x030B0000")
_LINK = ("-bundle", "-undefined", "dynamic_lookup") if sys.platform == "darwin" else ("-shared",)
_NOT_WANTED = "BROKERSCOPE_UNCOMPILED was set when it was installed"
_NO_COMPILER = "no C compiler was found when it was installed"


class CompilerError(Exception):
    """A module could not be compiled. The text says which, and what the compiler said first."""


def machine_compiler() -> list[str]:
    """The command of this machine's C compiler: $CC or one that is installed; empty where there is none."""
    if named := os.environ.get("CC"):
        return shlex.split(named)
    return next(([name] for name in COMPILERS if shutil.which(name)), [])


def obstacle() -> str:
    """Why no C compiler could make modules for this Python; "" where one can."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "compiled modules need CPython with its global lock"
    if os.name != "posix":
        return "modules are compiled on Linux and macOS only"
    if not (_headers() / "Python.h").exists():
        return "Python.h was missing when it was installed (Debian's package: python3-dev)"
    return ""


def compile_in_place(package: Path, *, wanted: bool = True) -> BuildRecord:
    """Compile the modules of the package in a folder, and write the record. Where nothing is compiled it says why."""
    compiler = machine_compiler()
    if not compiler and find_spec("ziglang") is not None:
        compiler = [sys.executable, "-m", "ziglang", "cc"]
    reason = obstacle() if wanted else _NOT_WANTED
    reason = reason or ("" if compiler else _NO_COMPILER)
    done = BuildRecord("", reason, {}) if reason else _compile(package, compiler)
    (package / record.NAME).write_text(record.text(done))
    return done


def compiled_modules(package: Path) -> list[str]:
    """The modules that are compiled, as paths relative to the package without suffix."""
    return sorted(
        str(pxd.relative_to(package).with_suffix(""))
        for pxd in package.rglob("*.pxd")
        if pxd.with_suffix(".py").exists() and _DECLARES_CODE.search(pxd.read_text())
    )


def _compile(package: Path, compiler: list[str]) -> BuildRecord:
    modules = compiled_modules(package)
    declarations = sorted(path for suffix in ("pxd", "h") for path in package.rglob(f"*.{suffix}"))
    sources = [*declarations, *(package / f"{module}.py" for module in modules)]
    how = f"Cython {version('cython')} {' '.join(_DIRECTIVES)}, {shlex.join([*compiler, *_flags()])}"
    made = BuildRecord(how, "", {str(path.relative_to(package)): record.digest(str(path)) for path in sources})
    before = record.read(str(package))
    (package / record.NAME).unlink(missing_ok=True)  # until all is compiled, nothing is
    wanted = {package / f"{module}{SUFFIX}" for module in (*modules, SHARED)}
    for leftover in set(package.rglob(f"*{SUFFIX}")) - wanted:
        leftover.unlink()
    changed = [name for name in (SHARED, *modules) if not _is_current(package, name, before, made)]
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as workers:
        try:
            translated = workers.map(partial(_translate, package, Path(folder)), _by_folder(changed))
            written = [pair for pairs in translated for pair in pairs]
            list(workers.map(lambda pair: _compile_one(package, compiler, *pair), written))
        except CompilerError as error:
            return BuildRecord("", str(error), {})
    return made


def _is_current(package: Path, module: str, before: BuildRecord | None, now: BuildRecord) -> bool:
    """Whether a module was compiled before, in the same way and of the same sources; `shared` is Cython's alone."""
    if before is None or before.compiler != now.compiler or not (package / f"{module}{SUFFIX}").exists():
        return False
    if module == SHARED:
        return True
    headers = {path for path in now.digests if path.endswith(".h")}
    sources = {f"{module}.py", *_declarations(package, module), *headers}
    return all(before.digests.get(path) == now.digests.get(path) for path in sources)


def _declarations(package: Path, module: str) -> set[str]:
    """The .pxd files that a module needs, as paths relative to the package: its own, and those that these cimport."""
    found: set[str] = set()
    waiting = [f"{module}.pxd"]
    while waiting:
        path = waiting.pop()
        if path not in found and (package / path).exists():
            found.add(path)
            names = _CIMPORT.findall((package / path).read_text())
            waiting += [f"{name.partition('.')[2].replace('.', '/')}.pxd" for name in names]
    return found


def _by_folder(modules: Sequence[str]) -> list[list[str]]:
    """Modules that one process of Cython translates, most first; `shared` alone."""
    own = [[module] for module in modules if module == SHARED]
    others = sorted((module for module in modules if module != SHARED), key=_folder)
    return own + sorted((list(some) for _, some in groupby(others, _folder)), key=len, reverse=True)


def _folder(module: str) -> str:
    return str(Path(module).parent).removeprefix(".")


def _translate(package: Path, folder: Path, modules: Sequence[str]) -> list[tuple[str, Path]]:
    """Translate modules of one folder to C: (module, its C file) of each."""
    cython = [sys.executable, "-m", "cython"]
    target = folder / (modules[0] if modules[0] == SHARED else _folder(modules[0]) or package.name)
    target.mkdir(parents=True)
    written = [(module, target / f"{Path(module).name}.c") for module in modules]
    if modules[0] == SHARED:
        _run(SHARED, [*cython, f"--generate-shared={written[0][1]}"], package.parent)
        return written
    directives = [word for directive in _DIRECTIVES for word in ("-X", directive)]
    shared = f"--shared={package.name}.{SHARED.replace('/', '.')}"
    sources = [f"{package.name}/{module}.py" for module in modules]
    what = modules[0] if len(modules) == 1 else f"{_folder(modules[0]) or package.name} ({len(modules)} modules)"
    _run(what, [*cython, "-3", *directives, shared, "-o", str(target), *sources], package.parent)
    return written


def _compile_one(package: Path, compiler: Sequence[str], module: str, code: Path) -> None:
    """Compile the C file of one module, and put it in its place when it is whole."""
    made = code.with_suffix(".so")
    include = [f"-I{_headers()}", f"-I{package}", f"-I{(package / module).parent}"]
    _run(module, [*compiler, *_flags(), *_LINK, *include, str(code), "-o", str(made)], code.parent)
    target = package / f"{module}{SUFFIX}"
    shutil.copy(made, beside := target.with_suffix(".new"))
    beside.replace(target)  # a process that runs it keeps the old file


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


def _headers() -> Path:
    return Path(sysconfig.get_paths()["include"])


if __name__ == "__main__":
    result = compile_in_place(Path(__file__).parent.parent)
    print(f"brokerscope: not compiled: {result.reason}" if result.reason else f"compiled by {result.compiler}")
    sys.exit(1 if result.reason else 0)
