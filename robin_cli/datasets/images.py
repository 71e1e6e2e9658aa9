"""Images of prompts and responses: marks in their texts, the files that these name, and the parts of messages that they become.

The mark of an image begins with U+FDD0, which is no character of any language; a text of the data that forges one is refused.
Addresses are never fetched. A file counts if it lies at or below the folder of its data and is an image by its first bytes, and
it is sent if it still is what was read. So neither data nor a run of somebody else's gets at other files.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from robin_cli.datasets.rows import BadRow, kind
from robin_cli.files.local import read_at_most
from robin_cli.files.remote import scheme_of
from robin_cli.model.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from robin_cli.model.exchange import Message

MOST_BYTES = 20 * 2**20
"""Of one image."""

_BEGIN = "\ufdd0[image"
_MARK = re.compile("\ufdd0\\[image(?: (auto|low|high))?(?: ([0-9a-f]{32}))?: ([^\ufdd0\ufdd1]+)\\]\ufdd1")
_ADDRESS = re.compile(r"https://[!-~]{1,8000}")
_DATA = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "png"), (b"\xff\xd8\xff", "jpeg"), (b"GIF87a", "gif"), (b"GIF89a", "gif"))
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
        if self.sha256:
            with suppress(OSError, ValueError):
                return (Path(self.folder) / self.url).stat().st_size * 4 // 3
        return len(self.url)

    def sent(self) -> str:
        """What goes out for it. InputError where its file is not there, or is not what was read."""
        if self.url.startswith(("https://", "data:")):
            return self.url
        called, step = f"image {shown(self.url, _SHOWN)}", f"; restore it below {self.folder or '.'}, then robin resume"
        try:
            _, data, type_ = _read(Path(self.folder), self.url)
        except OSError as error:
            raise InputError(f"{called}: {error.strerror}{step}") from None
        if _hash(data) != self.sha256:
            raise InputError(f"{called}: changed since the run was made{step}")
        return f"data:image/{type_};base64,{base64.b64encode(data).decode()}"


class Folder:
    """Where the images of a source lie: beside its file; those of what is no file in the working folder.

    Attributes:
        used: None as long as no image was taken; "" for addresses alone, else the folder of the files.
    """

    def __init__(self, place: str) -> None:
        self._path = None if scheme_of(place) else Path(place).absolute().parent
        self._known: dict[str, tuple[str, str]] = {}
        self.used: str | None = None

    def mark(self, url: object, detail: object, called: str) -> str:
        """The mark of an image, which ``called`` names. BadRow where it is none."""
        if not isinstance(url, str):
            raise BadRow(
                f"{called} is {kind(url)}, not the address or the path of an image. Correct it, {_OR_SKIP}", _BAD
            )
        sha256 = ""
        if url.startswith("data:"):
            fits = len(url) <= MOST_BYTES * 4 // 3 + 100 and _DATA.fullmatch(url)
            why = "" if fits else "is no PNG, JPEG, GIF or WebP in base64 of at most 20 MiB"
        elif scheme_of(url):
            why = "" if _ADDRESS.fullmatch(url) else "is no https:// address"
        else:
            why, url, sha256 = self._file(url)
        if why:
            raise BadRow(f'{called}: the image "{shown(url, _SHOWN)}" {why}. Correct it, {_OR_SKIP}', _BAD)
        self.used = str(self._path) if sha256 else self.used or ""
        fine = f" {detail}" if detail in ["auto", "low", "high"] else ""
        return f"{_BEGIN}{fine}{sha256 and ' '}{sha256}: {url}]\ufdd1"

    def _file(self, path: str) -> tuple[str, str, str]:
        """Why a file cannot be taken, its path from the folder, and its SHA-256."""
        if self._path is None:
            return "is a path, and data at an address have no files beside them", path, ""
        if path not in self._known:
            try:
                inside, data, _ = _read(self._path, path)
            except OSError as error:
                return str(error.strerror), path, ""
            self._known[path] = inside, _hash(data)
        return "", *self._known[path]


def _read(folder: Path, path: str) -> tuple[str, bytes, str]:
    """An image at or below a folder: its path from there, its bytes, its type. OSError, which says what is wrong with it."""
    try:
        root = folder.resolve()
        file = (root / path).resolve()
        inside = file.relative_to(root).as_posix()
    except (ValueError, RuntimeError):
        raise OSError(errno.EACCES, "does not lie in the folder of the data, nor below it") from None
    if not path.isprintable():
        raise OSError(errno.EINVAL, "has a name that cannot be shown")
    try:
        data = read_at_most(file, MOST_BYTES)
    except OSError as error:
        raise OSError(error.errno, f"cannot be read ({error.strerror})") from None
    found = next((name for begin, name in _MAGIC if data.startswith(begin)), "")
    found = "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else found
    if not found:
        raise OSError(errno.EINVAL, "is no PNG, JPEG, GIF or WebP by its first bytes")
    return inside, data, found


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def check_unforged(text: str, called: str) -> None:
    """BadRow for a text of the data that begins a mark."""
    if _BEGIN in text:
        said = f"{called} holds the mark of an image, which robin makes itself"
        raise BadRow(f"{said}. Name images in parts image_url, or by --columns image=NAME, {_OR_SKIP}", _BAD)


def one_folder(used: Iterable[str | None]) -> str | None:
    """The folder of the images of a run, of what :attr:`Folder.used` says of its sources. InputError for several."""
    found = sorted({each for each in used if each is not None}, reverse=True)
    if len(found) > 1 and found[1]:
        raise InputError(
            f"images lie below several folders ({shown(found[1], _SHOWN)}, {shown(found[0], _SHOWN)}), and those of a run lie "
            "below one; put the data files into one folder, or make a run of each"
        )
    return found[0] if found else None


def numbered(text: str, folder: str, images: dict[Image, int]) -> str:
    """A text with "[image 1]" and so on for its marks; ``images`` are numbered as they first come, and added to."""

    def number(mark: re.Match[str]) -> str:
        image = Image(mark[3], mark[1] or "", mark[2] or "", folder)
        return f"[image {images.setdefault(image, len(images) + 1)}]"

    return _MARK.sub(number, text) if _BEGIN in text else text


def named(text: str) -> str:
    """A text with its images as people read them: the path, the address, or the beginning of a long one."""
    return _MARK.sub(lambda mark: f"[image: {shown(mark[3], _SHOWN)}]", text) if _BEGIN in text else text


def files_in(text: str, folder: str, most: int) -> Iterator[str]:
    """The images of a text that are files, as data: URLs of at most ``most`` characters, without those that changed."""
    for mark in _MARK.finditer(text):
        image = Image(mark[3], "", mark[2] or "", folder)
        if image.sha256 and image.size < most:
            with suppress(InputError):
                yield image.sent()


def with_parts(messages: Sequence[Message]) -> list[Message]:
    """Messages as they are sent: where there are images, the content is a list of parts, the text and then each image.

    InputError where a file is not there, or changed.
    """
    return [_in_parts(each) if "images" in each else each for each in messages]


def _in_parts(message: Message) -> Mapping[str, Any]:
    images = [{"url": each.sent(), **({"detail": each.detail} if each.detail else {})} for each in message["images"]]
    parts = [{"type": "image_url", "image_url": each} for each in images]
    return {"role": message["role"], "content": [{"type": "text", "text": message["content"]}, *parts]}
