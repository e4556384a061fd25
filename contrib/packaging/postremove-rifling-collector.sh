#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After a removal of the collector: samples that were not sent go with it. A
# deb's purge takes the secret too, unless the daemon's package is here, whose
# folder it is.
set -e

case ${1:-} in
remove | 0)
	rm -rf /var/lib/private/rifling-collector /var/lib/rifling-collector
	if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	;;
purge)
	if [ ! -e /usr/bin/riflingd ] && [ ! -d /var/lib/rifling ]; then
		rm -f /etc/rifling/secret
		rmdir /etc/rifling 2>/dev/null || true
	fi
	;;
esac
