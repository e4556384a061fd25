#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the deb in a clean root beside a real Slurm, follows it through its
# life, and takes it away again: SLURM=24.11 contrib/packaging/install-test.sh.
# The root is a lab's (contrib/lab): Debian 12, 13 or sid with that release's
# Slurm running in it. Packages come from dist/ (make release). KEEP=1 leaves the
# lab up. Exit status 75: the release cannot be fetched; 1: something is wrong.
# shellcheck disable=SC2015,SC2016,SC2317 # words for a shell inside; functions that others call
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export SLURM=${SLURM:-22.05} NODES=8 GPUS=8
export LAB=${LAB:-install-$SLURM}
unset SLURM_CONF
deb=$(ls dist/rifling_*.deb) collector=$(ls dist/rifling-collector_*.deb)
work=$(mktemp -d)
failed=0

lab() { contrib/lab/lab.sh "$@"; }
inside() { lab exec "$@"; }
ok() { printf 'ok    %4d s  %s\n' $SECONDS "$*"; }
bad() { printf 'FAIL  %4d s  %s\n' $SECONDS "$*"; failed=1; }
check() { local what=$1; shift; if "$@" >"$work/out" 2>&1; then ok "$what"; else bad "$what"; tail -n 20 "$work/out"; fi; }
refused() { local what=$1; shift; if "$@" >"$work/out" 2>&1; then bad "$what"; tail -n 20 "$work/out"; else ok "$what"; fi; }
said() { if grep -qE -- "$2" "$work/out"; then ok "$1"; else bad "$1: no line like '$2'"; tail -n 20 "$work/out"; fi; }

finish() {
	rm -rf "$work"
	[ "${KEEP:-0}" = 1 ] || lab down >/dev/null 2>&1 || true
}
trap finish EXIT
trap 'exit 130' INT TERM

lab up >/dev/null
root=$(lab env | sed -n 's/^LAB_ROOT=//p')
ok "Slurm $SLURM runs in a root of $(sed -n 's/^PRETTY_NAME=//p' "$root/etc/os-release")"

# The lab has a user rifling and a slurmrestd of its own; a clean machine has
# neither, and Slurm does not know the user. systemd does not run here.
lab stop-rest
inside sh -c 'userdel -r rifling 2>/dev/null; sacctmgr -i delete user rifling >/dev/null; mkdir -p /run/systemd/system'
install -m 755 contrib/packaging/systemctl "$root/usr/bin/systemctl" # dpkg looks nowhere else
cp "$deb" "$collector" "$root/tmp/"

# files lists everything on the machine with owner, mode and content, but for
# what Slurm, the package manager and this test write.
files() {
	inside find / -xdev \( -path /lab -o -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /var/cache \
		-o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path '/etc/*-' -o -path /root -o -path /home \) -prune -o \
		\( -type d -printf '%p %M %u:%g\n' -o -type l -printf '%p -> %l\n' -o -type f -printf '%p %M %u:%g %s\n' \) | sort
	inside sh -c 'sha256sum /etc/passwd /etc/group /etc/shadow /etc/gshadow /etc/subuid 2>/dev/null; systemctl daemon-reload; ls /run' | grep -v standin
}
# slurm_state is what rifling must leave as it was: configuration, nodes and
# partitions, without times and loads.
slurm_state() {
	inside scontrol show config | grep -vE 'as of|BOOT_TIME|NEXT_JOB_ID|is UP'
	inside scontrol -o show partitions
}
# job prints what a user set of a job, without what Slurm itself moves.
job() {
	inside scontrol -o show job "$1" | tr ' ' '\n' |
		grep -E '^(JobId|JobName|UserId|Nice|Account|QOS|Requeue|TimeLimit|Partition|ReqNodeList|ExcNodeList|NumNodes|NumCPUs|ReqTRES|Features|Dependency|Comment|TresPerJob|Command)='
}
excluded() { inside scontrol -o show job "$1" | grep -o 'ExcNodeList=[^ ]*' | cut -d= -f2; }

files >"$work/files.before"
slurm_state >"$work/slurm.before"

apt=(inside env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends)
check "apt-get install" "${apt[@]}" install "/tmp/$(basename "$deb")"
said "the install says what comes next" "rifling setup"
check "the user is a system user without a shell" inside sh -c 'test "$(id -u rifling)" -lt 1000 && getent passwd rifling | grep -q nologin'
check "folders and files have their modes" inside sh -c '
	test "$(stat -c "%a %U:%G" /etc/rifling)" = "750 root:rifling" &&
	test "$(stat -c "%a %U:%G" /etc/rifling/rifling.yaml)" = "640 root:rifling" &&
	test "$(stat -c "%a %U:%G" /var/lib/rifling)" = "750 rifling:rifling"'
check "the configuration is a conffile" inside sh -c 'dpkg-query -W -f="\${Conffiles}" rifling | grep -q /etc/rifling/rifling.yaml'
check "manual pages of sections 1, 5 and 8" inside sh -c 'for p in man1/rifling.1 man1/rifling-setup.1 man5/rifling.yaml.5 man8/riflingd.8; do gzip -t /usr/share/man/$p.gz || exit; done'
check "completions for bash, zsh and fish" inside sh -c 'bash -n /usr/share/bash-completion/completions/rifling && test -s /usr/share/zsh/vendor-completions/_rifling && test -s /usr/share/fish/vendor_completions.d/rifling.fish'
check "nothing was enabled or started" inside sh -c '! ls /etc/systemd/system/*.wants/rifling* 2>/dev/null'

