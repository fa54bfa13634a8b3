"""A lesson's text in a terminal: Markdown in lines of rich's ``Text``, which know their colours and their width."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from rich.cells import cell_len
from rich.text import Text

from .markdown import figure_of, is_wide, parse

DrawFigure = Callable[[str, str], list[Text]]  # (name, caption) → its lines
_CODE, _STRONG, _EM, _HEAD, _BAR = "cyan", "bold", "italic", "bold", "│ "
_NOT_FIRST = "，。、；：？！）」』”’》】…,.;:?!)]}%"
_NOT_LAST = "（「『“‘《【([{"
_STUCK = "\u00a0"  # stands for a blank at which a line must not end


class Terminal:
    """Markdown → lines.

    width: columns. plain: no colours, so that code keeps its backticks. figure: draws what an image stands for.
    """

    def __init__(self, width: int, plain: bool, figure: DrawFigure) -> None:
        self.width, self.plain, self.figure = width, plain, figure

    def lines(self, markdown: str) -> list[Text]:
        return self._blocks(SyntaxTreeNode(parse(markdown)).children, self.width)

    def _blocks(self, nodes: Sequence[SyntaxTreeNode], width: int, tight: bool = False) -> list[Text]:
        lines: list[Text] = []
        for node in nodes:
            if lines and not tight:
                lines.append(Text())
            lines += self._block(node, width)
        return lines

    def _block(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        match node.type:
            case "paragraph" | "heading":
                return self._paragraph(node, width)
            case "fence" | "code_block":
                code = node.content.rstrip("\n").split("\n")
                return [Text(f"    {line}".rstrip(), _CODE) for line in code]
            case "bullet_list" | "ordered_list":
                return self._list(node, width)
            case "blockquote":
                return [Text(_BAR, "dim") + line for line in self._blocks(node.children, width - 2)]
            case "table":
                return self._table(node, width)
            case "hr":
                return [Text("─" * width, "dim")]
        raise AssertionError(f"no lesson has a {node.type}")

    def _paragraph(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        token = _inline(node)
        figure = figure_of(token)
        if figure:
            return self.figure(*figure)
        text = self._line(token.children or [])
        if node.type == "heading":
            text.stylize(_HEAD)
        return wrap(text, width)

    def _list(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        first = int(node.attrs.get("start", 1)) if node.type == "ordered_list" else None
        items: list[list[Text]] = []
        loose = any(not child.hidden for item in node.children for child in item.children if child.type == "paragraph")
        for number, item in enumerate(node.children):
            mark = "- " if first is None else f"{first + number}. "
            left = len(mark)
            lines = self._blocks(item.children, width - left, tight=not loose)
            items.append([Text(mark if not i else " " * left * bool(line)) + line for i, line in enumerate(lines)])
        return [line for i, lines in enumerate(items) for line in ([Text()] * (loose and i > 0) + lines)]

    def _table(self, node: SyntaxTreeNode, width: int) -> list[Text]:
        rows, right = [], []
        for row in (row for part in node.children for row in part.children):
            rows.append([self._line(_inline(cell).children or []) for cell in row.children])
            right = ["right" in str(cell.attrs.get("style", "")) for cell in row.children]
        for head in rows[0]:
            head.stylize(_HEAD)
        return table(rows, right, width)

    def _line(self, children: Sequence[Token]) -> Text:
        """A paragraph as one long line."""
        text, styles = Text(), [""]
        for token in children:
            match token.type:
                case "code_inline":
                    code = token.content.replace(" ", _STUCK)
                    text.append(f"`{code}`" if self.plain else code, " ".join([*styles, _CODE]))
                case "strong_open":
                    styles.append(_STRONG)
                case "em_open":
                    styles.append(_EM)
                case "strong_close" | "em_close":
                    styles.pop()
                case "hardbreak":
                    text.append("\n")
                case "link_close" if token.attrs.get("href"):
                    pass
                case _ if token.content:
                    text.append(token.content, " ".join(styles))
        return text


def _inline(node: SyntaxTreeNode) -> Token:
    token = node.children[0].token if node.children else None
    return token or Token("inline", "", 0, children=[])


def table(rows: Sequence[Sequence[Text]], right: Sequence[bool], width: int) -> list[Text]:
    """Rows of cells, the first of them the heading; what does not fit is wrapped in its column."""
    count = len(rows[0])
    widths = [max(cell_len(line) for row in rows for line in row[column].plain.split("\n")) for column in range(count)]
    room = width - 2 * (count - 1)
    words = [max(_longest_word(row[column].plain) for row in rows) for column in range(count)]
    while sum(widths) > room and max(widths) > 8:
        free = [column for column in range(count) if widths[column] > words[column]] or range(count)
        widths[max(free, key=lambda column: widths[column])] -= 1
    lines: list[Text] = []
    for number, row in enumerate(rows):
        cells = [wrap(cell, widths[column]) for column, cell in enumerate(row)]
        for i in range(max(map(len, cells))):
            line = Text()
            for column, cell in enumerate(cells):
                part = cell[i] if i < len(cell) else Text()
                blank = " " * max(0, widths[column] - part.cell_len)
                line.append_text(Text(blank) + part if right[column] else part + Text(blank))
                line.append("  " * (column < count - 1))
            lines.append(line)
        if not number:
            lines.append(Text("  ".join("─" * one for one in widths), "dim"))
    for line in lines:
        line.rstrip()
    return lines


def beside(blocks: Sequence[Sequence[Text]], width: int, gap: int = 4) -> list[Text]:
    """Blocks of lines in as many columns as fit, row by row, an empty line between the rows."""
    widest = max((line.cell_len for block in blocks for line in block), default=0)
    columns = max(1, (width + gap) // (widest + gap))
    lines: list[Text] = []
    for start in range(0, len(blocks), columns):
        row = blocks[start : start + columns]
        lines += [Text()] * bool(lines)
        for i in range(max(map(len, row))):
            line = Text()
            for block in row:
                part = block[i] if i < len(block) else Text()
                line.append_text(part)
                line.append(" " * (widest + gap - part.cell_len))
            line.rstrip()
            lines.append(line)
    return lines


def wrap(text: Text, width: int) -> list[Text]:
    """Lines of at most ``width`` columns: parted at blanks, and between wide letters where Chinese may be parted.

    What ``_STUCK`` holds together, a command, stays whole even where it is too long.
    """
    width = max(width, 1)
    lines: list[Text] = []
    for paragraph in text.split("\n", allow_blank=True):
        plain, cuts, start, last = paragraph.plain, [], 0, 0
        for end in [*_breaks(plain), len(plain)]:
            if cell_len(plain[start:end].rstrip(" ")) > width and last > start:
                cuts.append(last)
                start = last
            while cell_len(plain[start:end].rstrip(" ")) > width and _STUCK not in plain[start:end]:  # one long word
                start += _fitting(plain[start:end], width)
                cuts.append(start)
            last = end
        for line in paragraph.divide(cuts):
            line.rstrip()
            line.plain = line.plain.replace(_STUCK, " ")
            lines.append(line)
    return lines


def _longest_word(plain: str) -> int:
    """Columns of the longest piece that a line must not part."""
    ends = [0, *_breaks(plain), len(plain)]
    pieces = (piece for start, end in pairwise(ends) for piece in plain[start:end].split("\n"))
    return max(cell_len(piece.rstrip(" ")) for piece in pieces)


def _breaks(plain: str) -> Iterator[int]:
    """Where a new line may begin."""
    for i in range(1, len(plain)):
        before, after = plain[i - 1], plain[i]
        wide = is_wide(before) or is_wide(after)
        if before == " " != after or (wide and after not in f"{_NOT_FIRST} " and before not in f"{_NOT_LAST} "):
            yield i


def _fitting(text: str, width: int) -> int:
    """How many letters fit, at least one."""
    used = 0
    for i, letter in enumerate(text):
        used += cell_len(letter)
        if used > width and i:
            return i
    return max(1, len(text))
