// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rifling/sim"
	"rifling/slurm"
)

// SlurmConf is what a simulation takes from a slurm.conf.
type SlurmConf struct {
	Settings   sim.SlurmSettings
	Nodes      []sim.NodeSpec      // those with GPUs
	Partitions []sim.PartitionSpec // those with such nodes, Slurm's default first
}

// mostConf bounds a slurm.conf; real ones have some 100 KB.
const mostConf = 16 << 20

// ReadSlurmConf reads scheduling and partitions as sim.ParseSlurmConf does,
// and the nodes with GPUs and which partition has which. Errors name the line.
func ReadSlurmConf(r io.Reader) (SlurmConf, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostConf))
	if err != nil {
		return SlurmConf{}, fmt.Errorf("read slurm.conf: %w", err)
	}
	whole := strings.ReplaceAll(string(text), "\\\n", " ") // lines go on behind a backslash
	settings, parts, err := sim.ParseSlurmConf(strings.NewReader(whole))
	if err != nil {
		return SlurmConf{}, err
	}
	c := confReader{nodesOf: map[string]string{}, gpus: map[string]bool{}}
	for n, line := range strings.Split(whole, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if err := c.line(strings.Fields(line)); err != nil {
			return SlurmConf{}, fmt.Errorf("slurm.conf line %d: %w", n+1, err)
		}
	}
	out := SlurmConf{Settings: settings, Nodes: c.nodes}
	for _, p := range parts {
		keep, err := c.place(&p)
		if err != nil {
			return SlurmConf{}, err
		}
		switch {
		case !keep:
		case p.Name == c.standard:
			out.Partitions = slices.Insert(out.Partitions, 0, p)
		default:
			out.Partitions = append(out.Partitions, p)
		}
	}
	return out, nil
}

type confReader struct {
	nodes          []sim.NodeSpec
	gpus           map[string]bool   // names of nodes
	nodesOf        map[string]string // node lists by partition
	onNode, onPart map[string]string // what lines DEFAULT have set
	standard       string
}

func (c *confReader) line(words []string) error {
	if len(words) == 0 {
		return nil
	}
	key, name, _ := strings.Cut(words[0], "=")
	switch strings.ToLower(key) {
	case "nodename":
		o := options(c.onNode, words[1:])
		if strings.EqualFold(name, "DEFAULT") {
			c.onNode = o
			return nil
		}
		return c.node(name, o)
	case "partitionname":
		o := options(c.onPart, words[1:])
		if strings.EqualFold(name, "DEFAULT") {
			c.onPart = o
			return nil
		}
		c.nodesOf[name] = o["nodes"]
		if strings.EqualFold(o["default"], "yes") {
			c.standard = name
		}
	}
	return nil
}

// options reads KEY=VALUE words over the defaults.
func options(defaults map[string]string, words []string) map[string]string {
	out := maps.Clone(defaults)
	if out == nil {
		out = map[string]string{}
	}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		out[strings.ToLower(k)] = v
	}
	return out
}

func (c *confReader) node(name string, o map[string]string) error {
	gres, err := slurm.ParseGRES(o["gres"])
	if err != nil {
		return err
	}
	gpus, byType := slurm.GPUs(gres)
	if gpus == 0 {
		return nil
	}
	kind := ""
	if kinds := slices.Sorted(maps.Keys(byType)); len(kinds) > 0 {
		kind = kinds[0]
	}
	names, err := slurm.ExpandHosts(name)
	if err != nil {
		return err
	}
	if len(c.nodes)+len(names) > mostNodes {
		return fmt.Errorf("more than %d nodes", mostNodes)
	}
	cpus, err := strconv.Atoi(o["cpus"])
	if err != nil {
		cpus = 0 // not told, or by sockets: as many as GPUs, so they never bind
	}
	for _, n := range names {
		c.gpus[n] = true
		c.nodes = append(c.nodes, sim.NodeSpec{Name: n, GPUs: gpus, GPUType: kind, CPUs: max(cpus, 0)})
	}
	return nil
}

// place gives a partition its nodes with GPUs; keep is false for one without.
func (c *confReader) place(p *sim.PartitionSpec) (keep bool, err error) {
	list := c.nodesOf[p.Name]
	if list == "" || strings.EqualFold(list, "ALL") {
		return list != "", nil
	}
	names, err := slurm.ExpandHosts(list)
	if err != nil {
		return false, fmt.Errorf("partition %s: %w", p.Name, err)
	}
	p.Nodes = slices.DeleteFunc(names, func(n string) bool { return !c.gpus[n] })
	return len(p.Nodes) > 0, nil
}
