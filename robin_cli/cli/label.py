"""robin label: people label the pairs of a run at a page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from robin_cli.run.reader import RunReader

app = typer.Typer()


@app.command(epilog="Example: robin label runs/20261120T101500Z-helpfulness --labeller ann --n 100")
def label(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run directory. (default: the newest run)", metavar="RUN", show_default=False
        ),
    ] = None,
    labeller: Annotated[
        str,
        typer.Option(
            help="Your name, saved with each label. (default: the page asks)",
            metavar="NAME",
            show_default=False,
        ),
    ] = "",
    n: Annotated[
        int,
        typer.Option(
            "--n", help="How many pairs each person labels; they are drawn at random.", min=1
        ),
    ] = 50,
    port: Annotated[
        int, typer.Option(help="Port of the page on 127.0.0.1; 0 for a free one.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser, and only print the address.")
    ] = False,
) -> None:
    """Rate pairs of a run yourself, in the browser.

    The page does not show what the judge said. Press a number to rate, u to undo, s to skip, c to comment. Labels are saved
    at once, in labels.csv of the run: report, status, export and compare use them from there.
    """
    from robin_cli.run.manifest import newest_run
    from robin_cli.run.reader import read_run
    from robin_cli.show.label.work import changes
    from robin_cli.show.messages import messages_for

    path = run or newest_run()
    messages = messages_for()
    if run is None:
        messages.note(f"run: {path}, the newest one")
    data = read_run(path)
    _serve(data, labeller, n, port, open_browser=not no_browser)
    for line in changes(data):
        messages.note(line)


def _serve(run: RunReader, labeller: str, n: int, port: int, *, open_browser: bool) -> None:
    """Serve the page until the user is done or presses Ctrl-C."""
    import asyncio
    import webbrowser
    from contextlib import suppress
    from tempfile import TemporaryDirectory

    from robin_cli.model.records import number_of
    from robin_cli.run.layout import LABELS
    from robin_cli.show.label.server import LabelPage
    from robin_cli.show.label.work import Labelling
    from robin_cli.show.text import one_line

    labelling = Labelling(run, n)
    if labelling.caution:
        typer.echo(f"note: {labelling.caution}", err=True)

    def ready(address: str) -> None:
        typer.echo(address)
        typer.echo("Press Ctrl-C or Done to stop; labels are saved as you go", err=True)
        if open_browser:  # by a file: a command line, with the token in it, is for all users to see
            page = Path(folder) / "open.html"
            page.write_text(f'<meta http-equiv="refresh" content="0;url={address}">')
            webbrowser.open(page.as_uri())

    async def serve() -> None:
        await LabelPage(labelling, labeller).serve(port, ready)

    with suppress(KeyboardInterrupt), TemporaryDirectory() as folder:
        asyncio.run(serve())
    for name, said in labelling.said.items():
        labels = number_of(len(said), "label")
        typer.echo(f"{labels} by {one_line(name)} saved in {run.path / LABELS}", err=True)
    if agreement := labelling.agreement():  # not before: labels are to be independent
        typer.echo(f"note: {agreement}", err=True)
