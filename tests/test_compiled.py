"""Compiled modules run only where they are of the sources that lie beside them; anywhere else the sources do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import dissectors
from dissectors.compiling import build, loading, record
from dissectors.compiling.record import SHARED, SUFFIX
from pipelines.cli import reading
from pipelines.spark import package as archive

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "dissectors"
can_compile = pytest.mark.skipif(
    bool(build.obstacle()) or not build.machine_compiler(), reason="there is no C compiler here"
)

SOURCE = """from __future__ import annotations

import cython

from dissectors.compiling.marks import compiled
from dissectors.numbers import TWO


@compiled
def doubled(number: cython.longlong) -> cython.longlong:
    return TWO * number


def is_compiled() -> bool:
    return cython.compiled
"""
SAY = "import dissectors, dissectors.twice as twice; print(twice.doubled(21), twice.is_compiled(), dissectors.STATE)"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of the same name that loads its modules as this one does, and has one that is compiled."""
    package = tmp_path_factory.mktemp("built") / "dissectors"
    shutil.copytree(PACKAGE / "compiling", package / "compiling")  # with what all modules share, where it is compiled
    (package / "__init__.py").write_text("from dissectors.compiling import loading\nSTATE = loading.prepare()\n")
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
        assert (PACKAGE / f"{module}{SUFFIX}").exists()


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
@pytest.mark.parametrize("changed", ["twice.py", "numbers.py"])
def test_a_compiled_module_older_than_its_source_is_not_used_and_one_line_says_so(package: Path, changed: str) -> None:
    with (package / changed).open("a") as file:
        file.write("# a later thought\n")
    out, err = said(package)
    assert out == "42 False not compiled: the compiled modules are older than their sources"
    assert err.startswith("brokerscope: the compiled modules are older than their sources")
    assert "make compile" in err
    assert err.count("\n") == 0


@can_compile
@pytest.mark.parametrize("lost", [f"twice{SUFFIX}", f"{SHARED}{SUFFIX}"])
def test_where_a_compiled_module_is_lost_all_sources_run(package: Path, lost: str) -> None:
    (package / lost).unlink()
    assert said(package)[0] == "42 False not compiled: the compiled modules are older than their sources"


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
    without = f"import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; {SAY}; print(twice.cython)"
    assert said(package, without)[0] == "42 False not compiled: it was not compiled\n<module 'cython'>"


@can_compile
def test_only_what_has_changed_is_compiled_again(package: Path) -> None:
    before = (package / f"{SHARED}{SUFFIX}").stat().st_mtime_ns
    (package / "twice.py").write_text(SOURCE.replace("TWO * number", "3 * number"))
    assert not build.compile_in_place(package).reason
    assert said(package) == ("63 True compiled", "")
    assert (package / f"{SHARED}{SUFFIX}").stat().st_mtime_ns == before


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
    before = (package / f"twice{SUFFIX}").stat().st_mtime_ns
    (package / changed).write_text(text)
    assert not build.compile_in_place(package).reason
    assert said(package) == (f"{result} True compiled", "")
    assert ((package / f"twice{SUFFIX}").stat().st_mtime_ns != before) == again


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


@pytest.mark.parametrize("text", ["", "\0\xff", "compiled by cc\nno-digest"])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "compiling").mkdir()
    (tmp_path / record.NAME).write_bytes(text.encode("latin-1"))
    assert record.read(str(tmp_path)) is None


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "compiling").mkdir()
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
    built = {name for name in names if name.endswith((SUFFIX, record.NAME))}
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
