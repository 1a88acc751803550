#!/usr/bin/env python3
"""Writes model/unicode_tables.inc: what tokenizers need of Unicode.

  unicode_tables.py FILE

Needs the package unicodedata2 of version 16 (PyPI), and perl, which knows how old a character is.
Ranges [first, last] of letters (L) and numbers (N) of Unicode 16; canonical combining classes, and
canonical decompositions of two code points or one, of Unicode 9: what the package `tokenizers` takes
for its patterns and for its normalisation.
"""
import subprocess
import sys

import unicodedata2 as unicode

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def normalised():
    """The code points that normalisation knows. What Unicode says of one never changes."""
    old = subprocess.run(["perl", "-e", r"print join ' ', grep { chr($_) =~ /\p{Present_In: 9.0}/ } "
                          "0..0xD7FF, 0xE000..0x10FFFF"], check=True, capture_output=True, text=True)
    return [int(point) for point in old.stdout.split()]


def ranges(wanted):
    found = []
    for point in POINTS:
        if not wanted(point):
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def rows(values, text):
    line = ""
    for value in values:
        entry = text(value) + ","
        if len(line) + len(entry) > 99:
            text_of_line, line = line, ""
            yield text_of_line
        line += entry
    yield line


def main():
    if not unicode.unidata_version.startswith("16."):
        sys.exit(f"want Unicode 16, unicodedata2 has {unicode.unidata_version}")
    classes = []
    known = normalised()
    for point in known:
        value = unicode.combining(chr(point))
        if not value:
            continue
        if classes and classes[-1][1] == point - 1 and classes[-1][2] == value:
            classes[-1][1] = point
        else:
            classes.append([point, point, value])
    decompositions = []
    for point in known:
        parts = unicode.decomposition(chr(point)).split()
        if not parts or parts[0].startswith("<") or point in HANGUL:
            continue
        parts = [int(part, 16) for part in parts] + [0]
        composed = unicode.normalize("NFC", "".join(map(chr, parts[:-1]))) == chr(point)
        decompositions.append((point, parts[0], parts[1] if len(parts) > 2 else 0, int(composed)))
    with open(sys.argv[1], "w") as out:
        out.write(f"// Made by tools/unicode_tables.py of Unicode {unicode.unidata_version} and 9.0.\n")
        tables = (
            ("Range kLetters", ranges(lambda p: unicode.category(chr(p))[0] == "L"),
             lambda r: "{0x%x,0x%x}" % tuple(r)),
            ("Range kNumbers", ranges(lambda p: unicode.category(chr(p))[0] == "N"),
             lambda r: "{0x%x,0x%x}" % tuple(r)),
            ("ClassRange kClasses", classes, lambda r: "{0x%x,0x%x,%d}" % tuple(r)),
            ("Decomposition kDecompositions", decompositions,
             lambda d: "{0x%x,0x%x,0x%x,%d}" % d),
        )
        for name, values, text in tables:
            out.write(f"constexpr {name}[] = {{\n")
            for line in rows(values, text):
                out.write(line + "\n")
            out.write("};\n")


main()
