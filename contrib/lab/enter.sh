#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installed as /lab/enter inside a lab: runs a command as a user, under the
# lab's fake clock when there is one.   enter USER CMD...
user=$1
shift
entry=$(getent passwd "$user") || { echo "lab: no user $user in the lab" >&2; exit 1; }
HOME=$(echo "$entry" | cut -d: -f6) USER=$user LOGNAME=$user SHELL=/bin/bash
export HOME USER LOGNAME SHELL
cd "$HOME" 2>/dev/null || cd /
# Only from here on: the shell itself has nothing to do under the fake clock.
# shellcheck source=/dev/null
[ -n "$NO_CLOCK" ] || [ ! -f /lab/clock ] || . /lab/clock
unset NO_CLOCK entry
[ "$user" != root ] || exec "$@"
exec setpriv --reuid "$user" --regid "$user" --init-groups -- "$@"
