"""A name is one thing: no class name stands twice, and no module name twice on a floor."""

from __future__ import annotations

import ast
from collections import Counter

from .catalogue import PACKAGE, python_files


def test_a_class_name_means_one_thing() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in python_files(PACKAGE)]
    found = Counter(node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    assert not [name for name, count in found.items() if count > 1]


def test_a_module_name_stands_once_on_a_floor() -> None:
    paths = [path.relative_to(PACKAGE) for path in python_files(PACKAGE) if not path.stem.startswith("__")]
    found = Counter((path.parts[0], path.stem) for path in paths)
    assert not [name for name, count in found.items() if count > 1]
