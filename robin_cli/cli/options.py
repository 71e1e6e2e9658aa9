"""Make the options of commands from the tables of settings. An option not given is left out, so that other sources apply.

Each of robin judge's has a ``ROBIN_*`` variable of its name; the help says so once, not at every flag, or it would be twice
as long.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import make_dataclass
from functools import cached_property, partial
from glob import has_magic
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from robin_cli.cli.helping import help_of_flag, with_known

if TYPE_CHECKING:
    from robin_cli.settings.setting import Setting

_KNOWN = {
    "attribute": "ask.rubrics:known_attributes",
    "template": "ask.templates:known_templates",
    "scheduler": "policies.registry:known_policies",
    "config": "settings.reading:ready_configs",
}
"""What knows the values of an option, imported only once they are asked for."""


_DAILY = frozenset(
    (
        *(
            "data",
            "attribute",
            "rubric",
            "base_url",
            "model",
            "api_key_env",
            "columns",
            "pairwise",
            "limit",
        ),
        *("budget", "max_cost", "decide", "target_error"),
        *("concurrency", "temperature", "max_tokens", "run", "output"),
    )
)
"""What the help of a command with many settings shows: those of an afternoon. --help-all shows all."""

_MANY, _HELP_ALL = 30, "robin.help_all"


def known_values(name: str) -> Iterable[str]:
    """Return the possible values of an option in ``_KNOWN``; none for another."""
    if name not in _KNOWN:
        return ()
    module, _, function = _KNOWN[name].partition(":")
    values: Iterable[str] = getattr(import_module(f"robin_cli.{module}"), function)()
    return values


def _completing(name: str, choices: Iterable[str] = ()) -> Callable[[str], list[str]]:
    """Complete the last of several names with commas between."""

    def complete(incomplete: str) -> list[str]:
        known = choices or known_values(name)
        *before, last = incomplete.split(",")
        return [",".join([*before, each]) for each in known if each.startswith(last)]

    return complete


def check_runs(ctx: typer.Context, value: Path | list[Path] | None) -> Any:
    """Return the runs of an argument. RunError for one that is none, before the libraries of the work are imported."""
    from robin_cli.run.manifest import read_manifest

    for path in [] if ctx.resilient_parsing else value if isinstance(value, list) else [value]:
        if path is not None and not path.is_file() and not has_magic(str(path)):
            read_manifest(path)
    return value


RunToResume = Annotated[
    Path | None,
    typer.Argument(
        help="A run directory. (default: the newest unfinished one in runs/)",
        metavar="RUN",
        show_default=False,
        callback=check_runs,
    ),
]
RunOrScores = Annotated[
    Path | None,
    typer.Argument(
        help="A run directory, or a file of scores. (default: the newest run)",
        metavar="RUN",
        show_default=False,
        callback=check_runs,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="People's labels of its pairs, with columns pair_id and label: they correct its means.",
        metavar="FILE",
        show_default=False,
    ),
]
_OF_SCORES = {"columns", "scale", "skip_bad_rows"}
Json = Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")]
Config = Annotated[
    str | None,
    typer.Option(
        help="TOML file, or the name of a ready one. (default: ./robin.toml)",
        autocompletion=_completing("config"),
        metavar="FILE",
        rich_help_panel="Run and output",
    ),
]


def taking(which: Callable[[Setting], bool], *, simulation: bool = False) -> type[TyperCommand]:
    """Return the class of a command with the settings that ``which`` chooses; those given are in ``ctx.obj``.

    Args:
        simulation: it also takes all of a simulation.
    """

    class Command(TyperCommand):
        @cached_property
        def settings(self) -> list[Any]:
            """Return the options, made only on demand, because robin --version needs none."""
            from robin_cli.settings.table import TABLE
            from robin_cli.simulate.settings import SCALE, SIMULATION

            own = SIMULATION.values() if simulation else filter(which, [SCALE])
            return _options([*own, *(each for each in TABLE.values() if which(each))])

        @cached_property
        def all_of_help(self) -> list[Any]:
            """Return the option --help-all of a command with many settings."""
            return [_help_all(len(self.settings))] if len(self.settings) > _MANY else []

        def get_params(self, ctx: Any) -> list[Any]:
            """Return the settings, then the command's own parameters."""
            return [*self.settings, *self.all_of_help, *super().get_params(ctx)]

        def get_help(self, ctx: Any) -> str:
            """Return the help without each flag's --no-… form, whose column would make it half as long again."""
            shown = [(each.secondary_opts, each.hidden) for each in self.settings]
            for each in self.settings:
                each.secondary_opts = []
                each.hidden = (
                    bool(self.all_of_help)
                    and each.name not in _DAILY
                    and not ctx.meta.get(_HELP_ALL)
                )
            try:
                return super().get_help(ctx)
            finally:
                for each, (negations, is_hidden) in zip(self.settings, shown, strict=True):
                    each.secondary_opts, each.hidden = negations, is_hidden

        def invoke(self, ctx: Any) -> Any:
            """Pass the settings in one mapping; an error in a variable's value names the variable."""
            from robin_cli.settings.reading import check_variable

            values = {each.name: ctx.params.pop(each.name) for each in self.settings}
            for each in self.settings:
                source = ctx.get_parameter_source(each.name)
                if source is not None and source.name == "ENVIRONMENT":
                    check_variable(each.name, values[each.name])
            ctx.obj = {
                name: value for name, value in values.items() if value is not None and value != ()
            }
            return super().invoke(ctx)

    return Command


