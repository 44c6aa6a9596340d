"""Compiled modules run where they can be loaded and nobody asks for the sources; these run anywhere else."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import dissectors
from dissectors.compiling import build, loading, record
from dissectors.compiling.record import FOLDER, SHARED, SUFFIX
from pipelines.cli import reading
from pipelines.spark import package as archive

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dissectors"
can_compile = pytest.mark.skipif(
    bool(build.obstacle()) or not build.machine_compiler(), reason="there is no C compiler here"
)

SOURCE = """from __future__ import annotations

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.numbers import TWO


@compiled
def doubled(number: cython.longlong) -> cython.longlong:
    return TWO * number


def is_compiled() -> bool:
    return cython.compiled
"""
INIT = """from dissectors.compiling import STATE
from dissectors.compiling.loading import prefer_compiled
prefer_compiled(__path__)
"""
SAY = "import dissectors, dissectors.twice as twice; print(twice.doubled(21), twice.is_compiled(), dissectors.STATE)"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the same name that loads its modules as this one does, and has one that is compiled."""
    package = tmp_path_factory.mktemp("built") / "dissectors"
    shutil.copytree(PACKAGE / "compiling", package / "compiling")
    (package / "__init__.py").write_text(INIT)
    (package / "twice.py").write_text(SOURCE)
    (package / "numbers.py").write_text("TWO = 2\n")
    (package / "other.py").write_text("THREE = 3\n")
    assert build.compile_in_place(package).reason == ""
    return package


