// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
		Args:  cobra.NoArgs,
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

// check prints one line per finding. A node without network counters is well;
// one without GPUs, or that riflingd does not listen to, is not.
func check(ctx context.Context, c config, w io.Writer) error {
	bad := false
	say := func(ok bool, what, format string, args ...any) {
		mark := "ok  "
		if !ok {
			mark, bad = "FAIL", true
		}
		fmt.Fprintf(w, "%s  %-8s %s\n", mark, what, fmt.Sprintf(format, args...))
	}
	checkGPUs(c, say)
	checkNetwork(c, say)
	if pusher, err := newPusher(c, nil); err != nil {
		say(false, "riflingd", "%s", withHint(err))
	} else if err := pusher.Send(ctx, nil); err != nil {
		say(false, "riflingd", "%s", withHint(err))
	} else {
		say(true, "riflingd", "%s takes samples of this node as %s", c.URL, c.Node)
	}
	if bad {
		return errCheck
	}
	return nil
}

func checkGPUs(c config, say func(bool, string, string, ...any)) {
	g := &gpus{library: c.Library}
	if err := g.open(); err != nil {
		say(false, "nvml", "%s", withHint(err))
		return
	}
	defer g.Close()
	say(true, "nvml", "driver %s", g.nvml.Driver())
	if missing := g.nvml.Missing(); len(missing) > 0 {
		say(true, "nvml", "older than some readings, which are left out: %s", strings.Join(missing, ", "))
	}
	odd := collector.Odd{}
	_, err := g.nvml.Read(time.Now(), odd)
	if err == nil {
		time.Sleep(200 * time.Millisecond) // GPM works on two readings
		var cards []collector.GPU
		if cards, err = g.nvml.Read(time.Now(), odd); err == nil {
			sayGPUs(c, cards, say)
		}
	}
	if err != nil {
		say(false, "gpu", "%s", withHint(err))
	}
	for what, n := range odd {
		say(true, "gpu", "left out: %s (%d)", what, n)
	}
}

func sayGPUs(c config, cards []collector.GPU, say func(bool, string, string, ...any)) {
	say(len(cards) > 0, "gpu", "%d GPUs", len(cards))
	for _, card := range cards {
		by := string(card.Source)
		if by == "" {
			by = "nothing"
		}
		nvlink := "no NVLink"
		if card.NVLinkTx != nil {
			nvlink = fmt.Sprintf("NVLink %.0f GB/s", card.NVLinkSpeed/1e9)
		}
		say(card.Source != collector.SourceNone, "gpu", "%d %s: activity by %s, %s, %s", card.Index, card.UUID, by, nvlink,
			whose(card, collector.NewProc(c.Proc)))
	}
}

// whose tells which jobs a GPU's processes belong to.
func whose(card collector.GPU, jobs collector.JobSource) string {
	if card.Card != "" {
		return "in MIG mode, left out"
	}
	if len(card.Processes) == 0 {
		return "idle"
	}
	var out []string
	for _, p := range card.Processes {
		if ref, ok := jobs.Job(p.PID); ok {
			out = append(out, fmt.Sprintf("job %d", ref.ID))
		} else {
			out = append(out, fmt.Sprintf("process %d of no job", p.PID))
		}
	}
	return strings.Join(out, ", ")
}

func checkNetwork(c config, say func(bool, string, string, ...any)) {
	odd := collector.Odd{}
	ports, err := (&collector.SysfsNet{Root: c.Sysfs, Now: time.Now}).Read(odd)
	if err != nil {
		say(false, "network", "%s", withHint(err))
		return
	}
	if len(ports) == 0 {
		say(true, "network", "no InfiniBand or RoCE port below %s: jobs across nodes show no network traffic", c.Sysfs)
	}
	for _, p := range ports {
		say(true, "network", "%s, %.0f Gb/s", p.Name, p.Speed*8/1e9)
	}
	for what, n := range odd {
		say(true, "network", "left out: %s (%d)", what, n)
	}
}

func withHint(err error) string {
	if hint := slurm.HintOf(err); hint != "" {
		return fmt.Sprintf("%v (%s)", err, hint)
	}
	return err.Error()
}