def _help_all(settings: int) -> Any:
    """Return an option that prints the help with all settings."""

    def shown(ctx: typer.Context, wanted: bool) -> None:  # Typer's callbacks take the value
        if wanted:
            ctx.meta[_HELP_ALL] = True
            typer.echo(ctx.get_help(), nl=False)
            raise typer.Exit

    said = f"Show all {settings} settings."
    option = typer.Option(
        "--help-all", help=said, callback=shown, is_eager=True, expose_value=False
    )
    return _declared([("help_all", Annotated[bool, option], False)])[0]


def is_of_judging(setting: Setting) -> bool:
    """Return whether robin judge has this setting: the scale of its ratings stands in the rubric."""
    return setting.name != "scale"


def is_of_scores(setting: Setting) -> bool:
    """Return whether commands that also take files of scores have this setting."""
    return setting.name in _OF_SCORES


def scored(ctx: typer.Context, runs: Sequence[Path], by: str | None = None) -> list[Path]:
    """Return ``runs``, with a temporary run in place of each file of scores; ``by``: the column of systems.

    Without ``runs`` it is the newest here, and a line says which. Variables say nothing: ``ROBIN_COLUMNS`` names those of the
    data to judge. InputError for a file that cannot be used, and where there is no run.
    """
    from robin_cli.model.errors import READ_WITH, option
    from robin_cli.run.manifest import newest_run
    from robin_cli.settings.reading import checked
    from robin_cli.show.messages import messages_for
    from robin_cli.show.parsing import read_scale

    if not runs:
        runs = [newest_run()]
        messages_for().note(f"run: {runs[0]}, the newest one")
    sources = {name: ctx.get_parameter_source(name) for name in _OF_SCORES & ctx.obj.keys()}
    given = {
        name: ctx.obj[name]
        for name, source in sources.items()
        if source and source.name != "ENVIRONMENT"
    }
    flags = (f"--{name.replace('_', '-')}" for name in given)
    words = (
        flag if value is True else option(flag, value)
        for flag, value in zip(flags, given.values(), strict=True)
        if value
    )
    shared = " ".join(words)
    if all(run.is_dir() for run in runs):
        return list(runs)
    from robin_cli.run.recorded import as_runs  # brings all formats of files

    READ_WITH.update({str(run): shared for run in runs if not run.is_dir()})
    scale = read_scale(given.pop("scale")) if "scale" in given else None
    return ctx.with_resource(
        as_runs(runs, messages_for().note, scale=scale, by=by, **checked(given))
    )


def _options(settings: Sequence[Setting]) -> list[Any]:
    """Return the parameters of a command that declares ``settings``, in Typer's form."""
    params = {
        param.name: param
        for param in _declared([(each.name, _declaration(each), None) for each in settings])
    }
    for each in settings:
        if each.several and each.variables and not each.by_commas:
            _split_as_a_shell(params[each.name], is_file=bool(each.file))
    return list(params.values())


def _declared(parameters: Sequence[tuple[str, Any, Any]]) -> list[Any]:
    """Return parameters in Typer's form, each with its name, annotation and default."""
    app = typer.Typer(add_completion=False)
    app.command()(make_dataclass("Declared", parameters))
    return list(typer.main.get_command(app).params)


def _split_as_a_shell(param: Any, *, is_file: bool) -> None:
    """Read a variable as a shell does; Typer would split a path at its blanks."""

    def words(_ctx: Any) -> list[str] | None:
        variable = next((each for each in param.envvar if os.environ.get(each)), None)
        if variable is None:
            return None
        told = os.environ[variable]
        try:
            return [told] if is_file and Path(told).exists() else shlex.split(told)
        except (OSError, ValueError) as error:
            raise typer.BadParameter(
                f"{variable}: cannot be read ({error}); write it as in a shell"
            ) from None

    param.value_from_envvar = words


def _declaration(setting: Setting) -> Any:
    one = str if setting.kind is Mapping or setting.by_commas else setting.kind
    kind = list[one] if setting.several and not setting.by_commas else one  # type: ignore[valid-type]
    about: dict[str, Any] = {
        "help": with_known(help_of_flag(setting), partial(known_values, setting.name)),
        "metavar": setting.metavar or None,
        "show_envvar": False,
    }
    about["envvar"] = list(setting.variables) or None
    if setting.argument:
        return Annotated[kind | None, typer.Argument(show_default=False, **about)]
    # what a file says, a flag may take back
    may_be_off = kind is bool and not setting.name.startswith("no_")
    return Annotated[
        kind | None,
        typer.Option(
            f"{setting.flag}/--no-{setting.flag[2:]}" if may_be_off else setting.flag,
            *filter(None, [setting.short]),
            parser=_whole_number if one is int else None,
            autocompletion=_completing(setting.name, setting.choices),
            rich_help_panel=setting.panel,
            **about,
        ),
    ]


def _whole_number(text: str | int) -> int:
    """Return a number written as 3000 or 3,000."""
    try:
        return int(str(text).replace(",", ""))
    except ValueError:
        raise typer.BadParameter(f'"{text}" is no whole number; write 3000 or 3,000') from None
