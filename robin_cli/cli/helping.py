"""The words of a setting's help: of its flag, and in the file that ``robin init`` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting


def help_of_flag(setting: Setting) -> str:
    """Return the help of a setting's flag, with the default."""
    default = setting.default[0] if setting.default and setting.several else setting.default
    if isinstance(default, bool) or not isinstance(default, int | float | str):
        default = ""
    default = setting.default_said or (f"{default:g}" if isinstance(default, float) else default)
    words = setting.help.replace("{again}", "given again")
    return f"{words} (default: {default})" if default != "" else words


def help_in_file(setting: Setting) -> str:
    """Return the help of a setting in a TOML file."""
    is_unwritten = setting.example and setting.default_said
    default = f"(default: {setting.default_said})" if is_unwritten else ""
    words = setting.help.replace("{again}", "as a list")
    return " ".join(filter(None, [words, setting.note, default]))


def with_known(words: str, known: Callable[[], Iterable[str]]) -> str:
    """Return a help text with the known names instead of ``{known}``."""
    return words.replace("{known}", ", ".join(known())) if "{known}" in words else words
