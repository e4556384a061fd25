// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/collector"
	"rifling/slurm"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "tell what this node has to read and whether riflingd takes it",
		Long: `check prints one line per finding: "ok"; "none" for what this node does not have
and can do without; "FAIL" for what must be mended, with what to do. It sends
riflingd an empty batch. Exit status: 0, or 1 when a line says FAIL.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			return check(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
}

// errCheck is the answer of a check that found something wanting.
var errCheck = errors.New("not all is well")

// findings writes one line per finding.
type findings struct {
	w   io.Writer
	bad bool
}

func (f *findings) say(mark, what, format string, args ...any) {
	fmt.Fprintf(f.w, "%-4s  %-8s %s\n", mark, what, fmt.Sprintf(format, args...))
}

func (f *findings) ok(what, format string, args ...any)   { f.say("ok", what, format, args...) }
func (f *findings) none(what, format string, args ...any) { f.say("none", what, format, args...) }
func (f *findings) fail(what, format string, args ...any) {
	f.bad = true
	f.say("FAIL", what, format, args...)
}

// checkInterval is what a check samples over: GPM needs 100 ms, and counters of
// NVLink are renewed about once a second.
const checkInterval = 1200 * time.Millisecond

// check tells what there is on this node. It is read the way run reads it.
func check(ctx context.Context, c config, w io.Writer) error {
	f := &findings{w: w}
	checkRights(c, f)
	sampler, gpus := newSampler(c, func(error) {})
	defer gpus.Close()
	opened := gpus.open()
	if opened != nil {
		f.fail("nvml", "%s", withHint(opened))
	} else {
		checkSources(gpus.nvml.Sources(), f)
	}
	if _, err := twoReadings(ctx, sampler, checkInterval); err != nil {
		f.fail("node", "%s", withHint(err))
	}
	view := sampler.View()
	if opened == nil {
		checkGPUs(c, view, f)
	}
	checkNetwork(c, view, f)
	for _, what := range slices.Sorted(maps.Keys(sampler.Odd)) {
		f.none("left out", "%s (%d)", what, sampler.Odd[what])
	}
	checkDaemon(ctx, c, f)
	if f.bad {
		return errCheck
	}
	return nil
}

// checkRights tells what can be seen of the processes of other users.
func checkRights(c config, f *findings) {
	r := readRights(c.Proc)
	who := fmt.Sprintf("user %d", os.Geteuid())
	switch {
	case !r.known:
		f.none("rights", "%s has no self/status: what can be seen of processes is not known", c.Proc)
	case r.inside:
		f.none("rights", "it runs in a PID namespace of its own, where drivers show no process ids or the host's: jobs may not be found (run it in the host's, as by --pid=host)")
	case r.hidepid && !r.ptrace:
		f.fail("rights", "%s: procfs hides other users' processes (hidepid): no job can be found (give it CAP_SYS_PTRACE, as the unit does, or mount procfs with gid= of its group)", who)
	case !r.environ():
		f.none("rights", "%s cannot read other users' environments, which takes CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH: "+
			"jobs are found by control groups that name them only (not by Slurm 26.05's SLUIDs), "+
			"how many nodes a job has is not known, nor Slurm's lists of GPUs", who)
	default:
		f.ok("rights", "%s can read other users' environments", who)
	}
}

// checkSources tells what each card has. A card needs one source of activity;
// the rest it can do without.
func checkSources(sources []collector.SourceStatus, f *findings) {
	activity := map[string]bool{}
	var cards []collector.SourceStatus
	for _, s := range sources {
		what := "nvml"
		if s.Index >= 0 {
			what = fmt.Sprintf("gpu %d", s.Index)
		}
		switch {
		case s.Index < 0 && !s.OK:
			f.fail(what, "%s: %s", s.Name, s.Detail)
			continue
		case s.OK:
			f.ok(what, "%s: %s", s.Name, s.Detail)
		default:
			f.none(what, "%s: %s", s.Name, s.Detail)
		}
		if s.Index < 0 {
			continue
		}
		if _, met := activity[s.Card]; !met {
			cards = append(cards, s)
		}
		isActivity := s.Name == "gpm" || s.Name == "power" || s.Name == "utilization"
		activity[s.Card] = activity[s.Card] || isActivity && s.OK
	}
	for _, s := range cards {
		if !activity[s.Card] {
			f.fail(fmt.Sprintf("gpu %d", s.Index), "nothing tells how much it computes")
		}
	}
}

// checkGPUs tells whose each GPU is, and how that was found.
func checkGPUs(c config, view collector.View, f *findings) {
	other := ""
	for i := range view.GPUs {
		g := &view.GPUs[i]
		say := f.ok
		if g.NoJob != "" {
			say = f.none
		}
		say("job", "GPU %d %s: %s", g.Index, g.UUID, whose(g))
		for _, j := range g.Jobs {
			if j.Node != "" && j.Node != c.Node {
				other = j.Node
			}
		}
	}
	if other != "" {
		f.fail("node", "Slurm calls this node %s, not %s (give its name with --node, or RIFLING_COLLECTOR_NODE)", other, c.Node)
	}
	if len(view.Ways) > 0 {
		var counts []string
		for _, way := range slices.Sorted(maps.Keys(view.Ways)) {
			counts = append(counts, fmt.Sprintf("%s %d", way, view.Ways[way]))
		}
		f.ok("job", "GPUs by how their jobs were found: %s", strings.Join(counts, ", "))
	}
}

func checkNetwork(c config, view collector.View, f *findings) {
	used := 0
	for i := range view.Ports {
		p := &view.Ports[i]
		say := f.ok
		if !p.Used {
			say = f.none
		} else {
			used++
		}
		say("network", "%s, %s, %s: %s", p.Name, p.Kind, portSpeed(p), portState(p))
	}
	switch {
	case used > 0:
	case len(c.Ports) > 0:
		f.fail("network", "no port that is up has a name of --ports %s", strings.Join(c.Ports, ","))
	default:
		f.none("network", "no port below %s: jobs across nodes show no network traffic", c.Sysfs)
	}
}

func checkDaemon(ctx context.Context, c config, f *findings) {
	pusher, err := newPusher(c, nil)
	if err == nil {
		err = pusher.Send(ctx, nil)
	}
	if err != nil {
		f.fail("riflingd", "%s", withHint(err))
		return
	}
	f.ok("riflingd", "%s takes samples of this node as %s", c.URL, c.Node)
}

func withHint(err error) string {
	if hint := slurm.HintOf(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}
