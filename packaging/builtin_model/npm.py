"""Reads packages of npm: which of a tarball's files are written by hand, and what of a text compilers made.

Many packages ship compiled files alone, but beside them source maps that hold what these were compiled from.
"""

import functools
import hashlib
import itertools
import json
import posixpath
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HELD_OUT = {
    "chalk", "cheerio", "commander", "express", "immer", "jszip",
    "ky", "luxon", "marked", "mobx", "ts-pattern", "ws",
}  # fmt: skip
"""Packages kept out of training altogether."""

PREFIX = "npm:"
"""Stands before the name of a package of npm, so that none is taken for one of Python."""

MOST_BYTES = 6_500_000
"""Of one package; more is not trained on."""

SOURCE = re.compile(r"(?<!\.d)\.[cm]?[jt]sx?$")
DECLARED = re.compile(r"\.d(\.[cm]?ts)$")
PLAIN = re.compile(r"\.[cm]?jsx?$")
MAP = re.compile(r"(?<!\.d)\.[cm]?[jt]sx?\.map$")
LARGEST_SOURCE, LARGEST_MAP = 1_000_000, 40_000_000

SKIPPED_PATH = re.compile(
    r"(^|/)(node_modules|bower_components|jspm_packages|_?vendor(s|ed)?|third[-_]?party|externals?|extern|deps|3rdparty"
    r"|locales?|i18n|intl|langs?|languages|translations?|nls|_?fixtures?|__fixtures__|__testfixtures__|__snapshots__"
    r"|snapshots?|_?_?generated_?_?|gen|autogen|codegen-output|grammars?|test-?data|data|datasets?|assets|coverage"
    r"|emojis?|icons?|swagger|openapi|protos?|\.yarn|static|public|min|minified|examples?/data|test262)/"
    r"|[.-]min\.|[.-](umd|iife|bundle|bundled|prod|production|global|amd|generated|gen|pb|es5|esm-browser)\.\w+$"
    r"|_pb\.|_grpc\.|(^|/)(\.pnp|parser\.generated|grammar|unicode\w*|entities|mime-?types)\.[cm]?[jt]s$"
    r"|(^|/)\.(?!\w+rc\b)[^/]+/|\?|\.d\.[\w-]+\.ts$"
)
"""Copies of other projects, generated code, translations and tables."""

OUTPUT_PATH = re.compile(
    r"(^|/)(dist[\w-]*|build|built|umd|_?cjs|_?esm?\d*|esnext|es20\d\d|lib(-\w+)?|out|output|bundles?|fesm\w*|commonjs"
    r"|node|browser|module|modern|legacy|release|compiled|js|types?|target|web|prod|dev|npm|package|mjs)/"
)
"""Where compilers put what they make."""

TEST_PATH = re.compile(r"(^|/)(tests?|__tests__|__mocks__|specs?|e2e|benchmarks?)/|\.(test|spec|bench|stories)\.\w+$")

COMPILED = re.compile(
    r"exports, ?['\"]__esModule|__esModule = |\b__(awaiter|generator|extends|spreadArray|decorate|rest|read|values"
    r"|importDefault|importStar|createBinding|exportStar|toESM|toCommonJS|export|commonJS|defProp|name|privateGet"
    r"|publicField|require)\(|\b__defProp\b|_interopRequire|_interop_require|__webpack_|\btslib(_\d)?\b|_createClass"
    r"|_classCallCheck|_class_call_check|_objectSpread|_object_spread|_asyncToGenerator|_async_to_generator"
    r"|_regenerator|regeneratorRuntime|\b_?(_jsxs?|jsxDEV)\(|\b_jsx_?[rR]untime|jsxRuntime\.|\bimport_\w+\d*\."
    r"|\bimport_\w+ = |//# sourceMappingURL|//[#@] sourceURL|ɵɵ|ɵfac|\b_extends\(|\b_inherits|babelHelpers"
    r"|@babel/runtime|@swc/helpers|@oxc-project/runtime|_ts_decorate|_sfc_|_openBlock\(|_createElementVNode|_createVNode|_\$\w+\("
    r"|System\.register\(|/[*#@ ]*__PURE__ ?\*/ ?(React|_|jsx)|/jsx-(dev-)?runtime['\"]|^\s*var _[a-z](, _[a-z]\w?)*;$"
    r"|=== void 0 \? |\b_[a-z]\w? === void 0|^//#region |_react\w*\.default|_\w+\d*\.default\b|\bvar _this = this;"
    r"|^/\*{6}/|\(0,\s*_?\w+\.\w+\)\(|\$\$typeof = _|_s\(\)|\bstatic \{ this\."
    r"|\(function ?\(global, factory\)|exports\.\w+ = void 0|Symbol\.toStringTag, \{ value: ['\"]Module",
    re.MULTILINE,
)
"""Marks of what TypeScript, Babel, SWC, esbuild and bundlers make of a source."""

