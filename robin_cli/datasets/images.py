"""Images of prompts and responses: marks in their texts, the files that these name, and the parts of messages that they become.

The mark of an image begins with U+FDD0, which is no character of any language; a text of the data that forges one is refused.
Addresses are never fetched. A file counts if it lies at or below the folder of its data and is an image by its first bytes, and
it is sent if it still is what was read. So neither data nor a run of somebody else's gets at other files.
"""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.datasets.rows import BadRow, kind
from robin_cli.files.local import read_at_most
from robin_cli.files.remote import scheme_of
from robin_cli.model.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robin_cli.model.exchange import Message

MOST_BYTES = 20 * 2**20
"""Of one image."""

MARKS_BEGIN = "\ufdd0[image"
_MARK = re.compile("\ufdd0\\[image(?: (low|high))?(?: ([0-9a-f]{32}))?: ([^\ufdd0\ufdd1]+)\\]\ufdd1")
_ADDRESS = re.compile(r"https://[!-~]{1,8000}")
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_MAGIC = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF....WEBP)", re.DOTALL
)
_SHOWN = 80
_OR_SKIP = "or leave such rows out with --skip-bad-rows."
_BAD = "an image that cannot be used"


class Image(NamedTuple):
    """An image of a question: an address, a data: URL, or the path of a file from ``folder``, and the SHA-256 of that, cut."""

    url: str
    detail: str
    sha256: str
    folder: str

    @property
    def size(self) -> int:
        """Bytes that it takes in a request, about."""
        with suppress(OSError, ValueError):
            return len(self.url) if not self.sha256 else Path(self.folder, self.url).stat().st_size * 4 // 3
        return 0

    def sent(self) -> str:
        """What goes out for it. InputError where its file is not there, or is not what was read."""
        if self.url.startswith(("https://", "data:")):
            return self.url
        try:
            _, sha256, begin, data = _read(Path(self.folder), self.url)
            if sha256 != self.sha256:
                raise ValueError("changed since the run was made")
        except ValueError as error:
            step = f"restore it below {self.folder}, then robin resume"
            raise InputError(f"image {shown(self.url, _SHOWN)}: {error}; {step}") from None
        return begin + base64.b64encode(data).decode()


class Images:
    """Takes the images that the rows of data name: files beside that of the rows, or in the working folder where there is none.

    Attributes:
        folder: that of the first file; all images that are files lie at or below it. "" as long as no image was taken.
    """

    def __init__(self) -> None:
        self.folder = ""
        self._first: Path | None = None
        self._known: dict[Path, tuple[str, str]] = {}
        self._made: set[int] = set()

    def beside(self, place: str) -> Images:
        """Take those that the rows of the source at ``place`` name from now on."""
        self._own = Path(place).absolute().parent
        self._first = self._first or self._own
        return self

    def check(self, *texts: str | None) -> None:
        """BadRow where texts of a row hold the beginning of a mark that was not made since the last check."""
        made, self._made = self._made, set()
        marked = (text for text in texts if text and MARKS_BEGIN in text)
        if any(
            MARKS_BEGIN in _MARK.sub(lambda mark: "" if hash(mark[0]) in made else mark[0], text) for text in marked
        ):
            step = "Name images in parts image_url, or by --columns image=NAME"
            raise BadRow(f"the row holds the mark of an image, which robin makes itself. {step}, {_OR_SKIP}", _BAD)

    def mark(self, url: object, detail: object, called: str) -> str:
        """The mark of an image, which ``called`` names. BadRow where it is none."""
        try:
            taken, sha256 = self._taken(url)
        except ValueError as error:
            raise BadRow(f'{called}: the image "{shown(url, _SHOWN)}" {error}. Correct it, {_OR_SKIP}', _BAD) from None
        self.folder = str(self._first)
        fine = f" {detail}" if detail in ["low", "high"] else ""
        mark = f"{MARKS_BEGIN}{fine}{sha256 and ' '}{sha256}: {taken}]\ufdd1"
        self._made.add(hash(mark))
        return mark

    def _taken(self, url: object) -> tuple[str, str]:
        """An address, or the path of a file from the folder and its SHA-256. ValueError, which says what is wrong with it."""
        if not isinstance(url, str):
            raise ValueError(f"is {kind(url)}, no address and no path")  # noqa: TRY004  # the row's fault
        if url.startswith("data:") and not (len(url) <= 2 * MOST_BYTES and _DATA.fullmatch(url)):
            raise ValueError("is no PNG, JPEG, GIF or WebP in base64 of at most 20 MiB")
        if url.startswith("data:") or _ADDRESS.fullmatch(url):
            return url, ""
        if scheme_of(url):
            raise ValueError("is no https:// address")
        path = self._own / url
        if path not in self._known:
            self._known[path] = _read(self._first or path, path)[:2]
        return self._known[path]


def _read(folder: Path, path: str | Path) -> tuple[str, str, str, bytes]:
    """An image at or below a folder: its path from there, its SHA-256, how its data: URL begins, and its bytes.

    ValueError, which says what is wrong with it.
    """
    try:
        root = folder.resolve()
        file = (root / path).resolve()
        inside = file.relative_to(root).as_posix()
    except (OSError, ValueError, RuntimeError):
        raise ValueError("does not lie in the folder of the data, nor below it") from None
    if not inside.isprintable():
        raise ValueError("has a name that cannot be shown")
    try:
        data = read_at_most(file, MOST_BYTES)
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    if (known := _MAGIC.match(data)) is None:
        raise ValueError("is no PNG, JPEG, GIF or WebP by its first bytes")
    return inside, hashlib.sha256(data).hexdigest()[:32], f"data:image/{known.lastgroup};base64,", data


def numbered(text: str, folder: str, images: dict[Image, int]) -> str:
    """A text with "[image 1]" and so on for its marks; ``images`` are numbered as they first come, and added to."""

    def number(mark: re.Match[str]) -> str:
        image = Image(mark[3], mark[1] or "", mark[2] or "", folder)
        return f"[image {images.setdefault(image, len(images) + 1)}]"

    return _MARK.sub(number, text) if MARKS_BEGIN in text else text


def named(text: str) -> str:
    """A text with its images as people read them: the path, the address, or the beginning of a long one."""
    return _MARK.sub(lambda mark: f"[image: {shown(mark[3], _SHOWN)}]", text) if MARKS_BEGIN in text else text


def files_in(text: str, folder: str, most: int) -> list[str]:
    """The images of a text that are files, as data: URLs of about ``most`` bytes at most, without those that changed."""
    images: dict[Image, int] = {}
    numbered(text, folder, images)
    found = []
    for image in images:
        with suppress(InputError):
            found += [image.sent()] if image.sha256 and image.size < most else []
    return found


def with_parts(messages: Sequence[Message]) -> list[Message]:
    """Messages as they are sent: where there are images, the content is a list of parts, the text and then each image.

    InputError where a file is not there, or changed.
    """
    return [{"role": each["role"], "content": _parts(each)} if "images" in each else each for each in messages]


def _parts(message: Message) -> list[object]:
    urls = ({"url": each.sent(), **({"detail": each.detail} if each.detail else {})} for each in message["images"])
    return [{"type": "text", "text": message["content"]}, *({"type": "image_url", "image_url": url} for url in urls)]
