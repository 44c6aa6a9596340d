"""What the compiler reads, of what people read: a .pxd of each compiled module, and its .py without what that says.

A module is compiled if it marks a class or a function with `compiled` (marks.py). What is said to the compiler follows
from the syntax tree; nothing is imported.

    annotation in a marked class            attribute: a C value, or an object of a type that the compiler knows;
                                            `= 0` and `= None` say what it begins as
    marked function or method               C function; its types are those of the annotations
    whole number in capitals                C constant, wherever in the package it comes from
    other name that functions use           C variable of the module, which no dictionary is asked for
    import of what is marked elsewhere      cimport

    annotation                              C type
    cython.longlong, cython.bint …          that type
    str, bytes, list, dict, tuple, set …    that type; None is of each
    a marked class                          that class
    Annotated[…, "long long[::1]"]          what the text says; also by its name, as `Numbers` of wire/arrays.py
    anything else                           object

The .py that the compiler reads has every statement on the line where people find it. Behind its end stand the calls of
`carried` (state.py), with the annotations of the classes that are marked so.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

MARK, CARRIED, CYTHON = "compiled", "carried", "cython"
_C_TYPES = {
    "int": "int", "uint": "unsigned int", "longlong": "long long", "ulonglong": "unsigned long long",
    "Py_ssize_t": "Py_ssize_t", "bint": "bint", "double": "double",
}  # fmt: skip
_BUILTINS = ("str", "bytes", "bytearray", "list", "dict", "tuple", "set", "frozenset")
_LITERALS = {
    ast.Tuple: "tuple", ast.Dict: "dict", ast.List: "list", ast.Set: "set", ast.JoinedStr: "str",
    ast.DictComp: "dict", ast.ListComp: "list", ast.SetComp: "set",
}  # fmt: skip
_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_UINT64 = range(1 << 64)
_ARITHMETIC = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant, ast.Name, ast.Load)


class DeclarationError(Exception):
    """A mark or an annotation of a source cannot be compiled. The text says where, and why."""


class Import(NamedTuple):
    """A name that a module imports from one of the package."""

    module: str
    name: str


class Mark(NamedTuple):
    """The arguments of a mark."""

    freelist: int = 0
    python: bool = True


class Module:
    """One source: what it defines at its top level, and what it imports."""

    def __init__(self, package: Package, name: str, path: Path) -> None:
        self.package = package
        self.name = name
        self.path = path
        self.text = path.read_text()
        self.tree = ast.parse(self.text)
        self.imports: dict[str, Import] = {}
        self.classes: dict[str, ast.ClassDef] = {}  # that are marked
        self.functions: dict[str, ast.FunctionDef] = {}  # that are marked
        self.values: dict[str, ast.expr] = {}  # names that are assigned once, but parts of what is unpacked
        self.annotations: dict[str, ast.expr] = {}
        self.assigned: dict[ast.stmt, list[str]] = {}  # statements that give names their only value
        seen: list[str] = []
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and package.holds(node.module or ""):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = Import(node.module or "", alias.name)
            elif isinstance(node, ast.ClassDef) and mark_of(node):
                self.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef) and mark_of(node):
                self.functions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
                self._note_assignment(node)
                seen += self.assigned[node]
        for inner in ast.walk(self.tree):
            seen += inner.names if isinstance(inner, ast.Global) else []
        for name in {name for name in seen if seen.count(name) > 1}:
            self.values.pop(name, None)
            self.assigned = {node: [n for n in names if n != name] for node, names in self.assigned.items()}

    def _note_assignment(self, node: ast.Assign | ast.AnnAssign) -> None:
        """Note the names that a statement of the top level assigns, and their values where they can be told apart."""
        self.assigned[node] = []
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            names = [target] if isinstance(target, ast.Name) else getattr(target, "elts", [])
            if not all(isinstance(name, ast.Name) for name in names):
                continue
            self.assigned[node] += [name.id for name in names]
            values = [node.value] if isinstance(target, ast.Name) else self._unpacked(node.value, len(names))
            self.values |= {name.id: value for name, value in zip(names, values) if value is not None}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self.annotations[node.target.id] = node.annotation

    def _unpacked(self, value: ast.expr | None, count: int) -> Iterable[ast.expr | None]:
        """The values that so many names get: of a tuple, of a range of literal numbers, or of an enumeration."""
        if isinstance(value, ast.Tuple):
            return value.elts
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "range":
            return [ast.parse(str(number), mode="eval").body for number in range(*map(ast.literal_eval, value.args))]
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef) and isinstance(value, ast.Name) and node.name == value.id:
                return [each.value for each in node.body if isinstance(each, ast.Assign)]
        return [None] * count

    @property
    def is_compiled(self) -> bool:
        """Whether it marks anything."""
        return bool(self.classes or self.functions)

    def constant(self, name: str) -> int | None:
        """The whole number that a name in capitals stands for; None where it is no such constant."""
        if not name.isupper():
            return None
        if name in self.imports:
            found = self.package.origin(self, name)
            number = found[0].constant(found[1]) if found else None
            if found and number is not None:
                self.package.told.add(found[0].path)
            return number
        value = self.values.get(name)
        if value is None or not all(isinstance(node, _ARITHMETIC) for node in ast.walk(value)):
            return None
        used = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
        known = {each: self.constant(each) for each in used}
        if None in known.values():
            return None
        number = eval(compile(ast.Expression(value), self.name, "eval"), {"__builtins__": {}}, known)
        return number if type(number) is int and (number in _INT64 or number in _UINT64) else None

    def type_of(self, name: str) -> str:
        """The C type of a variable of the top level."""
        if name in self.imports:
            found = self.package.origin(self, name)
            kind = found[0].type_of(found[1]) if found else "object"
            if found and kind != "object":
                self.package.told.add(found[0].path)
            return kind
        if name in self.annotations:
            return self.c_type(self.annotations[name])
        value = self.values.get(name)
        if isinstance(value, ast.Constant):
            kind = type(value.value).__name__
            return kind if kind in ("str", "bytes") else "object"
        if isinstance(value, ast.Name) and value.id != name and (value.id in self.values or value.id in self.imports):
            return self.type_of(value.id)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
            called = value.func.id
            return called if called in _BUILTINS or self.class_of(called) else "object"
        return next((name for kind, name in _LITERALS.items() if isinstance(value, kind)), "object")

    def class_of(self, name: str) -> Module | None:
        """The module of a marked class that a name stands for."""
        found = self.package.origin(self, name)
        return found[0] if found and found[1] in found[0].classes else None

    # --- types ---

    def c_type(self, annotation: ast.expr | None) -> str:
        """The C type of an annotation; "object" where the compiler knows none."""
        if annotation is None:
            return "object"
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return self.c_type(ast.parse(annotation.value, mode="eval").body)
        if isinstance(annotation, ast.BinOp):  # X | None
            parts = [part for part in _union(annotation) if not (isinstance(part, ast.Constant) and not part.value)]
            types = {self.c_type(part) for part in parts}
            known = types.pop() if len(types) == 1 else "object"
            return known if known in _BUILTINS or self.class_of(known) else "object"
        if isinstance(annotation, ast.Attribute):
            is_cython = isinstance(annotation.value, ast.Name) and annotation.value.id == CYTHON
            return _C_TYPES[annotation.attr] if is_cython else "object"
        if isinstance(annotation, ast.Subscript):
            of = annotation.value
            if isinstance(of, ast.Name) and of.id == "Derived":
                return self.c_type(annotation.slice)
            if isinstance(of, ast.Name) and of.id == "Annotated" and isinstance(annotation.slice, ast.Tuple):
                return _text(annotation.slice.elts[1])
            if isinstance(of, ast.Name) and of.id == "list" and isinstance(annotation.slice, ast.Name):
                held = annotation.slice.id
                return f"list[{held}]" if self.class_of(held) else "list"
            return of.id if isinstance(of, ast.Name) and of.id in _BUILTINS else "object"
        if isinstance(annotation, ast.Name):
            if annotation.id in _BUILTINS or self.class_of(annotation.id):
                return annotation.id
            found = self.package.origin(self, annotation.id)
            value = found[0].values.get(found[1]) if found else None
            if found and isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Annotated":
                self.package.told.add(found[0].path)
                return found[0].c_type(value)
            if found and isinstance(value, ast.Subscript):  # Name = tuple[…]
                return found[0].c_type(value)
        return "object"

    # --- what the compiler reads ---

    @cached_property
    def used(self) -> set[str]:
        """Names that its functions and methods use."""
        tops = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        methods = [node for each in self.tree.body if isinstance(each, ast.ClassDef) for node in each.body]
        bodies = [*tops, *(node for node in methods if isinstance(node, ast.FunctionDef))]
        return {name for body in bodies for part in (*body.body, *body.args.defaults) for name in _names(part)}

    @cached_property
    def cimports(self) -> dict[str, list[str]]:
        """Module -> what is imported of it that its .pxd declares."""
        found: dict[str, list[str]] = {}
        for shown, (module, name) in self.imports.items():
            if (inner := self.package.declared(f"{module}.{name}")) is not None:
                found.setdefault(inner, []).append(shown)
            elif self.package.declared(module) and self.constant(shown) is None:
                found.setdefault(module, []).append(f"{name} as {shown}" if name != shown else name)
            elif (origin := self.package.origin(self, shown)) and origin[0].declares(origin[1]):
                name = origin[1]
                found.setdefault(origin[0].name, []).append(f"{name} as {shown}" if name != shown else name)
        return found

    def declares(self, name: str) -> bool:
        """Whether its .pxd declares a class or function of this name."""
        return name in self.classes or name in self.functions

    @cached_property
    def constants(self) -> dict[str, int]:
        """The C constants that functions use, and those that are assigned together with them."""
        own = [name for names in self.assigned.values() if self.used.intersection(names) for name in names]
        names = [*own, *(name for name in self.imports if name in self.used)]
        return {name: number for name in names if (number := self.constant(name)) is not None}

    @cached_property
    def variables(self) -> dict[str, str]:
        """The C variables, with their types: names that functions use and that are assigned or imported once."""
        declared = {each.partition(" as ")[2] or each for names in self.cimports.values() for each in names}
        plain = {name for names in self.assigned.values() for name in names} | set(self.imports) | self._foreign
        methods = {
            each.name for node in self.classes.values() for each in node.body if isinstance(each, ast.FunctionDef)
        }
        names = sorted((plain & self.used) - declared - methods - self.constants.keys() - {CYTHON, MARK})
        types = {name: self.type_of(name) for name in names}
        return {name: kind if _is_known(kind) or self.class_of(kind) else "object" for name, kind in types.items()}

    @cached_property
    def _foreign(self) -> set[str]:
        """Names that are imported from outside of the package."""
        nodes = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        own = set(self.imports)
        return {(alias.asname or alias.name).split(".")[0] for node in nodes for alias in node.names} - own

    def declaration(self) -> str:
        """The .pxd."""
        lines = ["cimport cython"]
        for module, names in sorted(self.cimports.items()):
            above, _, last = module.rpartition(".")
            whole = [name for name in names if self.package.is_declared_module(self.imports.get(name))]
            lines += [f"from {above} cimport {last}" + (f" as {name}" if name != last else "") for name in whole]
            if rest := [name for name in names if name not in whole]:
                lines.append(f"from {module} cimport {', '.join(rest)}")
        small = {name: number for name, number in self.constants.items() if number in _INT32}
        lines += ["cdef enum:", *(f"    {name} = {number}" for name, number in small.items())] if small else []
        large = {name: number for name, number in self.constants.items() if number not in _INT32}
        lines += ["cdef extern from *:"] if large else []
        for name, number in large.items():
            kind, suffix = ("long long", "LL") if number in _INT64 else ("unsigned long long", "ULL")
            value = f"({number + 1}LL - 1)" if number == _INT64[0] else f"({number}{suffix})"
            lines.append(f'    const {kind} {name} "{value}"')
        lines += [f"cdef {kind} {name}" for name, kind in self.variables.items()]
        for each in self.classes.values():
            lines += self._class(each)
        for function in self.functions.values():
            lines += self._function(function, "")
        return "\n".join([*lines, ""])

    def _class(self, node: ast.ClassDef) -> Iterator[str]:
        mark = mark_of(node)
        if _is_final(node):
            yield "@cython.final"
        if mark and mark.freelist:
            yield f"@cython.freelist({mark.freelist})"
        bases = [ast.unparse(base) for base in node.bases if self.class_of(ast.unparse(base))]
        yield f"cdef class {node.name}" + (f"({', '.join(bases)})" if bases else "") + ":"
        body = [f"    {line}" for line in self._members(node)]
        yield from body or ["    pass"]

    def _members(self, node: ast.ClassDef) -> Iterator[str]:
        is_open = not _is_final(node)
        inherited = set(self._inherited(node))
        for name, annotation in attributes(node).items():
            kind = self.c_type(annotation.annotation)
            if name in inherited:  # it is only said again, for mypy
                continue
            self._check_default(annotation, kind)
            if "[" not in kind or kind.startswith("list["):
                yield f"cdef public {kind} {name}"
            elif ":" in kind:
                yield f"cdef {'' if name.startswith('_') else 'readonly '}{kind} {name}"
            else:
                item, _, size = kind.partition("[")
                yield f"cdef public {item} {name}[{size}"
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and mark_of(method):
                yield from self._function(method, "self", is_open)

    def _check_default(self, annotation: ast.AnnAssign, kind: str) -> None:
        """A new object is all zeros: its numbers begin as 0, its other attributes as None."""
        value = annotation.value
        begins: tuple[object, ...] = (0, False) if kind in _C_TYPES.values() else (None,)
        if value is not None and not (isinstance(value, ast.Constant) and value.value in begins):
            text = f"{ast.unparse(annotation)}: it begins as {begins[0]}; __init__ may set it"
            raise DeclarationError(f"{self.path}:{annotation.lineno}: {text}")

    def _inherited(self, node: ast.ClassDef) -> Iterator[str]:
        """The attributes of the marked classes that a class is derived from."""
        for base in map(ast.unparse, node.bases):
            if (module := self.class_of(base)) and (origin := self.package.origin(self, base)):
                above = module.classes[origin[1]]
                yield from attributes(above)
                yield from module._inherited(above)

    def _function(self, node: ast.FunctionDef, first: str, is_open: bool = False) -> Iterator[str]:
        mark = mark_of(node)
        arguments = node.args.args[1:] if first else node.args.args
        if node.args.kwonlyargs or node.args.vararg or node.args.kwarg:
            raise DeclarationError(f"{self.path}:{node.lineno}: {node.name} takes arguments that C functions cannot")
        required = len(arguments) - len(node.args.defaults)
        words = [first] if first else []
        for i, argument in enumerate(arguments):
            words.append(f"{self.c_type(argument.annotation)} {argument.arg}{'=*' if i >= required else ''}")
        views = {
            target.target.id: kind
            for target in ast.walk(node)
            if isinstance(target, ast.AnnAssign) and isinstance(target.target, ast.Name)
            if any(sign in (kind := self.c_type(target.annotation)) for sign in (":", "*"))
        }
        if views:
            yield f"@cython.locals({', '.join(f'{name}={kind!r}' for name, kind in views.items())})"
        kind = "cpdef" if mark and mark.python and not node.name.startswith("_") else "cdef"
        result = self.c_type(node.returns)
        # without a value that stands for an error, each caller would ask Python for one after each call
        error = " except -1" if result == "bint" else " except? -1" if result in _C_TYPES.values() else ""
        if _gives_nothing(node) and (kind == "cdef" or not is_open):  # what Python overrides gives None
            result, error = "int", " except -1"
        yield f"{kind} {result} {node.name}({', '.join(words)}){error}"

    def source(self) -> str:
        """The .py without what the .pxd says. Python finds constants and variables in the module's dictionary."""
        lines = self.text.split("\n")
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module != "__future__":
                self._replace_import(lines, node)
            elif node in self.assigned:
                self._replace_assignment(lines, node)
            elif isinstance(node, ast.ClassDef) and node.name in self.classes:
                _blank_decorators(lines, node)
                for annotation in attributes(node).values():
                    _blank(lines, annotation)
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and mark_of(method):
                        _strip(lines, method)
            elif isinstance(node, ast.FunctionDef) and node.name in self.functions:
                _strip(lines, node)
        carried = [node for node in self.classes.values() if _is_marked(node, CARRIED)]
        return "\n".join([*lines, *map(self._registration, carried)])

    def _registration(self, node: ast.ClassDef) -> str:
        """The call of `carried`, with the annotations that stand in the class no more."""
        for base in node.bases:
            origin = self.package.origin(self, ast.unparse(base))
            above = origin and origin[0].classes.get(origin[1])
            if above and attributes(above) and not _is_marked(above, CARRIED):
                text = f"{node.name} is carried, and its base {above.name} is not"
                raise DeclarationError(f"{self.path}:{node.lineno}: {text}")
        types = {name: ast.unparse(each.annotation) for name, each in attributes(node).items()}
        for name, each in attributes(node).items():
            if ":" in self.c_type(each.annotation) and not types[name].startswith("Derived"):
                text = f"{name}: an array of others is not carried; it must be Derived"
                raise DeclarationError(f"{self.path}:{each.lineno}: {text}")
        told = "\n".join(f"{name}: {text}" for name, text in types.items())  # one constant of the module, not many
        return f"{CARRIED}({node.name}, {told!r})\n"

    def _replace_import(self, lines: list[str], node: ast.ImportFrom) -> None:
        """Without names that are cimported or constants; classes stay, so that their modules are imported.

        Cython knows its own module `cython` only, in the place of which sources import compiling/cython.py.
        """
        declared = {each.partition(" as ")[2] or each for names in self.cimports.values() for each in names}
        gone = {*self.constants, *(name for name in declared if not self.class_of(name))}
        names = [alias for alias in node.names if (alias.asname or alias.name) not in gone | {MARK, CYTHON}]
        if len(names) < len(node.names):
            left = ", ".join(f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in names)
            is_shadow = any(alias.name == CYTHON for alias in node.names)  # compiling/cython.py
            _blank(lines, node, "import cython" if is_shadow else f"from {node.module} import {left}" if left else "")

    def _replace_assignment(self, lines: list[str], node: ast.stmt) -> None:
        """Constants and C variables are set in the module's dictionary too, where Python looks."""
        names = self.assigned[node]
        constants = [name for name in names if name in self.constants]
        variables = [name for name in names if name in self.variables]
        shown = "; ".join(f"globals()[{name!r}] = {name}" for name in (*constants, *variables))
        if constants:
            others = [f"{name} = {ast.unparse(self.values[name])}" for name in names if name not in constants]
            _blank(lines, node, "; ".join([*others, shown]))
        elif variables:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno == node.lineno:
                assert node.value
                line = lines[node.lineno - 1].encode()
                lines[node.lineno - 1] = f"{node.target.id} = {line[node.value.col_offset :].decode()}"
                at = len(lines[node.lineno - 1].encode()) - (len(line) - (node.end_col_offset or 0))
            else:
                at = node.end_col_offset or 0
            end = (node.end_lineno or node.lineno) - 1
            line = lines[end].encode()
            lines[end] = f"{line[:at].decode()}; {shown}{line[at:].decode()}"


