// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"rifling/collector"
)

// printOnce prints what one interval shows: the samples, and each GPU and port,
// of no job too. A node without NVML shows its ports, and is an error then.
func printOnce(ctx context.Context, c config, asJSON bool, out, errOut io.Writer) error {
	var noGPUs error
	sampler, gpus := newSampler(c, func(err error) { noGPUs = err })
	defer gpus.Close()
	samples, err := twoReadings(ctx, sampler, c.Interval)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(out, c.Node, samples, sampler)
	} else {
		err = printTables(out, samples, sampler.View())
		for _, what := range slices.Sorted(maps.Keys(sampler.Odd)) {
			fmt.Fprintf(errOut, "left out: %s (%d)\n", what, sampler.Odd[what])
		}
	}
	if err != nil {
		return err
	}
	return noGPUs
}

// twoReadings samples a node over one interval.
func twoReadings(ctx context.Context, s *collector.Sampler, interval time.Duration) ([]collector.Sample, error) {
	if _, err := s.Sample(time.Now()); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(interval):
	}
	return s.Sample(time.Now())
}

// The lines of --json, told apart by kind.
type (
	nodeLine struct {
		Kind    string                `json:"kind"` // "node"
		Node    string                `json:"node"`
		Version string                `json:"version"`
		FoundBy map[collector.Way]int `json:"found_by"` // GPUs, by how their jobs were found
		LeftOut collector.Odd         `json:"left_out"`
	}
	sampleLine struct {
		Kind string `json:"kind"` // "sample"
		collector.Sample
	}
	gpuLine struct {
		Kind string `json:"kind"` // "gpu"
		collector.GPUView
	}
	portLine struct {
		Kind string `json:"kind"` // "port"
		collector.PortView
	}
)

func printJSON(w io.Writer, node string, samples []collector.Sample, s *collector.Sampler) error {
	view := s.View()
	lines := []any{nodeLine{"node", node, version, view.Ways, s.Odd}}
	for _, x := range samples {
		lines = append(lines, sampleLine{"sample", x})
	}
	for _, g := range view.GPUs {
		lines = append(lines, gpuLine{"gpu", g})
	}
	for _, p := range view.Ports {
		lines = append(lines, portLine{"port", p})
	}
	enc := json.NewEncoder(w)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

func printTables(w io.Writer, samples []collector.Sample, view collector.View) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tGPUS\tCOMPUTE\tBY\tNVLINK\tPCIE\tNET\tTHROTTLED\tESTIMATES")
	for i := range samples {
		s := &samples[i]
		fmt.Fprintf(tw, "%d\t%d\t%.0f %%\t%s\t%s\t%s\t%s\t%.0f %%\t%s\n", s.JobID, s.GPUs, 100*s.Compute, orDash(string(s.Source)),
			known(s.NVLinkRate, s.NVLinkSpeed), known(s.PCIeRate, s.PCIeSpeed), known(s.NetRate, s.NetSpeed), 100*s.Throttled, estimates(s))
	}
	fmt.Fprintln(tw, "\nGPU\tUUID\tMODEL\tACTIVITY\tBY\tJOBS")
	for i := range view.GPUs {
		g := &view.GPUs[i]
		fmt.Fprintf(tw, "%d\t%s\t%s\t%.0f %%\t%s\t%s\n", g.Index, g.UUID, orDash(g.Model), 100*g.Activity, orDash(string(g.Source)), whose(g))
	}
	fmt.Fprintln(tw, "\nPORT\tKIND\tSPEED\tOUT\tIN\tSTATE")
	for i := range view.Ports {
		p := &view.Ports[i]
		out, in := "-", "-"
		if p.Known {
			out, in = link(p.XmitRate, p.Speed), link(p.RcvRate, p.Speed)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Kind, portSpeed(p), out, in, portState(p))
	}
	return tw.Flush()
}

// estimates names what of a sample is one.
func estimates(s *collector.Sample) string {
	var out []string
	if s.NetShared {
		out = append(out, "net")
	}
	if s.GPUShared {
		out = append(out, fmt.Sprintf("GPU (weight %.2g)", s.Weight))
	}
	return orDash(strings.Join(out, ", "))
}

// whose tells which jobs a GPU's processes belong to, and how that was found.
func whose(g *collector.GPUView) string {
	var out []string
	for _, j := range g.Jobs {
		text := fmt.Sprintf("job %d by %s", j.ID, j.Way)
		if j.Share < 1 {
			text += fmt.Sprintf(", %.0f %% of it", 100*j.Share)
		}
		out = append(out, text)
	}
	who := fmt.Sprintf("%d processes", g.Processes)
	if g.Processes == 1 {
		who = "a process"
	}
	switch {
	case len(out) > 0:
		return strings.Join(out, "; ")
	case !g.ProcessesKnown && g.Processes == 0:
		return "not known: its processes cannot be listed"
	case g.Processes == 0:
		return "idle"
	case g.NoJob == collector.WayHidden:
		return who + ", not below procfs"
	case g.NoJob == collector.WayClosed:
		return who + ", whose environment must not be read"
	}
	return who + ", of no job"
}

func portSpeed(p *collector.PortView) string {
	if p.Speed <= 0 {
		return "speed unknown"
	}
	return fmt.Sprintf("%.3g Gb/s", p.Speed*8/1e9)
}

func portState(p *collector.PortView) string {
	switch {
	case !p.Up:
		return "down"
	case p.Used && p.Twin != "":
		return "counts with " + p.Twin
	case p.Used:
		return "counts"
	}
	return "up, not counted"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// known writes a sample's rate: one of 0 on a link of unknown speed is not
// known.
func known(rate, speed float64) string {
	if rate <= 0 && speed <= 0 {
		return "-"
	}
	return link(rate, speed)
}

// link writes a rate and what part of its link it is.
func link(rate, speed float64) string {
	if speed <= 0 {
		return fmt.Sprintf("%.3g GB/s", rate/1e9)
	}
	return fmt.Sprintf("%.3g GB/s (%.0f %%)", rate/1e9, 100*rate/speed)
}
