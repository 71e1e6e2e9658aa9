"""Where prompts/ and configs/ are: inside the wheel once installed, at the top of the tree in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """The folder ``name`` ("prompts" or "configs").

    A checkout's own folder comes first, so that an edit there takes effect in an editable install.
    """
    checkout = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return _PACKAGE / "_shipped" / name
