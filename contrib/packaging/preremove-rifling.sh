#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before rifling is removed (deb: remove, rpm: 0), not before an upgrade.
# riflingd takes back all that it set in Slurm when it stops, and needs its
# slurmrestd for that: hence the order.
set -e

case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	for unit in riflingd.service rifling-watchdog.timer rifling-slurmrestd.service; do
		systemctl disable --now "$unit" 2>/dev/null || true
	done
fi
