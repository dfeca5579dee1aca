#!/bin/sh
# Installs or removes the folder of chatapp for one user, from files that lie beside this script or at an address:
#   sh install.sh [ADDRESS]      checks SHA256SUMS by its signature, and the archive by SHA256SUMS, then unpacks it
#   sh install.sh --uninstall    removes the program; conversations and models stay, and it says where
# It asks no server but the ADDRESS that it is given. KEY is minisign's public key of the release's makers.
set -eu
prefix=${PREFIX:-$HOME/.local}
data=${CHATAPP_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/chatapp}

if [ "${1:-}" = --uninstall ]; then
    rm -rf "$prefix/lib/chatapp"
    rm -f "$prefix/bin/chatapp"
    echo "chatapp is removed. Your conversations, settings and models are still in $data"
    [ -d "$data" ] && echo "($(du -sh "$data" | cut -f1)); to delete them too: rm -r '$data'"
    exit 0
fi
case ${1:-} in -*) echo "unknown option $1; use --uninstall, or the ADDRESS of a release" >&2; exit 2 ;; esac

name=chatapp-*-linux-$(uname -m).tar.gz
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${1:-}" ]; then
    get() { curl --proto '=https' --tlsv1.2 -fsSL "$1/$2" -o "$work/$2"; }
    get "$1" SHA256SUMS
    get "$1" SHA256SUMS.minisig
    archive=$(sed -n "s/^[0-9a-f]*  \(chatapp-.*-linux-$(uname -m)\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
    [ -n "$archive" ] || { echo "there is no chatapp for $(uname -m) at $1" >&2; exit 1; }
    get "$1" "$archive"
else
    here=$(cd "$(dirname "$0")" && pwd)
    # shellcheck disable=SC2086  # a pattern
    archive=$(cd "$here" && ls $name 2>/dev/null | tail -n 1)
    [ -n "$archive" ] || { echo "there is no $name beside this script" >&2; exit 1; }
    for file in SHA256SUMS SHA256SUMS.minisig "$archive"; do
        [ -e "$here/$file" ] || { echo "$file is missing beside this script" >&2; exit 1; }
        cp "$here/$file" "$work/"
    done
fi

command -v minisign >/dev/null || { echo "minisign is needed to verify the download; install it first" >&2; exit 1; }
[ -n "${KEY:-}" ] || { echo "say whose release it is: KEY=(the public key on the release page) sh install.sh" >&2; exit 1; }
minisign -Vqm "$work/SHA256SUMS" -P "$KEY" || { echo "the signature is not of that key: nothing was installed" >&2; exit 1; }
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum -c --quiet -) || {
    echo "$archive is not what was signed: nothing was installed" >&2
    exit 1
}

mkdir -p "$prefix/lib" "$prefix/bin"
rm -rf "$prefix/lib/chatapp.new"
mkdir "$prefix/lib/chatapp.new"
tar -xzf "$work/$archive" -C "$prefix/lib/chatapp.new" --strip-components=1 --no-same-owner
rm -rf "$prefix/lib/chatapp"
mv "$prefix/lib/chatapp.new" "$prefix/lib/chatapp"
ln -sf ../lib/chatapp/chatapp "$prefix/bin/chatapp"
echo "chatapp is in $prefix/bin; try: chatapp run builtin 'import numpy as'"
