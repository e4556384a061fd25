#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Tries job_submit.lua on a real Slurm: SLURM=24.11 contrib/job_submit/test.sh.
# With LAB set to a lab that is up, that one is used, and left up.
# shellcheck disable=SC2317 # functions that others call
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export SLURM=${SLURM:-24.11}
own=${LAB:+0}
export LAB=${LAB:-grace-$SLURM}
unset SLURM_CONF
lab() { contrib/lab/lab.sh "$@"; }
finish() { [ "${own:-1}" = 0 ] || lab down >/dev/null 2>&1 || true; }
trap finish EXIT
failed=0
ok() { echo "ok    $*"; }
bad() { echo "FAIL  $*"; failed=1; }

[ "${own:-1}" = 0 ] || NODES=2 GPUS=4 lab up >/dev/null
root=$(lab env | sed -n 's/^LAB_ROOT=//p')
# The lab's clock may be fast, so the window is longer than starting takes.
sed 's/^local GRACE = .*/local GRACE = 20/' contrib/job_submit/job_submit.lua >"$root/lab/etc/job_submit.lua"
grep -q JobSubmitPlugins "$root/lab/etc/slurm.conf" || echo JobSubmitPlugins=lua >>"$root/lab/etc/slurm.conf"
lab restart-ctld

job() { lab as alice sbatch --parsable -o /dev/null -t 5 "$@" --wrap 'sleep 1'; }
# window ID tells how many seconds lie between submission and begin.
window() {
	local submit eligible
	submit=$(lab exec scontrol -o show job "$1" | grep -o 'SubmitTime=[^ ]*' | cut -d= -f2)
	eligible=$(lab exec scontrol -o show job "$1" | grep -o 'EligibleTime=[^ ]*' | cut -d= -f2)
	echo $(($(date -d "$eligible" +%s) - $(date -d "$submit" +%s)))
}
expect() { # WHAT SECONDS OPTIONS...
	local id got
	id=$(job "${@:3}")
	got=$(window "$id")
	if [ "$got" -ge "$2" ] && [ "$got" -le $(($2 + 1)) ]; then ok "$1: $got s"; else bad "$1: $got s, not $2"; fi
}
expect "--gres=gpu:1 has a window" 19 --gres=gpu:1
last=$(job --gpus=1)
expect "--gpus=2 has one" 19 --gpus=2
expect "--gpus-per-node=1 has one" 19 --gpus-per-node=1
expect "a job without GPUs has none" 0 -n1
expect "an opted-out job has none" 0 --gres=gpu:1 --comment=rifling=off
expect "a job with a node list has none" 0 --gres=gpu:1 -w gpu01
expect "a user's own begin time stays" 300 --gres=gpu:1 --begin=now+300
# The window expires by itself: no daemon of rifling's runs here.
for ((i = 0; i < 60; i++)); do
	state=$(lab exec scontrol -o show job "$last" | grep -o 'JobState=[A-Z]*' | cut -d= -f2)
	[[ $state == PENDING ]] || break
	sleep 1
done
if [ "$state" != PENDING ]; then ok "the window expired by itself: $state"; else bad "the job still waits"; fi
lab exec scancel -u alice
exit $failed