HEADING = re.compile(r"^// (\.{0,2}/)*(src|lib|source|packages|node_modules|app|modules?)/\S+\.\w+$", re.MULTILINE)
"""Stands above each file in a bundle of esbuild's."""

LITERAL = re.compile(
    r"\s*(([-\w.$]+|'[^']*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\])\s*:\s*)?"
    r"('[^']*'|\"[^\"]*\"|`[^`]*`|-?[\d.][\w.]*|true|false|null|\[[-\d., x]*\])?[\[\]{}(),;\s]*"
)
"""A line of a table: a string or a number, with a name or without."""

FOREIGN_LICENCE = re.compile(
    r"Elastic License|Server Side Public|\bSSPL\b|Commons Clause|Eclipse Public|\bCDDL\b|\bEUPL\b|Sustainable Use"
    r"|proprietary (licen|and|soft|info)|Enterprise Licen[cs]e|Commercial Licen[cs]e|\bFair Source|Functional Source"
    r"|Business Source|Microsoft Reference|source code is licensed under (a|the) commercial",
    re.IGNORECASE,
)
"""What files say at their beginning, besides what those of Python do."""

GENERATED = re.compile(r"generated automatically|file (is|was|has been) generated|@generated|code generated", re.I)
"""What generators of code write, besides what those for Python do."""

COMMENT = re.compile(r"\s*(/\*.*?\*/[ \t]*\n?|(?:[ \t]*//[^\n]*(?:\n|$))+)", re.DOTALL)

Read = Callable[[], bytes]
"""Reads a file."""


def is_npm(package: str) -> bool:
    """Says whether a package, by its name in the corpus, is one of npm's."""
    return package.startswith(PREFIX)


def tarball(name: str, version: str) -> str:
    """Names the file of a package's tarball; `tarball_name` reads it."""
    return f"{name.removeprefix(PREFIX).replace('/', '__')}-{version}.tgz"


def stated_licence(manifest: dict[str, Any]) -> str:
    """Gives the licence that a package.json states, in the newer form or in older ones."""
    stated = manifest.get("license") or manifest.get("licenses") or ""
    listed = stated if isinstance(stated, list) else [stated]
    names = [str(each.get("type", "")) if isinstance(each, dict) else str(each) for each in listed]
    return " OR ".join(name.strip() for name in names if name.strip())


def resolved(file: str, root: str, source: str, package: str) -> str:
    """Gives the path within the package of what a source map names, or an empty one if it is not of the package."""
    if bundled := re.match(r"(?:webpack|ng|rollup)://[^/]*/+(.*)", source):
        path = posixpath.normpath(bundled[1])
    elif re.match(r"\w+:|/", source):
        return ""
    else:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), root, source))
    inside = re.sub(r"^(\.\./)+", "", path)
    plain = re.escape(package.rpartition("/")[2])
    if inside != path and not re.match(rf"(src|source|lib)/|(.*/)?{plain}/(src|lib|source)/", inside):
        return ""
    # Two folders up is another package, unless it names its own.
    return re.sub(rf"^(.*/)?packages/(@?[\w-]+/)?{plain}/", "", inside)


def mapped(file: str, raw: bytes, package: str) -> Iterator[tuple[str, bytes]]:
    """Yields the paths and texts of the sources that a source map holds."""
    try:
        found = json.loads(raw)
        root, sources, texts = found.get("sourceRoot") or "", found["sources"], found.get("sourcesContent") or []
    except (ValueError, KeyError, AttributeError):
        return
    for source, text in zip(sources, texts, strict=False):
        if not isinstance(text, str) or not isinstance(source, str) or "node_modules" in source:
            continue
        if SOURCE.search(source) and (path := resolved(file, root, source, package)):
            yield path, text.encode("utf-8", "replace")


