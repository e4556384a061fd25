# shellcheck shell=bash disable=SC2154 # lab.sh sets repo
# SPDX-License-Identifier: Apache-2.0
#
# The package tree of a Debian suite, cached, and a lab's own copy of it.

TREE_REV=1 # raise it when prepare_tree changes: older cached trees are rebuilt
PACKAGES=slurmctld,slurmd,slurmrestd,slurmdbd,slurm-client,slurm-wlm-basic-plugins,slurm-wlm-jwt-plugin,slurm-wlm-mysql-plugin,munge,mariadb-server-core,mariadb-client-core,faketime,libfaketime

# need_host installs what the host lacks; that is little by design.
need_host() {
	local cmd missing=()
	for cmd in debootstrap curl flock setsid; do
		command -v "$cmd" >/dev/null || missing+=("$cmd")
	done
	[ ${#missing[@]} -gt 0 ] || return 0
	command -v apt-get >/dev/null ||
		die 69 "needs ${missing[*]}, and there is no apt-get here: install them, or use a Debian machine"
	say "installing ${missing[*]}"
	missing=("${missing[@]/flock/util-linux}")
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]/setsid/util-linux}" >/dev/null 2>&1 ||
		die 69 "apt-get install ${missing[*]} failed: run apt-get update, or install them by hand"
}

mirror() {
	local m=${LAB_MIRROR:-}
	[ -n "$m" ] || m=$(awk '/^URIs:/ && $2 ~ /\/debian\/?$/ {print $2; exit}' /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
	[ -n "$m" ] || m=$(awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /\/debian\/?$/) {print $i; exit}}' /etc/apt/sources.list 2>/dev/null || true)
	echo "${m:-http://deb.debian.org/debian}"
}

skip() { die 75 "SLURM $RELEASE skipped: $*"; }

# ensure_tree builds the suite's tree once. It gets its real name only when it
# is whole, so an interrupted build is never taken as good.
ensure_tree() {
	TREE=$BASE/cache/$SUITE
	mkdir -p "$BASE/cache" "$BASE/lock"
	exec 8>"$BASE/lock/cache-$SUITE"
	flock 8
	if [ "$(cat "$TREE/lab/tree-rev" 2>/dev/null)" != "$TREE_REV" ]; then
		if grep -qF "lowerdir=$TREE," /proc/self/mounts; then
			die 1 "the cached tree $TREE is outdated but in use: run 'ALL=1 $0 down' first"
		fi
		rm -rf --one-file-system "$TREE" "$TREE".tmp
		build_tree "$TREE.tmp"
		mv "$TREE.tmp" "$TREE"
	fi
	exec 8>&-
}

build_tree() {
	local tmp=$1 log=$BASE/cache/$SUITE.log version
	say "fetching Slurm $RELEASE from Debian $SUITE at $(mirror) (about a minute)"
	if ! debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$tmp" "$(mirror)" >"$log" 2>&1 8>&- 9>&-; then
		tail -n 3 "$log" >&2
		rm -rf --one-file-system "$tmp"
		skip "debootstrap of $SUITE failed (whole log: $log; another mirror: LAB_MIRROR=URL)"
	fi
	rm -f "$tmp"/var/cache/apt/archives/*.deb "$log"
	version=$(chroot "$tmp" slurmctld -V)
	case $version in
	"slurm-wlm $RELEASE".* | "slurm $RELEASE".*) ;;
	*) rm -rf --one-file-system "$tmp"; skip "Debian $SUITE now ships '$version'" ;;
	esac
	prepare_tree "$tmp" >"$log" 2>&1 8>&- 9>&-
	rm -f "$log"
}

# prepare_tree does what every lab of a suite would repeat: the users, an empty
# database, the GPU device nodes. Slurm wants character devices; no GPU is touched.
prepare_tree() {
	local t=$1 i user uid=2001
	for user in alice bob carol dave rifling slurmrest; do
		chroot "$t" useradd -u "$uid" -U -m -s /bin/bash "$user"
		uid=$((uid + 1))
	done
	mkdir -p "$t"/lab/{etc,log,run,state,spool,gpus,emu,rest,mysql} "$t"/run/{munge,mysqld}
	ln -sfn /run/mysqld "$t/run/mariadbd" # where 26.05 looks for the socket
	rm -rf "$t/etc/slurm"
	ln -s /lab/etc "$t/etc/slurm"
	: >"$t/etc/resolv.conf" # no lookups outside
	for ((i = 0; i < 64; i++)); do mknod -m 666 "$t/lab/gpus/gpu$i" c 1 3; done
	chroot "$t" chown slurm: /lab/run /lab/log /lab/state /lab/mysql /run/mysqld
	chroot "$t" chown rifling: /lab/rest
	chroot "$t" chown munge: /run/munge
	chmod 1777 "$t/lab/emu"
	# The slurm user logs in to its database by its uid: no password anywhere.
	chroot "$t" mariadb-install-db --no-defaults --user=slurm --datadir=/lab/mysql --skip-test-db --skip-name-resolve --force \
		--auth-root-authentication-method=socket --auth-root-socket-user=slurm
	echo "$TREE_REV" >"$t/lab/tree-rev"
}

mounted() { grep -qF " $1 " /proc/self/mountinfo; }

# mount_root makes the lab's own root: a layer over the cached tree, or a copy
# where the file system can not serve as one.
mount_root() {
	mkdir -p "$ROOT" "$DIR/upper" "$DIR/work"
	if ! mount -t overlay rifling-lab -o "lowerdir=$TREE,upperdir=$DIR/upper,workdir=$DIR/work" "$ROOT" 2>/dev/null; then
		say "no overlay mounts on $BASE: copying the tree instead"
		cp -a --reflink=auto "$TREE/." "$ROOT/"
	fi
	mkdir -p "$ROOT"/{proc,sys,dev/shm}
	mount -t proc proc "$ROOT/proc"
	mount -t sysfs -o ro sysfs "$ROOT/sys"
	mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm" # the fake clock lives there
}

unmount_root() {
	local m try
	for try in 1 2 3 4 5; do
		# deepest first: mountinfo lists a parent before its children
		for m in $(awk -v d="$DIR/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo | tac); do
			if [ "$try" -lt 5 ]; then umount "$m" 2>/dev/null || true; else umount -l "$m"; fi
		done
		grep -qF " $DIR/" /proc/self/mountinfo || return 0
		sleep 0.2
	done
	! grep -qF " $DIR/" /proc/self/mountinfo
}

teardown() {
	kill_all
	unmount_root || die 1 "could not unmount everything below $DIR"
	rm -rf --one-file-system "$DIR"
}

install_files() {
	local f
	for f in "$@"; do
		# by rename: the program may be running in a job
		install -m 755 "$f" "$ROOT/usr/local/bin/.new"
		mv "$ROOT/usr/local/bin/.new" "$ROOT/usr/local/bin/$(basename "$f")"
	done
}

install_emujob() { [ ! -f "$repo/bin/emujob" ] || install_files "$repo/bin/emujob"; }
