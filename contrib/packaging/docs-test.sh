#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Follows the documentation word for word on a real Slurm:
#
#   SLURM=22.05 contrib/packaging/docs-test.sh [PAGE...]
#
# runs every block marked "sh lab" (on the machine of slurmctld) and "sh node" (on
# a GPU node) of the pages, in order, in a lab's root that has the packages of
# dist/ beside it and knows nothing of rifling. Without pages it is the path of a
# newcomer: docs/install.md, from package to report; with "all", every page that
# has such blocks. JOBID and PARTITION are filled in. A block that fails ends it,
# but for those whose page says that they report a failure. Exit status 75: the
# release cannot be fetched.
# shellcheck disable=SC2016 # words for a shell inside
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export SLURM=${SLURM:-22.05} NODES=8 GPUS=8
export LAB=${LAB:-docs-$SLURM}
unset SLURM_CONF
pages=("$@")
[ $# -gt 0 ] || pages=(docs/install.md)
[ "${pages[0]}" != all ] || pages=(docs/install.md docs/configure.md docs/observe-to-steer.md docs/tune.md docs/admin.md docs/troubleshoot.md)
ls dist/rifling_*.deb dist/rifling-collector_*.deb >/dev/null || { echo "no packages: run make release first" >&2; exit 1; }
work=$(mktemp -d)

lab() { contrib/lab/lab.sh "$@"; }
inside() { lab exec "$@"; }
finish() {
	rm -rf "$work"
	[ "${KEEP:-0}" = 1 ] || lab down >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT TERM

# blocks PAGE writes each block to a file of its own, named by its line and kind.
blocks() {
	awk -v to="$work/$(basename "$1" .md)" '
		/^```sh (lab|node)$/ {out = sprintf("%s.%04d.%s", to, NR, $2); print "set -e" >out; next}
		/^```/ {out = ""; next}
		out {print >out}' "$1"
}

lab up >/dev/null
root=$(lab env | sed -n 's/^LAB_ROOT=//p')
lab stop-rest
inside sh -c 'userdel -r rifling 2>/dev/null; sacctmgr -i delete user rifling >/dev/null; mkdir -p /run/systemd/system
	printf "#!/bin/sh\nexec systemctl journal \"\$2\"\n" >/usr/local/bin/journalctl; chmod 755 /usr/local/bin/journalctl
	echo "127.0.0.1 slurmctl" >>/etc/hosts'
install -m 755 contrib/packaging/systemctl "$root/usr/bin/systemctl"
printf "#!/bin/sh\n#SBATCH --gres=gpu:1 -o /dev/null\nsleep 60\n" >"$root/root/job.sh"
cp dist/rifling_*.deb dist/rifling-collector_*.deb "$root/root/"
# The node gpu01 and its emulated GPUs: what a driver would be on a real one.
install -m 755 bin/libnvidia-ml.so.1 "$root/usr/lib/"
inside emujob --prepare gpu01 --gpus "$GPUS"
node=(RIFLING_COLLECTOR_NODE=gpu01 RIFLING_COLLECTOR_NVML_LIBRARY=/usr/lib/libnvidia-ml.so.1
	RIFLING_NVML_STUB_DIR=/lab/emu/nodes/gpu01 RIFLING_COLLECTOR_SYSFS=/lab/emu/nodes/gpu01/sys)
# Users at work, so that there is something to report: one job a node, and two that wait.
job() { lab as "$1" sbatch --parsable -o /dev/null "${@:2}" --wrap 'sleep 900'; }
for n in 1 2 3 4 5 6 7 8; do job dave -J train -w "gpu0$n" -N1 --gres=gpu:7 -t 120 >/dev/null; done
jobid=$(job alice -J bert --nodes=1-4 --gpus=8 -t 30)
job bob -J gpt --nodes=1-4 --gpus=8 -t 30 >/dev/null

echo "following ${pages[*]} on Slurm $SLURM"
start=$SECONDS count=0
for page in "${pages[@]}"; do
	blocks "$page"
	for block in "$work/$(basename "$page" .md)".*.lab "$work/$(basename "$page" .md)".*.node; do
		[ -f "$block" ] || continue
		echo "$block"
	done | sort >"$work/list"
	while read -r block; do
		line=$(basename "$block" | cut -d. -f2) kind=${block##*.} env=(A=1)
		[ "$kind" = lab ] || env=("${node[@]}")
		sed -i "s/JOBID/$jobid/g; s/PARTITION/gpu/g" "$block"
		# A site whose users are at work: the report must have something to say.
		if grep -q '^rifling jobs' "$block"; then
			for ((i = 0; i < 60; i++)); do inside rifling jobs -n -P -o jobid,action 2>/dev/null | grep -q "^$jobid|" && break; sleep 1; done
		fi
		rc=0
		began=$SECONDS
		inside env "${env[@]}" DEBIAN_FRONTEND=noninteractive bash -c "$(cat "$block")" </dev/null >"$work/out" 2>&1 || rc=$?
		count=$((count + 1))
		printf '%-24s line %-4d %3d s  %s\n' "$(basename "$page")" "$((10#$line))" $((SECONDS - began)) "$(sed -n '2p' "$block" | cut -c1-60)"
		[ "${SHOW:-0}" = 0 ] || sed 's/^/    /' "$work/out"
		if [ $rc != 0 ]; then
			echo "FAILED with status $rc:" >&2
			cat "$block" "$work/out" >&2
			exit 1
		fi
		cp "$work/out" "$work/last"
	done <"$work/list"
done
echo "$count blocks followed in $((SECONDS - start)) s (the lab itself took $start s)"
if [ "${pages[*]}" = docs/install.md ]; then
	grep -q . "$work/last" || { echo "the report is empty" >&2; exit 1; }
	cat "$work/last"
	echo "newcomer: from package to report in $((SECONDS - start)) s"
	[ $((SECONDS - start)) -lt 600 ] || { echo "that is more than 10 minutes" >&2; exit 1; }
fi