@pytest.fixture
def package(built: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(built, tmp_path / "dissectors")


def said(package: Path, code: str = SAY, **environment: str) -> tuple[str, str]:
    """What a program over the package prints: stdout, stderr."""
    inherited = {name: value for name, value in os.environ.items() if name != loading.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=package.parent, env=inherited | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr.strip()


@pytest.mark.skipif(loading.is_forced(), reason="the sources run because the user wants it")
@can_compile
def test_the_modules_are_compiled_where_a_compiler_is() -> None:
    assert str(dissectors.STATE) == "compiled"
    for module in build.compiled_modules(PACKAGE):
        assert (PACKAGE / FOLDER / f"{module}{SUFFIX}").exists()
        loaded = importlib.import_module(f"dissectors.{module.replace('/', '.')}")
        assert loaded.__file__ == str(PACKAGE / FOLDER / f"{module}{SUFFIX}")


def test_what_is_forced_to_run_uncompiled_is_loaded_from_its_source() -> None:
    code = "import dissectors, dissectors.wire.memory as m; print(m.__file__, dissectors.STATE)"
    out, err = said(PACKAGE, code, BROKERSCOPE_UNCOMPILED="1")
    assert out == f"{PACKAGE / 'wire' / 'memory.py'} not compiled: BROKERSCOPE_UNCOMPILED is set"
    assert err == ""


@can_compile
def test_compiled_modules_run_where_they_are_of_these_sources(package: Path) -> None:
    assert said(package) == ("42 True compiled", "")


@can_compile
def test_a_module_without_marks_is_not_compiled(package: Path) -> None:
    assert build.compiled_modules(package) == ["compiling/state", "twice"]  # and not other.py


@can_compile
@pytest.mark.parametrize("changed", ["twice.py", "numbers.py", f"{FOLDER}/twice{SUFFIX}"])
def test_whether_compiled_modules_are_of_these_sources_is_known(package: Path, changed: str) -> None:
    assert record.is_fresh(package)
    (package / "other.py").write_text("THREE = 4\n")
    assert record.is_fresh(package)
    (package / changed).unlink()
    assert not record.is_fresh(package)


@can_compile
def test_importing_leaves_the_finders_of_python_alone_and_prints_nothing(package: Path) -> None:
    code = (
        "import sys; before = list(sys.meta_path), list(sys.path_hooks); import dissectors.twice; "
        "print((sys.meta_path, sys.path_hooks) == before, 'cython' in sys.modules)"
    )
    assert said(package, code) == ("True False", "")
    assert said(package, code, BROKERSCOPE_UNCOMPILED="1") == ("True False", "")


@can_compile
def test_compiled_modules_without_their_record_are_not_used(package: Path) -> None:
    (package / record.NAME).unlink()
    assert said(package) == ("42 False not compiled: it was not compiled", "")


@can_compile
def test_modules_compiled_for_another_platform_give_way_to_their_sources(package: Path) -> None:
    for module in package.rglob(f"*{SUFFIX}"):
        module.write_bytes(b"\x7fELF of another machine")
    assert said(package) == ("42 False not compiled: the compiled modules are of another platform", "")


@can_compile
def test_the_sources_run_without_cython(package: Path) -> None:
    (package / record.NAME).unlink()
    without = f"import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; {SAY}"
    assert said(package, without) == ("42 False not compiled: it was not compiled", "")


@can_compile
def test_only_what_has_changed_is_compiled_again(package: Path) -> None:
    before = (package / FOLDER / f"{SHARED}{SUFFIX}").stat().st_mtime_ns
    (package / "twice.py").write_text(SOURCE.replace("TWO * number", "3 * number"))
    assert not build.compile_in_place(package).reason
    assert said(package) == ("63 True compiled", "")
    assert (package / FOLDER / f"{SHARED}{SUFFIX}").stat().st_mtime_ns == before


@can_compile
@pytest.mark.parametrize(
    ("changed", "text", "result", "again"),
    [
        ("numbers.py", "TWO = 3\n", "63", True),
        ("numbers.py", "TWO = 2  # a later thought\n", "42", False),
        ("other.py", "THREE = 4\n", "42", False),
    ],
)
def test_a_module_is_compiled_again_where_a_constant_of_another_that_it_uses_has_changed(
    package: Path, changed: str, text: str, result: str, again: bool
) -> None:
    before = (package / FOLDER / f"twice{SUFFIX}").stat().st_mtime_ns
    (package / changed).write_text(text)
    assert not build.compile_in_place(package).reason
    assert said(package) == (f"{result} True compiled", "")
    assert ((package / FOLDER / f"twice{SUFFIX}").stat().st_mtime_ns != before) == again


@can_compile
def test_a_module_that_is_no_longer_compiled_leaves_nothing_behind(package: Path) -> None:
    (package / "twice.py").write_text(SOURCE.replace("@compiled\n", ""))
    assert not build.compile_in_place(package).reason
    assert said(package) == ("42 False compiled", "")


def test_each_module_is_translated_by_one_process() -> None:
    modules = [SHARED, *build.compiled_modules(PACKAGE)]
    shares = build._shares(modules, PACKAGE)
    assert sorted(module for share in shares for module in share) == sorted(modules)
    assert shares[0] == [SHARED]
    assert len(shares) <= 1 + (os.cpu_count() or 1)


@can_compile
def test_an_error_of_the_compiler_is_one_line_and_the_sources_run(package: Path) -> None:
    with (package / "twice.py").open("a") as file:
        file.write("\n\n@compiled\ndef wrong(number: Annotated[int, 'no such type']) -> None: ...\n")
    reason = build.compile_in_place(package).reason
    assert reason.startswith("twice could not be compiled: ")
    assert said(package) == (f"42 False not compiled: {reason}", "")


@can_compile
def test_where_no_compiler_is_the_sources_run(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "machine_compiler", list)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    assert build.compile_in_place(package).reason == "no C compiler was found when it was installed"
    assert said(package) == ("42 False not compiled: no C compiler was found when it was installed", "")


def test_builds_of_distributions_take_nothing_but_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (loading.VARIABLE, build.VARIABLE, "SOURCE_DATE_EPOCH"):
        monkeypatch.delenv(name, raising=False)
    assert build.allowed() == build.ANY
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1790000000")
    assert build.allowed() == build.MACHINE
    monkeypatch.setenv(build.VARIABLE, "any")
    assert build.allowed() == build.ANY
    monkeypatch.setenv(loading.VARIABLE, "1")
    assert build.allowed() == build.NONE
    monkeypatch.setenv(loading.VARIABLE, "0")
    monkeypatch.setenv(build.VARIABLE, "gcc")
    with pytest.raises(build.CompilerError, match="may be any, machine or none"):
        build.allowed()


@pytest.mark.parametrize(("by", "reason"), [(build.MACHINE, "no C compiler was found"), (build.NONE, "was asked for")])
def test_a_compiler_from_a_wheel_is_used_only_where_any_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, reason: str
) -> None:
    monkeypatch.setattr(build, "machine_compiler", list)
    monkeypatch.setattr(build, "find_spec", lambda name: "ziglang is installed")
    assert reason in build.compile_in_place(tmp_path, by).reason


@can_compile
def test_two_builds_of_the_same_sources_are_the_same_to_the_byte(built: Path, tmp_path: Path) -> None:
    again = tmp_path / "elsewhere" / "dissectors"
    shutil.copytree(built, again, ignore=shutil.ignore_patterns(FOLDER))
    assert not build.compile_in_place(again).reason
    for module in (SHARED, "twice"):
        ours, theirs = (package / FOLDER / f"{module}{SUFFIX}" for package in (built, again))
        assert ours.read_bytes() == theirs.read_bytes(), module


@pytest.mark.parametrize("text", ["", "\0\xff", "compiled by cc\nno-digest"])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / record.NAME).write_bytes(text.encode("latin-1"))
    assert record.read(str(tmp_path)) is None


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for one in (
        record.BuildRecord("", "why not", {}, {}),
        record.BuildRecord("cc", "", {"a.py": "00", "b c.pxd": "01"}, {"a": "02"}),
    ):
        (tmp_path / record.NAME).write_text(record.text(one))
        assert record.read(str(tmp_path)) == one


