# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Starting, watching and stopping the lab's processes. All run in the
# foreground of their own session, so the pid known here is the daemon's.

# ours PID tells whether a process lives inside this lab.
ours() { [ "/proc/$1/root" -ef "$ROOT" ]; }

alive() {
	local pid
	pid=$(cat "$DIR/run/$1.pid" 2>/dev/null) && [ -n "$pid" ] && ours "$pid"
}

gone() { ! ours "$1"; }

# spawn NAME USER CMD... starts a daemon unless it runs already.
spawn() {
	local name=$1
	shift
	! alive "$name" || return 0
	# enter would leave a shell of this script behind; setsid and env replace it.
	setsid env -i PATH="$LAB_PATH" LANG=C.UTF-8 \
		${NO_CLOCK:+NO_CLOCK=1} ${SLURM_JWT:+SLURM_JWT="$SLURM_JWT"} \
		chroot "$ROOT" /lab/enter "$@" </dev/null >>"$ROOT/lab/log/$name.out" 2>&1 8>&- 9>&- &
	echo $! >"$DIR/run/$name.pid"
}

# stop NAME ends one daemon and waits for its end.
stop() {
	local pid
	alive "$1" || return 0
	pid=$(cat "$DIR/run/$1.pid")
	kill "$pid"
	(wait_for 20 "the end of $1" gone "$pid") || kill -9 "$pid"
	rm -f "$DIR/run/$1.pid"
}

# kill_all ends every process whose root directory is the lab's: daemons, step
# daemons, jobs and commands alike. Everything goes away with it, so no
# process needs time to put its house in order.
kill_all() {
	local p try left
	for ((try = 0; try < 50; try++)); do
		left=0
		for p in /proc/[0-9]*; do
			if ours "${p#/proc/}"; then
				kill -9 "${p#/proc/}" 2>/dev/null || true
				left=1
			fi
		done
		[ "$left" = 1 ] || return 0
		sleep 0.1
	done
	die 1 "some processes inside $ROOT do not end"
}