class Package:
    """The modules of a package, read when they are asked for."""

    def __init__(self, folder: Path, name: str = "") -> None:
        """name: its dotted name, where another package holds it."""
        self.folder = folder
        self.name = name or folder.name
        self.root = folder.parents[self.name.count(".")]
        self.told: set[Path] = set()  # sources from which constants and types were taken
        self._modules: dict[str, Module | None] = {}

    def holds(self, name: str) -> bool:
        """Whether a dotted name is one of this package."""
        return f"{name}.".startswith(f"{self.name}.")

    def module(self, name: str) -> Module | None:
        """A module by its dotted name; None where there is no such source."""
        if name not in self._modules:
            base = self.root / name.replace(".", "/")
            path = next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)
            self._modules[name] = Module(self, name, path) if path and self.holds(name) else None
        return self._modules[name]

    def compiled(self) -> dict[str, Module]:
        """The modules that are compiled: path relative to the package without suffix -> module."""
        found: dict[str, Module] = {}
        for path in sorted(self.folder.rglob("*.py")):
            if MARK in path.read_text():
                relative = path.relative_to(self.folder).with_suffix("")
                module = self.module(".".join([self.name, *relative.parts]))
                if module is not None and module.is_compiled:
                    found[str(relative)] = module
        return found

    def origin(self, module: Module, name: str) -> tuple[Module, str] | None:
        """Where a name of a module is defined: a module, and its name there. None where it is not of the package."""
        while name in module.imports:
            above, name = module.imports[name]
            found = self.module(above)
            if found is None:
                return None
            module = found
        return module, name

    def declared(self, name: str) -> str | None:
        """The dotted name of a module, if a .pxd of it lies in the tree, written by hand or by a program; or None."""
        path = self.root / f"{name.replace('.', '/')}.pxd"
        return name if path.is_file() else None

    def is_declared_module(self, imported: Import | None) -> bool:
        """Whether what is imported is a module whose .pxd lies in the tree."""
        return imported is not None and self.declared(f"{imported.module}.{imported.name}") is not None


