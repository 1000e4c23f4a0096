"""Evaluates batches of plans: combines documents with equations.

The package has the name of a function of the library, `costmodel.estimate("quickstart")`, so it can be called as well.
"""

from __future__ import annotations

import sys

from costmodel.ground.callable_package import CallablePackage

sys.modules[__name__].__class__ = CallablePackage
