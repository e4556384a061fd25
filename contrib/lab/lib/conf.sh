# shellcheck shell=bash disable=SC2154 # lab.sh sets lab_src
# SPDX-License-Identifier: Apache-2.0
#
# Ports, configuration files and lab.env.

# port_free FIRST tells whether nothing listens in a lab's block of ports and no
# lab has it. The kernel's own tables need no tool; 0A is LISTEN.
port_free() {
	local hex p
	for hex in $(awk '$4 == "0A" {sub(/.*:/, "", $2); print $2}' /proc/net/tcp /proc/net/tcp6 2>/dev/null); do
		p=$((16#$hex))
		if [ "$p" -ge "$1" ] && [ "$p" -lt $(($1 + PORTS_PER_LAB)) ]; then return 1; fi
	done
	! cat "$BASE"/*/params 2>/dev/null | awk -v p="$1" '$5 == p {f = 1} END {exit !f}'
}

# reserve_ports picks a block below the ports that the kernel hands out by
# itself: +1 slurmctld, +2 slurmdbd, +9 REST, +20..39 left free, +40.. slurmds.
reserve_ports() {
	exec 8>"$BASE/lock/ports"
	flock 8
	PORT=20000
	until port_free "$PORT"; do
		PORT=$((PORT + PORTS_PER_LAB))
		[ "$PORT" -lt 32000 ] || die 1 "no free block of $PORTS_PER_LAB ports from 20000 to 32000"
	done
	echo "$RELEASE $NODES $GPUS $SPEED $PORT" >"$DIR/params"
	exec 8>&-
}

write_config() {
	local etc=$ROOT/lab/etc
	install -m 755 "$lab_src/enter.sh" "$ROOT/lab/enter"
	echo "127.0.0.1 localhost $(hostname)" >"$ROOT/etc/hosts"
	slurm_conf >"$etc/slurm.conf"
	if [ -n "${LAB_CONF:-}" ]; then cat "$LAB_CONF" >>"$etc/slurm.conf"; fi
	printf 'AutoDetect=off\nNodeName=%s Name=gpu Type=a100 File=/lab/gpus/gpu[0-%d]\n' "$(node_range)" $((GPUS - 1)) >"$etc/gres.conf"
	cgroup_conf >"$etc/cgroup.conf"
	topology_conf >"$etc/topology.conf"
	slurmdbd_conf >"$etc/slurmdbd.conf"
	head -c 32 /dev/urandom >"$etc/jwt.key"
	head -c 128 /dev/urandom >"$ROOT/etc/munge/munge.key"
	NO_CLOCK=1 enter root sh -c '
		chown slurm: /lab/etc/slurmdbd.conf /lab/etc/jwt.key && chmod 600 /lab/etc/slurmdbd.conf /lab/etc/jwt.key
		chown munge: /etc/munge/munge.key && chmod 400 /etc/munge/munge.key'
}

# Slurm must not look for the host's cgroups, which are none of its business
# here: 22.05 can not be told so, but its v1 plugin looks only when used.
cgroup_conf() {
	case $RELEASE in
	22.05) echo CgroupPlugin=cgroup/v1 ;;
	*) echo CgroupPlugin=disabled ;;
	esac
}

# Two leaf switches under one core switch; a single node gets one leaf.
topology_conf() {
	local half=$(((NODES + 1) / 2))
	echo "SwitchName=leaf1 Nodes=$(node_range 1 "$half")"
	if [ "$NODES" -gt 1 ]; then
		echo "SwitchName=leaf2 Nodes=$(node_range $((half + 1)) "$NODES")"
		echo "SwitchName=core Switches=leaf[1-2]"
	fi
}

# Slurm's time-outs count fast seconds, but its messages and processes need
# real ones: at SPEED > 1 all of them grow with it. So do the scheduler's
# pauses, or it would take a whole processor.
timing_conf() {
	local s=$SPEED
	if [ "$s" = 1 ]; then
		echo "SchedulerParameters=bf_interval=2,bf_continue,bf_window=10080,sched_interval=5,batch_sched_delay=0,default_queue_depth=1000,bf_max_job_test=1000"
		echo "JobAcctGatherFrequency=5"
		return
	fi
	cat <<-EOF
	SchedulerParameters=bf_interval=$((s > 8 ? s / 2 : 4)),bf_continue,bf_window=10080,sched_interval=$((s > 20 ? s : 20)),batch_sched_delay=1,sched_min_interval=$((s * 50000)),default_queue_depth=1000,bf_max_job_test=1000
	JobAcctGatherFrequency=$((2 * s))
	AuthInfo=ttl=3600,cred_expire=$((120 * s))
	MessageTimeout=$((10 * s))
	TCPTimeout=$((2 * s))
	BatchStartTimeout=$((10 * s))
	SlurmdTimeout=$((30 * s))
	SlurmctldTimeout=$((120 * s))
	UnkillableStepTimeout=$((60 * s))
	EioTimeout=$((60 * s))
	KillWait=30
	EOF
}

slurm_conf() {
	cat <<-EOF
	ClusterName=$CLUSTER
	SlurmctldHost=localhost
	SlurmctldPort=$((PORT + 1))
	SlurmUser=slurm
	AuthType=auth/munge
	AuthAltTypes=auth/jwt
	AuthAltParameters=jwt_key=/lab/etc/jwt.key
	CredType=cred/munge
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	MpiDefault=none
	ReturnToService=2
	SlurmdParameters=config_overrides
	SlurmctldPidFile=/lab/run/slurmctld.pid
	SlurmdPidFile=/lab/run/slurmd-%n.pid
	SlurmdSpoolDir=/lab/spool/%n
	StateSaveLocation=/lab/state
	SlurmctldLogFile=/lab/log/slurmctld.log
	SlurmdLogFile=/lab/log/slurmd-%n.log
	SchedulerType=sched/backfill
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core
	TopologyPlugin=topology/tree
	PriorityType=priority/multifactor
	PriorityWeightAge=1000
	PriorityMaxAge=1-0
	PriorityWeightFairshare=10000
	PriorityWeightJobSize=1000
	PriorityWeightQOS=5000
	PriorityDecayHalfLife=7-0
	PriorityCalcPeriod=1
	GresTypes=gpu
	AccountingStorageType=accounting_storage/slurmdbd
	AccountingStorageHost=localhost
	AccountingStoragePort=$((PORT + 2))
	AccountingStorageTRES=gres/gpu
	AccountingStorageEnforce=associations,limits,qos
	JobAcctGatherType=jobacct_gather/linux
	MinJobAge=300
	$(timing_conf)
	NodeName=$(node_range) NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((PORT + 40))-$((PORT + 39 + NODES))] CPUs=$((2 * GPUS)) Sockets=2 CoresPerSocket=$GPUS ThreadsPerCore=1 RealMemory=64000 Gres=gpu:a100:$GPUS State=UNKNOWN
	PartitionName=gpu Nodes=ALL Default=YES DefaultTime=1:00:00 MaxTime=7-0 DefCpuPerGPU=1 PriorityTier=1 State=UP
	PartitionName=short Nodes=ALL DefaultTime=10:00 MaxTime=1:00:00 DefCpuPerGPU=1 PriorityTier=2 State=UP
	EOF
}

slurmdbd_conf() {
	cat <<-EOF
	AuthType=auth/munge
	AuthAltTypes=auth/jwt
	AuthAltParameters=jwt_key=/lab/etc/jwt.key
	DbdHost=localhost
	DbdPort=$((PORT + 2))
	SlurmUser=slurm
	StorageType=accounting_storage/mysql
	StorageHost=localhost
	StorageUser=slurm
	StorageLoc=$CLUSTER
	LogFile=/lab/log/slurmdbd.log
	PidFile=/lab/run/slurmdbd.pid
	EOF
}

# write_env comes last: a lab with this file was once fully up.
write_env() {
	local real fake
	read -r real fake < <(clock_sample)
	cat >"$DIR/lab.env.new" <<-EOF
	LAB_NAME=$LAB
	LAB_RELEASE=$RELEASE
	LAB_SUITE=$SUITE
	LAB_CLUSTER=$CLUSTER
	LAB_ROOT=$ROOT
	LAB_NODES=$NODES
	LAB_GPUS=$GPUS
	LAB_SPEED=$SPEED
	LAB_REST_URL=http://127.0.0.1:$((PORT + 9))
	LAB_REST_SOCKET=$ROOT/lab/rest/slurmrestd.sock
	LAB_REST_VERSION=$(rest_version)
	LAB_TOKEN_FILE=$DIR/token
	LAB_JWT_USER=rifling
	LAB_TOPOLOGY=$ROOT/lab/etc/topology.conf
	LAB_EMU=$ROOT/lab/emu
	LAB_FREE_PORT=$((PORT + 20))
	LAB_CLOCK_REAL=$real
	LAB_CLOCK_FAKE=$fake
	EOF
	mv "$DIR/lab.env.new" "$DIR/lab.env"
}

rest_version() {
	case $RELEASE in
	22.05) echo v0.0.38 ;;
	24.11) echo v0.0.42 ;;
	26.05) echo v0.0.45 ;;
	esac
}

summary() {
	local me=${LAB_SH:-$0}
	[ "$LAB" = 22.05 ] || me="LAB=$LAB $me"
	cat <<-EOF
	lab $LAB: Slurm $RELEASE, $NODES nodes x $GPUS GPUs, speed $SPEED, cluster $CLUSTER
	  REST     http://127.0.0.1:$((PORT + 9)) (JWT of rifling in $DIR/token)
	           $ROOT/lab/rest/slurmrestd.sock
	  jobs     $me as alice sbatch --gres=gpu:4 --wrap='sleep 60'
	  admin    $me exec sinfo
	  all keys $DIR/lab.env
	  logs     $ROOT/lab/log
	EOF
}
