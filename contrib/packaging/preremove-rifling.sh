#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before rifling is removed (deb: remove, rpm: 0), not before an upgrade. First
# riflingd ends, which takes back all that it set in Slurm. Then `rifling
# release` makes sure of it, also where the daemon was killed, and needs
# slurmrestd for that: hence the order. A removal that would leave jobs narrowed
# is refused, since nobody would take that back any more.
set -e

case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac

stop() {
	for unit in "$@"; do
		systemctl stop "$unit" 2>/dev/null || true
	done
}

if [ -d /run/systemd/system ]; then stop rifling-watchdog.timer riflingd.service; fi

release() {
	# Only plain words of the daemon's environment: no shell reads that file.
	# shellcheck disable=SC2046
	runuser -u rifling -- env $(grep -hE '^RIFLING_[A-Z0-9_]+=[^[:space:]"'"'"']*$' /etc/default/riflingd 2>/dev/null) \
		/usr/bin/rifling release 2>&1
}

if out=$(release); then
	echo "rifling: $out"
else
	case $out in
	*'there is no database'*) ;; # it never ran
	*)
		echo "rifling: $out" >&2
		if [ "${RIFLING_LEAVE:-}" != 1 ]; then
			cat >&2 <<-'EOT'
				rifling: not removed, since what it set on pending jobs could not be taken back.
				Start rifling-slurmrestd (or the slurmrestd that rifling.yaml names), see that
				`rifling release` succeeds, and remove it then. To remove it all the same and
				leave those jobs as they are, set RIFLING_LEAVE=1 in the environment.
			EOT
			exit 1
		fi
		;;
	esac
fi

if command -v systemctl >/dev/null; then
	if [ -d /run/systemd/system ]; then stop rifling-slurmrestd.service; fi
	systemctl --quiet disable riflingd.service rifling-watchdog.timer rifling-slurmrestd.service 2>/dev/null || true
fi
