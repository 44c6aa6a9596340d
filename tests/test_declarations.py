"""What .pxd files declare to the compiler is what the .py beside them says to everybody else."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dissectors.rows import fields

PACKAGE = Path(__file__).parent.parent / "dissectors"
_ENUM = re.compile(r"^    ([A-Z][A-Z0-9_]*) = (-?\d+)$", re.M)
_RENAMED = re.compile(r"const [\w ]+ ([A-Z][A-Z0-9_]*) \"([A-Z0-9_]+)\"")
_DEFINE = re.compile(r"#define ([A-Z][A-Z0-9_]*) (.+)")


def declared(path: Path) -> dict[str, int]:
    """The constants of a .pxd: of enums, and 64-bit ones."""
    text = path.read_text()
    found = {name: int(value) for name, value in _ENUM.findall(text)}
    in_python = {c: python for python, c in _RENAMED.findall(text)}
    for name, value in _DEFINE.findall(text):
        found[in_python.get(name, name)] = eval(re.sub(r"U?LL\b", "", value))  # an expression of our own file
    return found


@cache
def said(path: Path) -> dict[str, Any]:
    """The constants that a .py assigns or imports, for itself or where it is not compiled."""
    names: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        inner = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "not cython.compiled" else [node]
        for each in inner:
            if isinstance(each, ast.ImportFrom) and (each.module or "").startswith("dissectors."):
                names |= _imported(each)
                if each.module == "dissectors.capture":  # a module, of which constants are taken by name
                    exec(compile(ast.Module([each], []), str(path), "exec"), {}, names)
            elif isinstance(each, ast.Assign) and all(map(_is_constant, each.targets)):
                with suppress(NameError):  # it is made of other names: no number
                    exec(compile(ast.Module([each], []), str(path), "exec"), {"range": range}, names)
    return names


def _imported(node: ast.ImportFrom) -> dict[str, Any]:
    """The constants that an import brings from a module of ours."""
    path = PACKAGE.parent / f"{(node.module or '').replace('.', '/')}.py"
    wanted = {alias.name: alias.asname or alias.name for alias in node.names if alias.name.isupper()}
    known = dict(said(path)) if wanted and path.exists() else {}
    for name in wanted.keys() - known.keys():  # it is made of other names: a module that is not compiled has it
        with suppress(AttributeError):
            known[name] = getattr(import_module(node.module or ""), name)
    return {wanted[name]: value for name, value in known.items() if name in wanted}


def _is_constant(target: ast.expr) -> bool:
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(each, ast.Name) and each.id.isupper() for each in targets)


WRITTEN = (PACKAGE / "rows" / "fields.pxd", PACKAGE / "pulsar" / "fields.pxd")  # by programs
WITH_CONSTANTS = [path for path in sorted(PACKAGE.rglob("*.pxd")) if declared(path) and path not in WRITTEN]


@pytest.mark.parametrize("path", WITH_CONSTANTS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_constants_of_a_declaration_are_those_of_the_module(path: Path) -> None:
    known = said(path.with_suffix(".py"))
    assert {name: known.get(name) for name in declared(path)} == declared(path)


def test_the_fields_of_rows_are_declared_as_they_are() -> None:
    assert WRITTEN[0].read_text() == fields.declaration()


def test_there_are_declarations_with_constants() -> None:
    assert len(WITH_CONSTANTS) > 3
