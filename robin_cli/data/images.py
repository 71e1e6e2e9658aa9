"""Images of prompts and responses: marks in their texts, the files that the marks name, and the parts of messages.

The mark of an image begins with U+FDD0, which is no character of any language; a row that forges a mark is refused. Addresses
are never fetched. A file must lie at or below the folder of its data, be an image by its first bytes, and be unchanged when it
is sent. So neither data nor somebody else's run reaches other files.
"""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from robin_cli.data.remote import scheme_of
from robin_cli.data.rows import BadRow, kind
from robin_cli.model.errors import InputError, shown, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from robin_cli.model.exchange import Message

MOST_BYTES = 20 * 2**20
"""The most bytes of one image."""

MARKS_BEGIN = "\ufdd0[image"
_MARK = re.compile(
    "\ufdd0\\[image(?: (low|high))?(?: ([0-9a-f]{32}))?: ([^\ufdd0\ufdd1]+)\\]\ufdd1"
)
_ADDRESS = re.compile(r"https://[!-~]{1,8000}")
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_MAGIC = re.compile(
    rb"(?P<png>\x89PNG\r\n\x1a\n)|(?P<jpeg>\xff\xd8\xff)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF....WEBP)",
    re.DOTALL,
)
_SHOWN = 80
_OR_SKIP = "or leave such rows out with --skip-bad-rows."
_BAD = "an image that cannot be used"


class Image(NamedTuple):
    """An image of a question. ``url`` is an address, a data: URL, or the path of a file from ``folder``.

    ``sha256`` has 32 hex digits of a file's hash, and is "" for an address.
    """

    url: str
    detail: str
    sha256: str
    folder: str

    @property
    def size(self) -> int:
        """About how many bytes it takes in a request; 0 if its file cannot be read."""
        if not self.sha256:
            return len(self.url)
        with suppress(OSError, ValueError):
            return Path(self.folder, self.url).stat().st_size * 4 // 3
        return 0

    def part(self) -> dict[str, object]:
        """Return the part of a message that sends it. InputError if its file is missing or changed."""
        url = self.url
        if not url.startswith(("https://", "data:")):
            try:
                _, sha256, begin, data = _read_image(Path(self.folder), url)
                if sha256 != self.sha256:
                    raise ValueError("changed since the run was made")
            except ValueError as error:
                step = f"restore it below {self.folder}, then robin resume"
                raise InputError(f"image {shown(url, _SHOWN)}: {error}; {step}") from None
            url = begin + base64.b64encode(data).decode()
        detail = {"detail": self.detail} if self.detail else {}
        return {"type": "image_url", "image_url": {"url": url, **detail}}


class Images:
    """Reads the images that rows name: files beside the rows' file, or in the working folder if the rows have no file.

    Attributes:
        folder: the folder of the first file; all image files lie at or below it. "" until an image was read.
    """

    def __init__(self) -> None:
        self.folder = ""
        self._first: Path | None = None
        self._known: dict[Path, tuple[str, str]] = {}
        self._made: set[str] = set()

    def notes(self) -> list[str]:
        """Return a line for the user if there are images."""
        if not self.folder:
            return []
        return [
            "images are sent along, for a model that takes them; tokens and costs before an answer are estimated without them"
        ]

    def enter(self, place: str) -> None:
        """Read the images beside the source at ``place`` from now on."""
        self._beside = Path(place).absolute().parent
        self._first = self._first or self._beside

    def check(self, *texts: str | None) -> None:
        """Raise BadRow if a row's texts hold a mark that was not made since the last check."""
        made, self._made = self._made, set()
        for text in texts:
            if text and MARKS_BEGIN in _MARK.sub(lambda m: "" if m[0] in made else m[0], text):
                raise BadRow(
                    "the row holds the mark of an image, which robin makes itself. Name images in parts image_url, or by "
                    f"--columns image=NAME, {_OR_SKIP}",
                    _BAD,
                )

    def mark(self, url: object, detail: object, called: str) -> str:
        """Return the mark of an image, which errors call ``called``. BadRow if it cannot be used."""
        try:
            place, sha256 = self._locate(url)
        except ValueError as error:
            raise BadRow(
                f'{called}: the image "{shown(url, _SHOWN)}" {error}. Correct it, {_OR_SKIP}', _BAD
            ) from None
        self.folder = str(self._first)
        fine = f" {detail}" if detail in ["low", "high"] else ""
        mark = f"{MARKS_BEGIN}{fine}{sha256 and ' '}{sha256}: {place}]\ufdd1"
        self._made.add(mark)
        return mark

    def _locate(self, url: object) -> tuple[str, str]:
        """Return an address and "", or a file's path from the folder and its SHA-256. ValueError with the reason if neither."""
        if not isinstance(url, str):
            raise ValueError(f"is {kind(url)}, no address and no path")  # noqa: TRY004  # the row's fault
        if url.startswith("data:") and not (len(url) <= 2 * MOST_BYTES and _DATA.fullmatch(url)):
            raise ValueError("is no PNG, JPEG, GIF or WebP in base64 of at most 20 MiB")
        if url.startswith("data:") or _ADDRESS.fullmatch(url):
            return url, ""
        if scheme_of(url):
            raise ValueError("is no https:// address")
        path = self._beside / url
        if path not in self._known:
            self._known[path] = _read_image(self._first or path, path)[:2]
        return self._known[path]


def _read_image(folder: Path, path: str | Path) -> tuple[str, str, str, bytes]:
    """Read an image at or below a folder: return its path from there, SHA-256, the head of its data: URL, and its bytes.

    Raises ValueError with the reason if it cannot be used.
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
        if file.exists() and not file.is_file():
            raise ValueError("is no regular file")
        if file.stat().st_size > MOST_BYTES:
            raise ValueError(f"is longer than {size(MOST_BYTES)}")
        data = file.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    if (known := _MAGIC.match(data)) is None:
        raise ValueError("is no PNG, JPEG, GIF or WebP by its first bytes")
    sha256 = hashlib.sha256(data).hexdigest()[:32]
    return inside, sha256, f"data:image/{known.lastgroup};base64,", data


def numbered(text: str, folder: str, images: dict[Image, int]) -> str:
    """Replace the marks in a text by "[image 1]" and so on; new images are added to ``images`` with the next number."""

    def number(mark: re.Match[str]) -> str:
        image = Image(mark[3], mark[1] or "", mark[2] or "", folder)
        return f"[image {images.setdefault(image, len(images) + 1)}]"

    return _MARK.sub(number, text)


def named(text: str) -> str:
    """Replace the marks in a text by "[image: PATH]" for people; a long path is cut."""
    return _MARK.sub(lambda mark: f"[image: {shown(mark[3], _SHOWN)}]", text)


def with_parts(messages: Sequence[Message]) -> list[Message]:
    """Return messages as they are sent: with images, the content is a list of the text and then each image.

    Raises InputError if a file is missing or changed.
    """
    sent: list[Message] = []
    for message in messages:
        if "images" in message:
            text = {"type": "text", "text": message["content"]}
            content = [text, *(image.part() for image in message["images"])]
            message = {"role": message["role"], "content": content}  # noqa: PLW2901
        sent.append(message)
    return sent
