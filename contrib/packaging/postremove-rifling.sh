#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# After a removal. A deb's purge takes state, configuration and user too; an rpm
# knows no purge, so what was learnt and the configuration stay until the admin
# removes them: rm -r /etc/rifling /var/lib/rifling; userdel rifling.
set -e

case ${1:-} in
remove | 0)
	rm -rf /run/rifling
	if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
	;;
purge)
	rm -rf /var/lib/rifling /etc/rifling /run/rifling
	if getent passwd rifling >/dev/null; then userdel rifling || true; fi
	if getent group rifling >/dev/null; then groupdel rifling || true; fi
	echo "rifling: Slurm itself may still know the user: sacctmgr delete user rifling"
	;;
esac
