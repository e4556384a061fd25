#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Before the files of an install or upgrade, deb and rpm: the user that owns
# some of them. The same as sysusers.d/rifling.conf, for machines without it.
set -e

if ! getent group rifling >/dev/null; then
	groupadd --system rifling
fi
if ! getent passwd rifling >/dev/null; then
	useradd --system --gid rifling --home-dir /var/lib/rifling --no-create-home \
		--shell /usr/sbin/nologin --comment 'rifling, a GPU scheduler beside Slurm' rifling
fi
