#!/bin/sh
# Runs inside the proxy's image. Says what is wrong and ends with 1, or prints what it found.
set -eu
fail() { echo "smoke: $1" >&2; exit 1; }

[ "$(id -u)" = 65534 ] || fail "runs as $(id -un)"
tinyproxy -h | grep -q Filtering || fail "tinyproxy cannot filter"
[ -z "$(find / -xdev -perm /6000 -type f 2> /dev/null)" ] || fail "a program raises rights"
[ -s /usr/share/mst/sbom.cdx.json ] || fail "no list of parts"
echo "smoke: good ($(tinyproxy -v))"
