#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before rifling-collector is removed (deb: remove, rpm: 0), not before an upgrade.
set -e

case ${1:-} in
remove | 0) ;;
*) exit 0 ;;
esac
if command -v systemctl >/dev/null; then
	if [ -d /run/systemd/system ]; then systemctl stop rifling-collector.service 2>/dev/null || true; fi
	systemctl --quiet disable rifling-collector.service 2>/dev/null || true
fi
