#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A real Slurm on one Debian machine: slurmdbd, slurmctld, one slurmd per
# emulated node, two slurmrestds. See README.md beside this file.
set -Eeuo pipefail
trap 'echo "lab: failed in ${FUNCNAME[0]:-main}, line $LINENO" >&2' ERR

lab_src=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$lab_src/../.." && pwd)
# shellcheck source=contrib/lab/lib/common.sh
. "$lab_src/lib/common.sh"
# shellcheck source=contrib/lab/lib/tree.sh
. "$lab_src/lib/tree.sh"
# shellcheck source=contrib/lab/lib/conf.sh
. "$lab_src/lib/conf.sh"
# shellcheck source=contrib/lab/lib/daemons.sh
. "$lab_src/lib/daemons.sh"

usage() {
	cat <<-'EOF'
	usage: [SLURM=22.05|24.11|26.05] [LAB=name] lab.sh VERB

	  up                     bring the lab up (also NODES=8 GPUS=8 SPEED=1 LAB_CONF=file)
	  down                   stop and remove the lab; with ALL=1 all labs and the cached packages
	  exec CMD...            run a command inside the lab as root
	  as USER CMD...         the same as alice, bob, carol, dave or rifling
	  env                    print the lab's KEY=VALUE file
	  list                   list the labs
	  token [SECONDS]        print a fresh JWT for user rifling, and write it to the token file
	  install FILE...        copy programs to /usr/local/bin inside the lab
	  stop-ctld, start-ctld, restart-ctld
	  stop-rest, start-rest
	EOF
}

main() {
	local verb=${1:-help}
	[ $# -eq 0 ] || shift
	case $verb in help | -h | --help) usage; return ;; esac
	check_params
	case $verb in
	list) list_labs ;;
	env) need_lab; cat "$DIR/lab.env" ;;
	up | down | exec | as | token | install | stop-ctld | start-ctld | restart-ctld | stop-rest | start-rest)
		need_root
		"verb_${verb//-/_}" "$@"
		;;
	*) usage >&2; exit 2 ;;
	esac
}

verb_up() {
	need_host
	lock_lab
	if [ -f "$DIR/lab.env" ]; then
		same_params
		if healthy; then
			install_emujob
			say "$LAB is already up"
			summary
			return
		fi
		say "$LAB is not healthy: repairing it"
		if (repair); then summary; return; fi
		say "$LAB could not be repaired: building it anew"
	fi
	if [ -e "$DIR" ]; then teardown; fi
	ensure_tree
	build
	summary
}

# repair starts whatever is gone. A lost clock or mount means a rebuild: the
# records in the database would be from another time.
repair() {
	mounted "$ROOT/proc" || exit 1
	[ "$SPEED" = 1 ] || alive clock || exit 1
	start_all
	enter root scontrol update "nodename=$(node_range)" state=resume 2>/dev/null || true
	wait_ready
}

build() {
	mkdir -p "$DIR/run"
	reserve_ports
	mount_root
	write_config
	install_emujob
	start_clock
	start_all
	issue_token "$TOKEN_LIFE" >/dev/null
	wait_ready
	write_env
}

verb_down() {
	if [ "${ALL:-0}" = 1 ]; then
		local name
		for name in $(lab_names); do
			use_lab "$name"
			lock_lab
			teardown
			say "$LAB is down"
		done
		rm -rf --one-file-system "$BASE/cache" "$BASE/lock"
	else
		lock_lab
		teardown
		say "$LAB is down"
		rm -f "$BASE/lock/$LAB"
	fi
	rmdir "$BASE/lock" "$BASE" 2>/dev/null || true
}

verb_exec() {
	need_lab
	[ $# -gt 0 ] || die 2 "exec needs a command"
	enter root "$@" || exit
}

verb_as() {
	need_lab
	[ $# -gt 1 ] || die 2 "as needs a user and a command"
	enter "$@" || exit
}

verb_token() {
	need_lab
	issue_token "${1:-$TOKEN_LIFE}"
}

verb_install() {
	need_lab
	[ $# -gt 0 ] || die 2 "install needs a file"
	install_files "$@"
}

verb_stop_ctld() { need_lab; stop slurmctld; }
verb_start_ctld() { need_lab; start_ctld; }
verb_restart_ctld() { verb_stop_ctld; start_ctld; }
verb_stop_rest() { need_lab; stop restd-tcp; stop restd-unix; }
verb_start_rest() { need_lab; start_rest; wait_rest; }

main "$@"