def mark_of(node: ast.ClassDef | ast.FunctionDef) -> Mark | None:
    """The mark of a class, function or method; None where it has none."""
    for decorator in node.decorator_list:
        if _name_of(decorator) == MARK:
            words = decorator.keywords if isinstance(decorator, ast.Call) else []
            given = {word.arg: ast.literal_eval(word.value) for word in words if word.arg}
            return Mark(**given)
    return None


def _is_final(node: ast.ClassDef) -> bool:
    return _is_marked(node, "final")


def _is_marked(node: ast.ClassDef, mark: str) -> bool:
    return any(_name_of(decorator) == mark for decorator in node.decorator_list)


def _gives_nothing(node: ast.FunctionDef) -> bool:
    return node.returns is None or (isinstance(node.returns, ast.Constant) and node.returns.value is None)


def attributes(node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """The attributes of a class's objects, with the annotations in its body that say so."""
    return {
        each.target.id: each
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if not ast.unparse(each.annotation).startswith("ClassVar")
    }


def _name_of(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.id if isinstance(called, ast.Name) else ""


def _names(node: ast.AST) -> Iterator[str]:
    """The names in a piece of code, but those of annotations."""
    if isinstance(node, ast.Name):
        yield node.id
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from _names(each)


def _is_known(kind: str) -> bool:
    """Whether a type needs no class of the package."""
    return kind in _BUILTINS or kind in _C_TYPES.values() or ":" in kind


def _union(node: ast.expr) -> list[ast.expr]:
    return [*_union(node.left), *_union(node.right)] if isinstance(node, ast.BinOp) else [node]


def _text(node: ast.expr) -> str:
    assert isinstance(node, ast.Constant)
    assert isinstance(node.value, str)
    return node.value


def _blank(lines: list[str], node: ast.stmt | ast.expr, instead: str = "") -> None:
    """Put a text in the place of a statement, whose other lines become empty."""
    end = node.end_lineno or node.lineno
    lines[node.lineno - 1 : end] = [instead, *[""] * (end - node.lineno)]


def _blank_decorators(lines: list[str], node: ast.ClassDef | ast.FunctionDef) -> None:
    for decorator in node.decorator_list:
        if _name_of(decorator) in (MARK, CARRIED, "final"):
            _blank(lines, decorator)


def _strip(lines: list[str], node: ast.FunctionDef) -> None:
    """Take the marks of a function away; where it gives nothing, a C function gives 0."""
    _blank_decorators(lines, node)
    for each in ast.walk(node) if _gives_nothing(node) else ():
        if isinstance(each, ast.Return) and each.value is None:
            at = each.end_col_offset or 0
            line = lines[each.lineno - 1].encode()
            lines[each.lineno - 1] = f"{line[:at].decode()} 0{line[at:].decode()}"
