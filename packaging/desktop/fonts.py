"""Makes the fonts of the window's page from those of the npm package dejavu-fonts-ttf 2.37.

    npm install dejavu-fonts-ttf@2.37.3 && pip install fonttools brotli
    python packaging/desktop/fonts.py node_modules/dejavu-fonts-ttf/ttf

Left out are the scripts that browsers take from the system's fonts, and what only a layout engine reads.
Two things are changed: the underscore stands where a row of whole pixels does not cut it off, and Braille, which is in
no monospaced DejaVu, is as wide as a character of those.
"""

import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

PAGE = Path(__file__).parents[2] / "chatapp" / "desktop" / "page"
SCREEN = (
    "20-7E,A0-2FF,300-36F,370-3FF,400-52F,1E00-1EFF,2000-20BF,2100-23FF,2400-243F,2460-27FF,2900-297F,2980-2BFF,"
    "E0A0-E0D4,FFFD"
)
"""Latin, Greek, Cyrillic, punctuation, arrows, mathematics, boxes, blocks, shapes, dingbats, Powerline."""
UNDERSCORE = 150
"""How much higher it stands, of 2,048."""
WIDE, NARROW = 1500, 1233
"""The advance of Braille in DejaVu Sans, and of everything in DejaVu Sans Mono."""


def cut(source: Path, name: str, characters: str) -> None:
    """Write a font that has only these characters."""
    options = subset.Options(flavor="woff2", layout_features=[], hinting=False, drop_tables=["FFTM"])
    font = subset.load_font(str(source), options)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=subset.parse_unicodes(characters))
    cutter.subset(font)
    change(font)
    font["head"].modified = font["head"].created  # the same bytes every time
    subset.save_font(font, str(PAGE / name), options)


def change(font: TTFont) -> None:
    """Lift the underscore; narrow the Braille by letting the same outlines be parts of a larger whole."""
    names = font.getBestCmap()
    if line := names.get(ord("_")):
        coordinates = font["glyf"][line].coordinates
        coordinates.translate((0, UNDERSCORE))
        font["glyf"][line].recalcBounds(font["glyf"])
    else:
        font["head"].unitsPerEm = font["head"].unitsPerEm * WIDE // NARROW


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    cut(folder / "DejaVuSansMono.ttf", "DejaVuSansMono.woff2", SCREEN)
    cut(folder / "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-Bold.woff2", SCREEN)
    cut(folder / "DejaVuSans.ttf", "DejaVuSans-Braille.woff2", "2800-28FF")
