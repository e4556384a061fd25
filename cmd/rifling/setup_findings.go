// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/cmd/internal/config"
	"rifling/slurm"
)

// findings says what is there and what is missing, with what to do about it.
func (f *siteFacts) findings() []finding {
	var c checker
	f.slurmFindings(&c)
	f.gpuFindings(&c)
	f.restFindings(&c)
	f.userFindings(&c)
	return c.findings
}

func (f *siteFacts) slurmFindings(c *checker) {
	if f.confErr != nil {
		c.add(levelFail, "slurm", "run setup on a machine where `scontrol show config` answers, as root or rifling's user; "+
			"what Slurm's own commands would have told is left at its default", "%v", f.confErr)
		return
	}
	c.add(levelOK, "slurm", "", "%s, cluster %s", f.get("SLURM_VERSION"), f.get("ClusterName"))
	f.accountingFindings(c)
	if t := f.get("SelectType"); t != "select/cons_tres" {
		c.add(levelWarn, "gpus", "set SelectType=select/cons_tres in slurm.conf", "SelectType is %s, which knows no GPUs of a job", t)
	}
	if !f.has("SchedulerParameters", "bf_continue") {
		c.add(levelWarn, "backfill", "add bf_continue to SchedulerParameters in slurm.conf", "each update of a job makes backfill begin anew")
	}
	if age, ok := f.minJobAge(); ok && age < 4*config.Default().Interval {
		c.add(levelWarn, "queue", "set MinJobAge=300 in slurm.conf", "MinJobAge is %s: jobs may be gone before rifling saw that they ended", age)
	}
	switch {
	case f.topologyErr == nil:
		c.add(levelOK, "topology", "", "%s", f.topology)
	case f.isFlat():
		c.add(levelOK, "topology", "", "TopologyPlugin is %s: no leaf switches", f.topologyPlugin())
	default:
		c.add(levelWarn, "topology", "copy topology.conf here, or write one line SwitchName=... Nodes=... for each leaf switch",
			"TopologyPlugin is %s, but %v", f.topologyPlugin(), f.topologyErr)
	}
}

// minJobAge reads "300 sec".
func (f *siteFacts) minJobAge() (time.Duration, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(f.get("MinJobAge"), " sec"))
	return time.Duration(n) * time.Second, err == nil && n > 0
}

// keepsAccounts tells whether Slurm has a database of users.
func (f *siteFacts) keepsAccounts() bool {
	return f.get("AccountingStorageType") == "accounting_storage/slurmdbd"
}

func (f *siteFacts) accountingFindings(c *checker) {
	switch {
	case !f.keepsAccounts():
		c.add(levelWarn, "accounting", "set up slurmdbd: without it Slurm has no AdminLevel, only root and SlurmUser may change others' jobs, and rifling can but observe",
			"AccountingStorageType is %q", f.get("AccountingStorageType"))
	case !f.has("AccountingStorageTRES", "gres/gpu"):
		c.add(levelWarn, "accounting", "set AccountingStorageTRES=gres/gpu in slurm.conf and restart slurmctld",
			"slurmdbd is there, but GPUs of past jobs are not recorded")
	default:
		c.add(levelOK, "accounting", "", "slurmdbd, with gres/gpu: past jobs can be learnt from (rifling history import)")
	}
}

func (f *siteFacts) gpuFindings(c *checker) {
	switch {
	case f.confErr != nil:
		return
	case f.partsErr != nil:
		c.add(levelWarn, "gpus", "see that slurmctld answers scontrol", "%v", f.partsErr)
		return
	case f.gpus == 0:
		c.add(levelFail, "gpus", "set GresTypes=gpu, a Gres=gpu:TYPE:COUNT for each node in slurm.conf, and gres.conf on the nodes",
			"no node has GPUs (GresTypes=%s)", f.conf["grestypes"])
		return
	}
	c.add(levelOK, "gpus", "", "%s on %s", count(f.gpus, "GPU", "GPUs"), count(f.nodes, "node", "nodes"))
	for _, p := range f.parts {
		if p.gpus == 0 {
			continue
		}
		var kinds []string
		for _, k := range slices.Sorted(maps.Keys(p.byType)) {
			name := k
			if name == "" {
				name = "no type"
			}
			kinds = append(kinds, fmt.Sprintf("%d %s", p.byType[k], name))
		}
		more := ""
		if p.byDeflt {
			more = ", the default"
		}
		c.add(levelOK, "partition", "", "%s: %s on %s%s", p.name, strings.Join(kinds, ", "), count(p.nodes, "node", "nodes"), more)
	}
}

func (f *siteFacts) restFindings(c *checker) {
	switch {
	case f.restErr == nil:
		c.add(levelOK, "slurmrestd", "", "%s answers in %s", f.url, restNames(f.versions))
	case !strings.HasPrefix(f.url, "unix:"):
		c.fail(levelFail, "slurmrestd", f.restErr)
	case !f.restd:
		c.add(levelFail, "slurmrestd", "install it (Debian: apt-get install slurmrestd; RPM: slurm-slurmrestd), or name another with --url and --token-file",
			"is not installed here (/usr/sbin/slurmrestd)")
	default:
		do := slurm.HintOf(f.restErr)
		if f.url == config.Default().Slurm.URL {
			do = "systemctl enable --now rifling-slurmrestd"
		}
		c.add(levelFail, "slurmrestd", do, "%v", f.restErr)
	}
}

func (f *siteFacts) userFindings(c *checker) {
	if !f.local {
		c.add(levelFail, "user", "the package makes it; else: useradd --system --home-dir /var/lib/rifling --shell /usr/sbin/nologin "+f.user,
			"this machine has no user %s", f.user)
	}
	switch {
	case f.userErr != nil:
		c.add(levelWarn, "rights", "call `sacctmgr show user name="+f.user+"`", "could not be asked: %v", f.userErr)
	case !f.keepsAccounts():
	case f.level == "":
		c.add(levelFail, "rights", "the commands stand below", "Slurm does not know the user %s", f.user)
	case !f.isOperator():
		c.add(levelWarn, "rights", "the command stands below", "%s has AdminLevel %s: it may observe, not steer", f.user, f.level)
	default:
		c.add(levelOK, "rights", "", "%s has AdminLevel %s", f.user, f.level)
	}
}

func (f *siteFacts) isOperator() bool {
	return strings.EqualFold(f.level, "Operator") || strings.EqualFold(f.level, "Administrator")
}

// todo returns the commands that need an admin of Slurm, which setup never is:
// it must not give its own user rights. Where the user could not be asked for,
// both are named; they do no harm where they are not needed.
func (f *siteFacts) todo() []string {
	var out []string
	if f.confErr != nil || f.keepsAccounts() {
		if f.level == "" {
			out = append(out, "sacctmgr -i add user "+f.user+" account=root")
		}
		if !f.isOperator() {
			out = append(out, "sacctmgr -i modify user "+f.user+" set adminlevel=Operator")
		}
	}
	if !strings.HasPrefix(f.url, "unix:") && f.tokenFile == "" {
		out = append(out, "scontrol token username="+f.user+" lifespan=86400 >"+packagedToken)
	}
	return out
}
