#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After an install or upgrade of the collector, deb and rpm. Nothing is enabled;
# what runs is restarted with the new program.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	systemctl try-restart rifling-collector.service 2>/dev/null || true
fi
