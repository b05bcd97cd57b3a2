#!/bin/bash
# Installs those of the named Debian packages that are missing; says nothing and needs no rights when none is.
#     deps.sh [--dry-run] [--optional] PACKAGE…
# Called by the Makefile, which has the lists. --optional: what cannot be installed is said, and is no failure.
set -euo pipefail

dry=
failed=1
while :; do
    case ${1:-} in
    --dry-run) dry=1 ;;
    --optional) failed=0 ;;
    *) break ;;
    esac
    shift
done
if ! command -v dpkg-query >/dev/null; then
    echo "make: this machine has no dpkg: install what Debian calls: $*" >&2
    exit $failed
fi

missing=()
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' 2>/dev/null) "
for package in "$@"; do
    case $installed in
    *" installed:$package "*) ;;
    *) missing+=("$package") ;;
    esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

echo "make: missing Debian packages: ${missing[*]}"
[ -z "$dry" ] || exit 0

as_root=(env DEBIAN_FRONTEND=noninteractive)
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "make: not root and no sudo. As root, run:" >&2
        echo "    apt-get install --no-install-recommends ${missing[*]}" >&2
        exit $failed
    fi
    as_root=(sudo "${as_root[@]}")
fi

updated=
update() {
    "${as_root[@]}" apt-get update -q
    updated=1
}
install() {
    "${as_root[@]}" apt-get install -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 "${missing[@]}"
}

# A fresh machine has no package lists; one that was left alone has old ones, which show as a failed download.
for package in "${missing[@]}"; do
    if [ -z "$updated" ] && ! apt-cache show --no-all-versions "$package" >/dev/null 2>&1; then
        update || true # the installation says what is not there
    fi
done
if ! install; then
    if [ -n "$updated" ] || ! update || ! install; then
        echo "make: not installed: ${missing[*]}" >&2
        exit $failed
    fi
fi
