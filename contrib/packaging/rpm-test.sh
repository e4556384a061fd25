#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the rpms of dist/ with rpm's own tools: what they hold, with which
# owners and modes, what they need, what their scripts do, and that nothing is
# there that rpm would stumble over.
# shellcheck disable=SC2015,SC2317 # functions that others call
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v rpm >/dev/null || { echo "needs rpm: apt-get install rpm" >&2; exit 69; }
daemon=$(ls dist/rifling-[0-9]*.rpm) collector=$(ls dist/rifling-collector-[0-9]*.rpm)
failed=0
empty=$(mktemp -d) # rpm makes its database even to read a package
query() { rpm --dbpath "$empty" -qp --nosignature "$@" 2>/dev/null; }
check() { local what=$1; shift; if "$@"; then echo "ok    $what"; else echo "FAIL  $what"; failed=1; fi; }
has() { grep -qE -- "$2" <<<"$1"; }
lacks() { ! has "$@"; }

for p in "$daemon" "$collector"; do
	echo "== $(basename "$p")"
	list=$(query -lv "$p") tags=$(query -i "$p") needs=$(query --requires "$p") scripts=$(query --scripts "$p") configs=$(query -c "$p")
	flags=$(query --qf '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' "$p")
	check "name, version and licence" has "$tags" '^License +: Apache-2.0'
	check "a summary and a description" has "$tags" '^Summary +: [A-Za-z].{10,}'
	check "digests are good" has "$(rpm --dbpath "$empty" -K --nosignature "$p" 2>/dev/null)" 'digests OK'
	check "needs systemd and the C library it was built with" has "$needs" '^systemd'
	check "  glibc, with a version" has "$needs" '^glibc >= 2\.'
	check "no file in /usr/local, /opt, /home or /tmp" lacks "$list" ' /(usr/local|opt|home|tmp)/'
	check "no file that everybody may write to" lacks "$list" '^-.......w'
	check "programs are executable" has "$list" '^-rwxr-xr-x .* /usr/bin/rifling'
	check "manual pages are packed" lacks "$(grep /man/ <<<"$list" | grep -v '^d')" '[^z]$'
	check "zsh's completion lies where RPM systems look" has "$list" '/usr/share/zsh/site-functions/_rifling'
	check "there is a configuration" has "$configs" '^/etc/'
	check "  each of its files is config(noreplace)" lacks "$(grep -Fwf <(echo "$configs") <<<"$flags" | grep -v ' cn$')" .
	check "scripts before and after" has "$scripts" 'preuninstall scriptlet'
	for kind in PREIN POSTIN PREUN POSTUN; do
		body=$(query --qf "%{$kind}" "$p")
		[ "$body" = "(none)" ] || check "  $kind is sh without a fault" sh -n -c "$body"
	done
done

list=$(query -lv "$daemon") scripts=$(query --scripts "$daemon")
echo "== of the daemon alone"
check "/etc/rifling is 0750 root:rifling" has "$list" '^drwxr-x---.* root +rifling .*/etc/rifling$'
check "rifling.yaml is 0640 root:rifling" has "$list" '^-rw-r-----.* root +rifling .*/etc/rifling/rifling.yaml$'
check "/var/lib/rifling is 0750 rifling:rifling" has "$list" '^drwxr-x---.* rifling +rifling .*/var/lib/rifling$'
for page in man1/rifling.1 man5/rifling.yaml.5 man8/riflingd.8; do check "$page" has "$list" "/usr/share/man/$page.gz\$"; done
for unit in riflingd.service rifling-slurmrestd.service rifling-watchdog.service rifling-watchdog.timer; do
	check "$unit" has "$list" "/usr/lib/systemd/system/$unit\$"
done
check "the user is made before the files come" has "$(query --qf '%{PREIN}' "$daemon")" 'useradd --system'
check "a removal gives back first" has "$(query --qf '%{PREUN}' "$daemon")" 'rifling release'
check "an upgrade does not (1 is the number that stays)" has "$(query --qf '%{PREUN}' "$daemon")" '^remove \| 0\) ;;$'
check "nothing is enabled by the package" lacks "$scripts" 'systemctl (--[a-z]+ )*enable'

# Installed into an empty root, without its scripts: every file lands, and rpm
# itself finds none changed.
root=$(mktemp -d)
trap 'rm -rf "$root" "$empty"' EXIT
rpm --root "$root" --initdb
check "installs into an empty root" rpm --root "$root" -i --nodeps --noscripts --nosignature --ignorearch "$daemon" "$collector" 2>"$root/log"
changed=$(rpm --root "$root" -V --nodeps --noscripts --nouser --nogroup rifling rifling-collector || true)
check "rpm -V finds nothing changed" test -z "$changed"
[ -z "$changed" ] || echo "$changed"
check "erases again" rpm --root "$root" -e --nodeps --noscripts rifling rifling-collector
left=$(find "$root" -path "$root/var/lib/rpm" -prune -o -path "$root/root/.rpmdb" -prune -o -path "$root/usr/lib/sysimage" -prune -o -type f -print | grep -v "$root/log" || true)
check "and leaves no file" test -z "$left"
[ -z "$left" ] || echo "$left"

[ $failed = 0 ] && echo "rpm test: all passed" || echo "rpm test: FAILED"
exit $failed
