#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After an install or upgrade, deb and rpm. Nothing is enabled: the admin starts
# rifling once Slurm knows its user. What runs already is restarted with the new
# programs; riflingd then brings its database up to date, with a copy of the old.
set -e

# A package's own owner and group are lost where the package manager unpacks
# before it knows them.
chgrp rifling /etc/rifling /etc/rifling/rifling.yaml 2>/dev/null || true
chown rifling:rifling /var/lib/rifling

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart rifling-slurmrestd.service riflingd.service rifling-watchdog.timer 2>/dev/null || true
fi
# A first install: deb passes no older version, rpm the number of installed ones.
case ${1:-}/${2:-} in
configure/ | 1/)
	echo "rifling: 'rifling setup' looks at this site's Slurm and says what comes next; /usr/share/doc/rifling/install.md is the guide."
	;;
esac
