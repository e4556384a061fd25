# shellcheck shell=bash disable=SC2034 # the other files use these names
# SPDX-License-Identifier: Apache-2.0
#
# Parameters, messages, locks and the way into a lab.

BASE=${RIFLING_LAB_BASE:-/var/lib/rifling-lab}
PORTS_PER_LAB=200
MAX_NODES=150
LAB_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() { printf 'lab: %s\n' "$*" >&2; }

die() {
	local rc=$1
	shift
	say "$*"
	exit "$rc"
}

check_params() {
	RELEASE=${SLURM:-22.05}
	NODES=${NODES:-8} GPUS=${GPUS:-8} SPEED=${SPEED:-1}
	SUITE=$(suite_of "$RELEASE") || die 2 "SLURM=$RELEASE is unknown; use 22.05, 24.11 or 26.05"
	local n
	for n in "$NODES" "$GPUS" "$SPEED"; do
		[[ $n =~ ^[1-9][0-9]{0,2}$ ]] || die 2 "NODES, GPUS and SPEED are whole numbers from 1 to 999, not '$n'"
	done
	[ "$NODES" -le "$MAX_NODES" ] || die 2 "NODES may be $MAX_NODES at most"
	[ "$GPUS" -le 64 ] || die 2 "GPUS may be 64 at most"
	ASKED="$RELEASE $NODES $GPUS $SPEED"
	use_lab "${LAB:-$RELEASE}"
}

suite_of() {
	case $1 in
	22.05) echo bookworm ;;
	24.11) echo trixie ;;
	26.05) echo sid ;;
	*) return 1 ;;
	esac
}

# use_lab points at one lab by name. What an existing lab was built with wins
# over the environment, so that "LAB=x lab.sh exec ..." needs nothing else.
use_lab() {
	LAB=$1
	[[ $LAB =~ ^[A-Za-z0-9][A-Za-z0-9._-]{0,19}$ ]] || die 2 "LAB='$LAB': up to 20 letters, digits, '.', '_', '-'"
	case $LAB in cache | lock) die 2 "LAB='$LAB' is a reserved name" ;; esac
	DIR=$BASE/$LAB ROOT=$BASE/$LAB/root
	[ ${#ROOT} -lt 70 ] || die 2 "RIFLING_LAB_BASE is too long a path for unix sockets: $BASE"
	if [ -f "$DIR/params" ]; then
		read -r RELEASE NODES GPUS SPEED PORT <"$DIR/params"
		SUITE=$(suite_of "$RELEASE")
	fi
	CLUSTER=lab_$(tr 'A-Z.-' 'a-z__' <<<"$LAB")
	TOKEN_LIFE=$((30 * 86400 * SPEED))
	[ "$TOKEN_LIFE" -lt 315360000 ] || TOKEN_LIFE=315360000
}

same_params() {
	local have="$RELEASE $NODES $GPUS $SPEED"
	[ "$ASKED" = "$have" ] ||
		die 2 "$LAB is up with SLURM NODES GPUS SPEED = $have, not $ASKED; take it down first or choose another LAB name"
}

need_root() {
	[ "$(id -u)" = 0 ] || die 77 "needs root (chroot, mounts, device nodes): run it as root or with sudo"
}

need_lab() {
	[ -f "$DIR/lab.env" ] || die 1 "$LAB is not up; SLURM=$RELEASE LAB=$LAB $0 up brings it up"
}

lab_names() {
	local p
	for p in "$BASE"/*/params; do
		[ ! -f "$p" ] || basename "$(dirname "$p")"
	done
}

list_labs() {
	local name state
	for name in $(lab_names); do
		use_lab "$name"
		state=half-built
		if [ -f "$DIR/lab.env" ]; then
			state=down
			if alive slurmctld; then state=up; fi
		fi
		printf '%-20s slurm=%s nodes=%s gpus=%s speed=%s port=%s %s\n' "$LAB" "$RELEASE" "$NODES" "$GPUS" "$SPEED" "$PORT" "$state"
	done
}

# Locks are held on descriptors 8 and 9, which enter closes: a daemon that
# kept one open would hold the lock for ever.
lock_lab() {
	mkdir -p "$BASE/lock"
	exec 9>"$BASE/lock/$LAB"
	flock -w 600 9 || die 1 "another lab.sh works on $LAB"
	use_lab "$LAB"
}

# enter runs a command inside the lab as a user. The environment starts empty:
# a SLURM_CONF from outside would hang every client call.
enter() {
	env -i PATH="$LAB_PATH" \
		LANG=C.UTF-8 TERM="${TERM:-dumb}" ${NO_CLOCK:+NO_CLOCK=1} \
		chroot "$ROOT" /lab/enter "$@" 8>&- 9>&-
}

# wait_for SECONDS WHAT CMD... polls until the command succeeds, or exits.
wait_for() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || die 1 "gave up waiting for $what (logs: $ROOT/lab/log)"
		sleep 0.1
	done
}

node_width() { local w=${#NODES}; [ "$w" -ge 2 ] || w=2; echo "$w"; }

# node_range FROM TO prints a host list such as gpu[01-08].
node_range() {
	local w
	w=$(node_width)
	printf "gpu[%0${w}d-%0${w}d]" "${1:-1}" "${2:-$NODES}"
}