@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_archive_for_workers_brings_what_is_compiled_of_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    monkeypatch.setattr(archive, "STATE", loading.State("" if is_compiled else "out of date"))
    with (tmp_path / "workers.tar.gz").open("wb") as stream:
        archive.write(stream)
    with tarfile.open(tmp_path / "workers.tar.gz") as written:
        names = set(written.getnames())
        written.extractall(tmp_path, filter="data")
    assert "dissectors/wire/memory.py" in names
    built = {name for name in names if name.startswith(f"dissectors/{FOLDER}/")}
    assert bool(built) is (is_compiled and (PACKAGE / record.NAME).exists())
    out, _ = said(tmp_path / "dissectors", "import dissectors.wire.memory as m; print(m.crc32c(b'123456789', 0, 9))")
    assert int(out) == 0xE3069283


def test_the_version_says_whether_it_is_compiled() -> None:
    out, _ = said(PACKAGE, "from pipelines.cli import app; app(['--version'])", BROKERSCOPE_UNCOMPILED="1")
    assert out.endswith("(not compiled: BROKERSCOPE_UNCOMPILED is set)")


def test_of_a_large_capture_it_is_said_that_the_code_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(loading.VARIABLE, raising=False)
    monkeypatch.setattr(dissectors, "STATE", loading.State("no C compiler was found when it was installed"))
    (tmp_path / "small.pcap").write_bytes(b"small")
    with (tmp_path / "large.pcap").open("wb") as large:
        large.truncate(reading.LARGE_BYTES)
    for name in ("small.pcap", "large.pcap"):
        reading.Reading().say_if_slow([str(tmp_path / name)])
    reading.Reading(quiet=True).say_if_slow([str(tmp_path / "large.pcap")])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "no C compiler was found" in lines[0]
    assert "make compile" in lines[0]


@can_compile
def test_compiling_says_how_far_it_is(package: Path) -> None:
    told: list[str] = []
    (package / "twice.py").write_text(SOURCE.replace("TWO * number", "4 * number"))
    assert not build.compile_in_place(package, told=told.append).reason
    assert any(text.startswith("translated ") for text in told)
    assert told[-1].startswith("compiled ")
    assert " of " in told[-1]
