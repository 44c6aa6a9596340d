"""What a process sets before it loads anything."""

import subprocess
import sys

import pytest

import dissectors


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="about glibc")
def test_freed_memory_is_not_fetched_from_the_system_again() -> None:
    work = """
import resource
def work():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [bytearray(b"x" * (12 << 20)) for _ in range(2)]
        del blocks
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
    usual = int(run(work + "work()"))
    kept = int(run(work + "from pipelines.process import prepare\nprepare()\nwork()"))
    pages_of_one_round = 3 * (12 << 20) // 4096
    if usual < 2 * pages_of_one_round:
        pytest.skip("this C library keeps freed memory by itself")
    assert kept < usual / 2


def test_what_a_user_sets_is_left_as_it_is() -> None:
    program = "import os\nfrom pipelines.process import prepare\nprepare()\nprint(os.environ['OPENBLAS_NUM_THREADS'])"
    assert run("import os\nos.environ['OPENBLAS_NUM_THREADS'] = '3'\n" + program) == "3"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_list_of_commands_needs_no_arrays(arguments: list[str]) -> None:
    program = f"""
import atexit, sys
from unittest import mock
sys.argv = ["brokerscope", *{arguments!r}]
import pipelines.cli
try:
    with mock.patch("os._exit", sys.exit):
        pipelines.cli.main()
except SystemExit:
    pass
print("loaded", sorted({{"numpy", "pyarrow"}} & set(sys.modules)))
"""
    assert run(program).splitlines()[-1] == "loaded []"


def test_every_public_name_is_there() -> None:
    for name in dissectors.__all__:
        assert getattr(dissectors, name).__name__ == name


def test_the_package_loads_no_library_before_something_of_it_is_used() -> None:
    program = "import sys, brokerscope\nprint('numpy' in sys.modules, brokerscope.dissect.__module__)"
    assert run(program) == "False dissectors.api"
