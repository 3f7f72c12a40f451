#!/bin/sh
# Runs inside an image: docker run --rm --entrypoint sh -i IMAGE < smoke.sh
# Says what is wrong and ends with 1, or prints what it found.
set -eu
fail() { echo "smoke: $1" >&2; exit 1; }

[ "$(id -u)" = 10001 ] || fail "runs as $(id -un), not as mst"
command -v tini > /dev/null || fail "tini is missing"
mst --version > /dev/null || fail "mst does not start"
python -c 'import celery, redis, obstore, pyrage' || fail "a library of the fleet is missing"
python -c 'import json; assert json.load(open("/usr/share/mst/sbom.cdx.json"))["components"]' || fail "no list of parts"
[ -w /var/lib/mst ] || fail "the scratch folder is not writable"
if touch /usr/lib/mst/x 2> /dev/null; then fail "its own program can be changed"; fi
[ -z "$(find / -xdev -perm /6000 -type f 2> /dev/null)" ] || fail "a program raises rights"
command -v pip > /dev/null && fail "pip is still there"
case "${1:-base}" in
  agents)
    for name in node bwrap git rg; do command -v "$name" > /dev/null || fail "$name is missing"; done
    export HOME=/tmp
    for name in claude codex; do "$name" --version > /dev/null || fail "$name does not start"; done
    mini --help > /dev/null || fail "mini does not start" ;;
  judges) python -c 'import pydantic_ai' || fail "the model library is missing" ;;
esac
echo "smoke: good ($(mst --version), $(python --version))"