def read_tarball(file: Path, package: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Reads package.json, and the sources by path: those that lie in a tarball, and those that its source maps hold."""
    manifest: dict[str, Any] = {}
    plain: dict[str, bytes] = {}
    held: dict[str, bytes] = {}
    for path, raw in members(file):
        if path == "package.json":
            manifest = json.loads(raw.decode("utf-8-sig", "replace"))
        elif MAP.search(path):
            for source, text in mapped(path, raw, package):
                held.setdefault(source, text)
        else:
            plain[path] = raw
    return manifest, chosen(plain, held)


def members(file: Path) -> Iterator[tuple[str, bytes]]:
    """Yields the paths within a package and the content of what is of use in its tarball, unpacking nothing on disk."""
    with tarfile.open(file, "r|gz") as archive:
        for member in archive:
            path = member.name.removeprefix("./").partition("/")[2]
            is_map = MAP.search(path) is not None
            wanted = path == "package.json" or is_map or SOURCE.search(path) or DECLARED.search(path)
            if not wanted or "node_modules/" in path or member.size > (LARGEST_MAP if is_map else LARGEST_SOURCE):
                continue
            if content := archive.extractfile(member):
                yield path, content.read()


def stem(path: str, folder: bool = False) -> str:
    """Gives a path's file name without what follows its first dot, with its folder if need be."""
    name = posixpath.basename(path).partition(".")[0]
    return posixpath.join(posixpath.dirname(path), name) if folder else name


def chosen(plain: dict[str, bytes], held: dict[str, bytes]) -> dict[str, bytes]:
    """Chooses what was written by hand: sources rather than what lies where compilers put their output."""
    typed = {stem(path) for path in itertools.chain(plain, held) if SOURCE.search(path) and not PLAIN.search(path)}
    declared = {stem(path, folder=True) for path in plain if DECLARED.search(path)}
    elsewhere = bool(held) or any(not OUTPUT_PATH.search(path) and path.startswith("src/") for path in plain)
    kept = dict(held)
    for path, text in plain.items():
        output = OUTPUT_PATH.search(path) is not None and not path.startswith("src/")
        # Types beside a file tell that both were made of a source, but in lib they are made of comments as well.
        made = stem(path) in typed or (output and not path.startswith("lib/") and stem(path, folder=True) in declared)
        if SOURCE.search(path) and not (PLAIN.search(path) and made) and not (elsewhere and output):
            kept.setdefault(path, text)
    return {path: kept[path] for path in sorted(kept, key=place)}


def place(path: str) -> tuple[bool, bytes]:
    """Orders files by chance, the tests last: of a large package the rest is left out."""
    return TEST_PATH.search(path) is not None, hashlib.md5(path.encode()).digest()


def packages(tarballs: Iterable[Path]) -> Iterator[tuple[str, str, str, dict[str, Read]]]:
    """Yields name, version, stated licence and the sources by path of each tarball."""
    for file in tarballs:
        name = tarball_name(file)
        manifest, texts = read_tarball(file, name)
        files: dict[str, Read] = {path: functools.partial(bytes, text) for path, text in texts.items()}
        yield name, str(manifest.get("version", "")), stated_licence(manifest), files


def tarball_name(file: Path) -> str:
    """Gives the package's name by that of its tarball, NAME-VERSION.tgz with __ for the slash."""
    return re.sub(r"-\d+\.\d+\.\d+.*$", "", file.name).replace("__", "/", 1)


def without_licence_header(text: str) -> str:
    """Drops the leading comments that speak of copyright or licence."""
    begin = 0
    while found := COMMENT.match(text, begin):
        if not re.search(r"copyright|licen[cs]e|SPDX|@preserve", found[0], re.IGNORECASE):
            break
        begin = found.end()
    return text[begin:]


def refused(path: str, text: str) -> str:
    """Says why a text is not one to learn from, an empty reason if it is."""
    if not 250 <= len(text) <= 260_000:
        return "size"
    if FOREIGN_LICENCE.search(text[:3000]):
        return "licence header"
    if GENERATED.search(text[:3000]):
        return "generated"
    if "@flow" in text[:1500]:
        return "flow"
    lines = [line for line in text.split("\n") if line.strip()]
    if PLAIN.search(path) and compiled(path, text, lines):
        return "compiled"
    names = re.findall(r"[A-Za-z_$][\w$]*", text[:20_000])
    if sum(len(name) == 1 for name in names) > 0.25 * len(names):
        return "minified"
    if sum(LITERAL.fullmatch(line) is not None for line in lines) > 0.7 * len(lines):
        return "table"
    return ""


def compiled(path: str, text: str, lines: list[str]) -> bool:
    """Says whether a file of JavaScript is what a compiler or a bundler made, by its text and the lines not empty."""
    # TypeScript's compiler and Babel leave no empty lines.
    few = text.strip().count("\n") + 1 - len(lines) < 0.02 * len(lines)
    if few and (len(lines) >= 20 or OUTPUT_PATH.search(path)):
        return True
    if HEADING.search(text[:300]) or len(HEADING.findall(text)) > 2:
        return True
    return COMPILED.search(text, 0, 40_000) is not None
