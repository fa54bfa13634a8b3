"""``site``: the whole course as pages that work offline."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..catalogue import LANGUAGES, Catalogue
from ..report import check_target, write_json
from ..workspace import Workspace

HELP = "the whole course as a folder of HTML pages that work offline, with a search"
EXAMPLES = """
examples:
  python -m lessons site course                  write it to the folder course; open course/index.html
  python -m lessons site course --language zh    in Chinese
  python -m lessons site course --json -         which pages were written, for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target", metavar="DIR", help="a new folder, an empty one, or an earlier site, which is replaced"
    )
    parser.add_argument("--language", choices=LANGUAGES, help="of the site (default: yours, which stays as it is)")
    parser.add_argument("--json", metavar="FILE", help="write what was made (- for stdout)")


def main(args: argparse.Namespace) -> int:
    from ..site import site
    from ..site.folder import check_folder, write_folder

    workspace = Workspace.of(args)
    if args.language:
        workspace.say = Catalogue(args.language)
    check_target(args.json)
    target = Path(args.target).absolute()
    check_folder(target)
    files = site(workspace)
    write_folder(target, files)
    pages = [name for name in files if name.endswith(".html")]
    index = target / "index.html"
    content = {
        "folder": str(target),
        "language": workspace.say.language,
        "index": str(index),
        "pages": pages,
        "files": sorted(files),
        "bytes": sum(len(text.encode()) for text in files.values()),
    }
    write_json(args.json, content)
    if args.json != "-":
        workspace.tell("site.wrote", folder=workspace.shown(target), pages=len(pages))
        print(f"  {index.as_uri()}")  # whole, however long it is
    return 0
