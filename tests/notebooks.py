"""Runs the cells of a Jupyter notebook without Jupyter. `python -m tests.notebooks` writes their outputs into it."""

import ast
import base64
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "notebooks"


def run(path: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell, as the format of notebooks has them; run in the folder of the repository."""
    names: dict[str, Any] = {}
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [_outputs("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    finally:
        os.chdir(before)


def texts(outputs: list[list[dict[str, Any]]]) -> list[list[Any]]:
    """What cells say in words and tables. Of a picture only that there is one: its bytes depend on the library."""
    return [
        [one.get("text") or (one["data"].get("text/html") or sorted(one["data"])) for one in cell] for cell in outputs
    ]


def _outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, shown = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            shown = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    made: list[dict[str, Any]] = []
    if printed.getvalue():
        made.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if shown is not None:
        made.append({"output_type": "display_data", "metadata": {}, "data": _data(shown)})
    return made


def _data(value: Any) -> dict[str, Any]:
    if hasattr(value, "_repr_html_"):
        return {"text/html": _lines(value._repr_html_())}
    if hasattr(value, "figure"):
        png = io.BytesIO()
        value.figure.savefig(png, format="png", dpi=72, bbox_inches="tight", metadata={"Software": None})
        return {"image/png": base64.b64encode(png.getvalue()).decode()}
    return {"text/plain": _lines(repr(value))}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Write the outputs of all notebooks into them."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        outputs = iter(run(path))
        book = json.loads(path.read_text(encoding="utf-8"))
        for cell in book["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = next(outputs)
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