refused "setup, with nothing set up yet, exits 1" inside rifling setup
said "it names the missing slurmrestd" 'enable --now rifling-slurmrestd'
grep -E '^  sacctmgr ' "$work/out" | sed 's/^ *//' >"$work/todo"
[ "$(wc -l <"$work/todo")" = 2 ] && ok "it prints two sacctmgr lines" || bad "it prints two sacctmgr lines"
while read -r line; do check "$line" inside sh -c "$line"; done <"$work/todo"
check "systemctl enable --now rifling-slurmrestd" inside systemctl enable --now rifling-slurmrestd
sleep 1
check "setup again, now complete" inside rifling setup --force
said "rights are there" '^ok +rights +acting as rifling, AdminLevel Operator'
check "rifling check" inside rifling check
check "riflingd in mode observe" inside systemctl enable --now riflingd rifling-watchdog.timer

# A full cluster with one GPU free on each node, and a job that would be
# scattered over them: steering narrows its nodes.
for n in 1 2 3 4 5 6 7 8; do
	lab as dave sbatch -Q -o /dev/null -J filler -w "gpu0$n" -N1 --gres=gpu:7 -t 120 --wrap 'sleep 600' >/dev/null
done
wait_for() { local i; for ((i = 0; i < 90; i++)); do if "${@:2}" >/dev/null 2>&1; then ok "$1"; return; fi; sleep 1; done; bad "$1"; }
eight_run() { [ "$(inside squeue -h -t R -n filler | wc -l)" = 8 ]; }
wait_for "the cluster is full" eight_run
own=$(lab as alice sbatch --parsable -o /dev/null -J own --nodes=1-4 --gpus=8 -t 30 --exclude=gpu08 --nice=40 --comment=mine --wrap 'sleep 600')
job "$own" >"$work/job.before"
observed() { inside rifling jobs -n -P -o jobid,action | grep -q "^$own|"; }
wait_for "observe decides about job $own" observed
[ "$(excluded "$own")" = gpu08 ] && ok "observe changes nothing" || bad "observe changed ExcNodeList to $(excluded "$own")"

steer() {
	sed -i 's/^mode: observe/mode: steer/' "$root/etc/rifling/rifling.yaml"
	printf '%s\n' RIFLING_INTERVAL=1s RIFLING_AGENT_EPSILON=0 RIFLING_AGENT_EPSILON_MIN=0 >>"$root/etc/default/riflingd"
	inside systemctl restart riflingd
}
check "mode: steer" steer
narrowed() { [ "$(excluded "$own")" != gpu08 ]; }
wait_for "job $own is steered" narrowed
ok "  ExcNodeList=$(excluded "$own")"

check "an upgrade keeps the edited configuration and the steering" inside dpkg --force-confold -i "/tmp/$(basename "$deb")"
check "the edited line is still there" inside grep -q '^mode: steer' /etc/rifling/rifling.yaml
wait_for "job $own is steered after the upgrade" narrowed

# The worst case: the daemon is killed, so it takes nothing back itself.
inside sh -c 'kill -9 $(cat /run/standin/riflingd.service.pid)'
lab stop-rest >/dev/null 2>&1 || true
inside systemctl stop rifling-slurmrestd
refused "a removal that would leave job $own narrowed is refused" "${apt[@]}" remove rifling
said "it says why and what to do" 'Start rifling-slurmrestd'
check "the package is still there" inside rifling version
check "systemctl start rifling-slurmrestd" inside systemctl start rifling-slurmrestd
check "apt-get remove, after kill -9 of the daemon" "${apt[@]}" remove rifling
[ "$(excluded "$own")" = gpu08 ] && ok "job $own has its user's list again" || bad "ExcNodeList=$(excluded "$own")"
job "$own" >"$work/job.after"
if diff "$work/job.before" "$work/job.after" >"$work/out"; then ok "job $own is as its user left it"; else bad "job $own differs"; cat "$work/out"; fi
check "state and configuration stay after remove" inside sh -c 'test -s /var/lib/rifling/rifling.db && test -f /etc/rifling/rifling.yaml'
check "no unit is enabled any more" inside sh -c '! ls /etc/systemd/system/*.wants/rifling* 2>/dev/null'
check "apt-get purge" "${apt[@]}" purge rifling
said "it says that Slurm still knows the user" 'sacctmgr delete user rifling'
check "no process of rifling's is left" sh -c '! grep -sl "/rifling" /proc/[0-9]*/comm'

check "the collector installs" "${apt[@]}" install "/tmp/$(basename "$collector")"
refused "its check says what is missing" inside rifling-collector check
said "a hint is there" 'FAIL'
check "the collector purges" "${apt[@]}" purge rifling-collector

inside sh -c 'sacctmgr -i delete user rifling' >/dev/null 2>&1 || true
files >"$work/files.after"
if diff "$work/files.before" "$work/files.after" >"$work/out"; then ok "every file, owner and mode of the machine is as before"; else bad "files differ"; cat "$work/out"; fi
slurm_state >"$work/slurm.after"
if diff "$work/slurm.before" "$work/slurm.after" >"$work/out"; then ok "Slurm's configuration and partitions are as before"; else bad "Slurm differs"; cat "$work/out"; fi

[ $failed = 0 ] && echo "install test on Slurm $SLURM: all passed in $SECONDS s" || echo "install test on Slurm $SLURM: FAILED"
exit $failed
