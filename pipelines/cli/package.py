"""`brokerscope package`: what Spark's workers lack, in an archive."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli import exits
from pipelines.cli.options import flag, option
from pipelines.storage import outputs


def package(
    output: Annotated[str, option("-o --output", "FILE", "The archive, a .tar.gz.")],
    dependencies: Annotated[
        bool, flag("--dependencies", "Include numpy, pyarrow and all else that workers need beside PySpark.")
    ] = False,
    others: Annotated[
        list[str] | None, option("--with", "NAME", "Include this installed package too, such as s3fs. May be repeated.")
    ] = None,
    quiet: Annotated[bool, flag("--quiet -q", "Do not print how to use it.")] = False,
) -> None:
    """Build an archive of brokerscope for Spark's workers, and print the settings that ship it to them.

    \b
    Examples:
      brokerscope package -o brokerscope.tar.gz
      brokerscope package -o brokerscope.tar.gz --dependencies --with s3fs
    """
    if not output.endswith((".tar.gz", ".tgz")):
        raise typer.BadParameter(f"{output!r} does not end in .tar.gz, by which Spark knows it", param_hint="-o")
    from pipelines.spark import package as archive

    with outputs.file(output) as stream:
        archive.write(stream, dependencies=dependencies, others=others or ())
    if not quiet:
        from pipelines.cli import printing

        exits.say("brokerscope: hand it to the workers with these options of analyze")
        for key, value in archive.settings(output).items():
            printing.show_line(f"--conf {key}={value}")