# start_clock starts the holder of the fake clock. Its shared memory carries
# the start; whoever has the same three variables in the environment reads the
# same time, however late it comes.
start_clock() {
	[ "$SPEED" != 1 ] || return 0
	# shellcheck disable=SC2016 # for the shell inside
	NO_CLOCK=1 spawn clock root faketime -m -f "+0 x$SPEED" sh -c '
		cat >/lab/clock.new <<-EOF
			export LD_PRELOAD=$(echo /usr/lib/*/faketime/libfaketimeMT.so.1)
			export FAKETIME="$FAKETIME" FAKETIME_SHARED="$FAKETIME_SHARED"
		EOF
		chmod 666 /dev/shm/*faketime*
		mv /lab/clock.new /lab/clock
		exec sleep infinity'
	wait_for 10 "the fake clock" test -f "$ROOT/lab/clock"
}

# clock_sample prints a real and a fake moment that belong together. Starting
# date takes a while, so of several tries the quickest counts.
clock_sample() {
	local i a b f gap best=999999999 real=0 fake=0
	for ((i = 0; i < 5; i++)); do
		a=${EPOCHREALTIME/./} f=$(enter root date +%s.%N) b=${EPOCHREALTIME/./}
		gap=$((b - a))
		if [ "$gap" -lt "$best" ]; then best=$gap real=$(((a + b) / 2)) fake=$f; fi
	done
	[ "$SPEED" != 1 ] || fake=$((real / 1000000)).$(printf '%06d' $((real % 1000000)))
	printf '%d.%06d %s\n' $((real / 1000000)) $((real % 1000000)) "$fake"
}

# munged and mariadbd stay in real time: Slurm's own times travel inside the
# credentials, and under the fast clock munged drops clients after 50 ms.
start_all() {
	NO_CLOCK=1 spawn munged munge munged -F
	NO_CLOCK=1 spawn mariadbd slurm mariadbd --no-defaults --datadir=/lab/mysql --socket=/run/mysqld/mysqld.sock --skip-networking \
		--pid-file=/lab/run/mariadbd.pid --innodb-buffer-pool-size=64M --innodb-log-file-size=16M \
		--innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --performance-schema=OFF
	wait_for 20 munged enter munge munge -n
	wait_for 30 mariadbd create_database
	spawn slurmdbd slurm slurmdbd -D
	wait_for 60 slurmdbd enter root sacctmgr -n list cluster
	accounts
	start_ctld
	start_slurmds
	start_rest
}

start_slurmds() {
	local i w
	w=$(node_width)
	for ((i = 1; i <= NODES; i++)); do
		spawn "$(printf "slurmd-%0${w}d" "$i")" root slurmd -D -N "$(printf "gpu%0${w}d" "$i")"
	done
}

# slurmdbd would create it too, but its second connection after a failed first
# one trips over a fault of MariaDB's client library 11.8 ("maximum allowed
# number of columns (=0)").
create_database() {
	NO_CLOCK=1 enter slurm mariadb --no-defaults --socket=/run/mysqld/mysqld.sock -e "create database if not exists $CLUSTER"
}

start_ctld() {
	spawn slurmctld slurm slurmctld -D
	wait_for 60 slurmctld ctld_up
}

ctld_up() { enter root scontrol ping | grep -q 'is UP'; }

start_rest() {
	SLURM_JWT=daemon spawn restd-tcp slurmrest slurmrestd -a rest_auth/jwt "127.0.0.1:$((PORT + 9))"
	if ! alive restd-unix; then
		rm -f "$ROOT/lab/rest/slurmrestd.sock"
		spawn restd-unix rifling slurmrestd -a rest_auth/local unix:/lab/rest/slurmrestd.sock
	fi
}

accounts() {
	[ ! -f "$ROOT/lab/state/accounts" ] || return 0
	enter root sh -e -c '
		add() { sacctmgr -i -Q add "$@"; }
		add cluster '"$CLUSTER"'
		add qos high priority=1000
		add account research teaching cluster='"$CLUSTER"'
		add user alice bob account=research qos=normal,high defaultqos=normal
		add user carol dave account=teaching qos=normal,high defaultqos=normal
		add user rifling account=research adminlevel=Operator qos=normal,high defaultqos=normal
		touch /lab/state/accounts' >"$ROOT/lab/log/accounts.out" 2>&1 ||
		{ cat "$ROOT/lab/log/accounts.out" >&2; die 1 "sacctmgr could not set up the accounts"; }
}

issue_token() {
	local out
	out=$(enter root scontrol token username=rifling "lifespan=$1")
	[[ $out == SLURM_JWT=?* ]] || die 1 "no token: $out"
	(umask 077; echo "${out#SLURM_JWT=}" >"$DIR/token.new")
	mv "$DIR/token.new" "$DIR/token"
	cat "$DIR/token"
}

rest_tcp_up() {
	curl -sf -m 10 -o /dev/null -H "X-SLURM-USER-NAME: rifling" -H "X-SLURM-USER-TOKEN: $(cat "$DIR/token")" \
		"http://127.0.0.1:$((PORT + 9))/slurm/$(rest_version)/ping"
}

rest_unix_up() {
	curl -sf -m 10 -o /dev/null --unix-socket "$ROOT/lab/rest/slurmrestd.sock" "http://localhost/slurm/$(rest_version)/ping"
}

wait_rest() {
	wait_for 30 "slurmrestd on TCP" rest_tcp_up
	wait_for 30 "slurmrestd on its socket" rest_unix_up
}

# nodes_in STATES counts the nodes that answer and are in one of the states.
nodes_in() { enter root sinfo -h -N -p gpu -t "$1" -o '%N %T' | grep -cv '\*' || true; }

# Once in a hundred starts or so a slurmd ends at once under the fast clock
# of a busy machine; waiting for the nodes starts it again.
nodes_idle() {
	start_slurmds
	[ "$(nodes_in idle)" = "$NODES" ]
}

wait_ready() {
	# a repaired lab may have jobs: there, nodes in use are as good as idle ones
	if [ -f "$DIR/lab.env" ]; then
		wait_for 60 "the nodes" nodes_serving
	else
		wait_for 60 "idle nodes" nodes_idle
		probe_job
	fi
	wait_rest
}

nodes_serving() { [ "$(nodes_in idle,mixed,allocated,completing)" = "$NODES" ]; }

probe_job() {
	local id
	id=$(enter alice sbatch --parsable -J lab-probe -t 1 --gres=gpu:1 -o /dev/null --wrap=/bin/true)
	wait_for 60 "the probe job $id" probe_done "$id"
	wait_for 60 "the probe job in sacct" probe_recorded "$id"
}

probe_done() { enter root scontrol show job "$1" | grep -q JobState=COMPLETED; }
probe_recorded() { enter root sacct -nXP -j "$1" -o state | grep -q COMPLETED; }

healthy() {
	local p
	mounted "$ROOT/proc" || return 1
	for p in "$DIR"/run/*.pid; do alive "$(basename "$p" .pid)" || return 1; done
	ctld_up && nodes_serving && rest_tcp_up && rest_unix_up &&
		enter root sacctmgr -n list cluster >/dev/null
}
