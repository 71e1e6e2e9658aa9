"""Python's cyclic garbage collector, held off while millions of pairs are made."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_collector() -> Iterator[None]:
    """No cyclic garbage collection: it would go through millions of new pairs, and take a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
