"""Examples run without Jupyter, cell by cell, and what a notebook would show is there."""

import ast
import contextlib
import glob
import io
import os
import re
import unittest

EXAMPLES = os.path.join(os.environ["CCLLAB_SOURCE"], "python", "examples")
DOCS = os.path.join(os.environ["CCLLAB_SOURCE"], "docs", "python.md")


def cells(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    parts = re.split(r"(?m)^# %%(.*)$", text)
    return [code for title, code in zip(parts[1::2], parts[2::2]) if "[markdown]" not in title]


def shown(code, names):
    """Run a cell; the HTML of its last expression, "" where it has none."""
    tree = ast.parse(code)
    last = tree.body.pop().value if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = eval(compile(ast.Expression(last), "cell", "eval"), names) if last is not None else None
    return value._repr_html_() if hasattr(value, "_repr_html_") else ""


class Examples(unittest.TestCase):
    def test_notebook(self):
        out = io.StringIO()
        names = {}
        with contextlib.redirect_stdout(out):
            html = [shown(code, names) for code in cells(os.path.join(EXAMPLES, "notebook.py"))]
        self.assertEqual([bool(cell) for cell in html], [True, True, False, True, True, True])
        self.assertEqual([cell.count("<svg") for cell in html if cell], [1, 1, 1, 1, 1])
        self.assertIn("<table>", html[1])
        self.assertRegex(out.getvalue(), r"of it at \d+ bytes\n1\.\d\d of the time")

    def test_all_are_run(self):
        self.assertEqual([os.path.basename(p) for p in glob.glob(os.path.join(EXAMPLES, "*.py"))], ["notebook.py"])

    def test_the_page_of_the_docs(self):
        """Its blocks of Python run one after the other, and print what stands in the block of text below them."""
        with open(DOCS, encoding="utf-8") as file:
            blocks = re.findall(r"```(python|text)\n(.*?)```", file.read(), re.S)
        names, said, ran = {}, "", 0
        for kind, block in blocks:
            if kind == "text":
                self.assertEqual(said, block)
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block, "docs/python.md", "exec"), names)
            said, ran = out.getvalue(), ran + 1
        self.assertGreater(ran, 4)


if __name__ == "__main__":
    unittest.main()
