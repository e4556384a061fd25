// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/slurm"
)

func (a *app) checkCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that rifling can do its work here, and say what to do where it cannot",
		Long: "check asks slurmrestd, the accounting and the database, and writes one line for\n" +
			"each finding: ok, warn or fail, what it is, and what to do. It changes nothing.\n" +
			"The exit status is 1 when anything fails.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			c := &checker{app: a, cfg: cfg}
			c.run(cmd.Context())
			return c.show(asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// Levels of a finding.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// finding is one line of the check.
type finding struct {
	Level string `json:"level"`
	About string `json:"about"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// checker gathers findings.
type checker struct {
	*app
	cfg      *config.Config
	findings []finding
}

func (c *checker) add(level, about, do, format string, args ...any) {
	c.findings = append(c.findings, finding{level, about, fmt.Sprintf(format, args...), do})
}

// fail adds an error with its hint.
func (c *checker) fail(level, about string, err error) {
	c.findings = append(c.findings, finding{level, about, err.Error(), slurm.HintOf(err)})
}

func (c *checker) run(ctx context.Context) {
	c.add(levelOK, "mode", "", "%s, policy %s", c.cfg.Mode, c.cfg.Policy)
	c.slurm(ctx)
	c.database(ctx)
}

// slurm asks all that slurmrestd can tell.
func (c *checker) slurm(ctx context.Context) {
	cluster, err := c.env.Connect(c.cfg)
	if err != nil {
		c.fail(levelFail, "slurmrestd", err)
		return
	}
	defer cluster.Close()
	rel, err := cluster.Connect(ctx)
	if err != nil {
		c.token(c.env.Now())
		c.fail(levelFail, "slurmrestd", err)
		return
	}
	c.add(levelOK, "slurmrestd", "", "%s answers: Slurm %s, REST v0.0.%d", c.cfg.Slurm.URL, rel, rel.REST)
	c.lever(rel)
	c.token(c.compareClocks(ctx, cluster))
	c.rights(ctx, cluster)
	if err := cluster.Accounting(ctx); err != nil {
		c.fail(levelWarn, "accounting", err)
	} else {
		c.add(levelOK, "accounting", "", "slurmdbd answers")
	}
	c.snapshot(ctx, cluster)
}

func (c *checker) lever(rel slurm.Release) {
	if rel.HasSiteFactor() {
		c.add(levelOK, "order", "", "goes by site_factor; it has effect under priority/multifactor only")
		return
	}
	c.add(levelOK, "order", "", "goes by nice, since REST v0.0.%d has no site_factor", rel.REST)
}

// maxSkew is how far the clocks may be apart, the time of the call included.
const maxSkew = 5 * time.Second

// compareClocks compares the clocks and returns slurmctld's, or the host's without it.
func (c *checker) compareClocks(ctx context.Context, cluster Slurm) time.Time {
	before := c.env.Now()
	d, err := cluster.Diag(ctx)
	if err != nil {
		c.fail(levelWarn, "clock", err)
		return c.env.Now()
	}
	skew := d.At.Sub(before)
	if skew > maxSkew || skew < -maxSkew {
		c.add(levelWarn, "clock", "run chrony or ntpd on both; rifling itself goes by slurmctld's clock, tokens and counters do not",
			"slurmctld's clock is %s off this host's", skew.Round(time.Second))
	} else {
		c.add(levelOK, "clock", "", "slurmctld's clock agrees with this host's")
	}
	return d.At
}

func (c *checker) rights(ctx context.Context, cluster Slurm) {
	user, level, err := cluster.AdminLevel(ctx)
	switch {
	case err != nil && (errors.Is(err, slurm.ErrBusy) || errors.Is(err, slurm.ErrGone)):
		c.findings = append(c.findings, finding{levelWarn, "rights", fmt.Sprintf("acting as %s, whose AdminLevel is not known: %v", user, err), slurm.HintOf(err)})
	case err != nil:
		c.fail(levelFail, "rights", err)
	case strings.EqualFold(level, "Operator") || strings.EqualFold(level, "Administrator"):
		c.add(levelOK, "rights", "", "acting as %s, AdminLevel %s", user, level)
	default:
		c.add(c.steering(), "rights", fmt.Sprintf("sacctmgr modify user %s set adminlevel=operator", user),
			"acting as %s, AdminLevel %s: Slurm will refuse changes of others' jobs", user, level)
	}
}

// steering is the level of what stands in the way of writing only.
func (c *checker) steering() string {
	if c.cfg.Mode == config.ModeSteer {
		return levelFail
	}
	return levelWarn
}

// snapshot looks at what rifling would work on.
func (c *checker) snapshot(ctx context.Context, cluster Slurm) {
	snap, err := cluster.Snapshot(ctx)
	if err != nil {
		c.fail(levelFail, "queue", err)
		return
	}
	c.add(levelOK, "queue", "", "%s on %s", count(len(snap.Jobs), "job", "jobs"), count(len(snap.Nodes), "node", "nodes"))
	if len(snap.Odd) > 0 {
		c.add(levelWarn, "queue", "report this with the answer of slurmrestd; the rest is used", "%s", oddWords(snap.Odd))
	}
	c.partitions(snap)
	c.topology(snap)
}

func (c *checker) partitions(snap *slurm.Snapshot) {
	managed := c.cfg.Manage.Partitions
	for _, name := range managed {
		if snap.Partition(name) == nil {
			c.add(levelFail, "partitions", "correct manage.partitions", "partition %s does not exist", name)
		}
	}
	var with []string
	gpus := 0
	for i := range snap.Nodes {
		gpus += snap.Nodes[i].GPUs
	}
	for _, p := range snap.Partitions {
		n := 0
		for _, name := range p.Nodes {
			if node := snap.Node(name); node != nil {
				n += node.GPUs
			}
		}
		if n > 0 && (len(managed) == 0 || slices.Contains(managed, p.Name)) {
			with = append(with, fmt.Sprintf("%s (%d GPUs)", p.Name, n))
		}
	}
	if len(with) == 0 {
		c.add(levelFail, "partitions", "set GresTypes=gpu and Gres= in slurm.conf, or correct manage.partitions",
			"no managed partition has GPUs; the cluster has %d in all", gpus)
		return
	}
	c.add(levelOK, "partitions", "", "GPUs in %s", strings.Join(with, ", "))
}

func (c *checker) topology(snap *slurm.Snapshot) {
	known, gpu := 0, 0
	leaves := map[string]bool{}
	for i := range snap.Nodes {
		n := &snap.Nodes[i]
		if n.GPUs == 0 {
			continue
		}
		gpu++
		if n.Leaf != "" {
			known++
			leaves[n.Leaf] = true
		}
	}
	do := "set slurm.topology-file to a copy of topology.conf; a cluster of one switch needs none"
	switch {
	case known == 0:
		c.add(levelWarn, "topology", do, "no leaf switch is known (%s): all nodes count as equally near", c.cfg.Slurm.TopologyFile)
	case known < gpu:
		c.add(levelWarn, "topology", do, "%s names %d of %d GPU nodes", c.cfg.Slurm.TopologyFile, known, gpu)
	default:
		c.add(levelOK, "topology", "", "%s", count(len(leaves), "leaf switch", "leaf switches"))
	}
}

func (c *checker) show(asJSON bool) error {
	if asJSON {
		if err := writeJSON(c.out, c.findings); err != nil {
			return err
		}
	} else {
		writeFindings(c.out, c.findings)
	}
	if failed(c.findings) {
		return errFailed
	}
	return nil
}
