#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After an install or upgrade, deb and rpm, both packages. Nothing is enabled:
# the admin starts rifling once Slurm knows its user. What runs already is
# restarted with the new programs.
set -e

if command -v systemd-sysusers >/dev/null && [ -f /usr/lib/sysusers.d/rifling.conf ]; then
	systemd-sysusers rifling.conf
	systemd-tmpfiles --create rifling.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart riflingd.service rifling-collector.service 2>/dev/null || true
fi
