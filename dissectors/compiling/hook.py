"""Hatchling's build hook: compiles the modules when the package is installed, or a wheel of it is built.

BROKERSCOPE_COMPILER says by what:

    any      the machine's C compiler; where it has none, that of the `ziglang` wheel, which is asked for only then;
             where neither can be had, the wheel holds the sources only, and runs them
    machine  the machine's, or the build fails: nothing is downloaded; the default where SOURCE_DATE_EPOCH is set, as
             builds of distributions do
    none     nothing is compiled; BROKERSCOPE_UNCOMPILED=1 asks for that too
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_ZIG_MACHINES = ("x86_64", "aarch64", "arm64")  # that ziglang has wheels for


class CompilingHook(BuildHookInterface[Any]):
    """Of the wheel, editable or not."""

    def dependencies(self) -> list[str]:
        """What else the build needs: a C compiler, where the machine has none and another may be used."""
        build, by = self._build()
        needed = by == build.ANY and not build.obstacle() and not build.machine_compiler()
        return ["ziglang"] if needed and platform.machine() in _ZIG_MACHINES else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say which wheel it is. Ends the build where the machine's compiler had to do, and did not.

        What is installed for good is a tree of its own (installed.py); what can be edited is compiled where it lies.
        """
        build, by = self._build()
        told = self.app.display_info  # shown by pip install -v
        if version == "editable":
            record = build.compile_in_place(Path(self.root) / "dissectors", by, told=told)
        else:
            from dissectors.compiling import installed

            self._tree = TemporaryDirectory()
            package = installed.write_tree(Path(self.root), Path(self._tree.name))
            record = build.compile_in_place(package, by, f"{installed.HOME}.dissectors", told=told)
            build_data["force_include"][self._tree.name] = "/"
        if record.reason and by == build.MACHINE:
            self.app.abort(
                f"brokerscope is not compiled: {record.reason}; {build.VARIABLE}=none builds the sources alone"
            )
        if record.reason:
            self.app.display_warning(f"brokerscope is not compiled, and slower: {record.reason}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform_tag(self.build_config.macos_max_compat)}"

    def _build(self) -> tuple[ModuleType, str]:
        """dissectors.compiling.build of these sources, and which compilers may be used."""
        sys.path.insert(0, self.root)
        try:
            from dissectors.compiling import build
        finally:
            sys.path.remove(self.root)
        try:
            return build, build.allowed()
        except build.CompilerError as error:
            self.app.abort(str(error))
            raise


def _platform_tag(macos_max_compat: bool) -> str:
    """The platform of wheels that are built here, as their names have it: linux_x86_64, macosx_11_0_arm64."""
    from hatchling.builders.macos import process_macos_plat_tag
    from packaging.tags import sys_tags

    own = next(tag.platform for tag in sys_tags() if "many" not in tag.platform and "musl" not in tag.platform)
    return str(process_macos_plat_tag(own, compat=macos_max_compat)) if sys.platform == "darwin" else own
