// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"slices"
	"strings"
)

// Switch is one line of topology.conf.
type Switch struct {
	Name     string
	Nodes    []string // directly below it; a switch with nodes is a leaf
	Switches []string // directly below it
}

// Topology is the tree of switches that the nodes hang from. The zero value
// has none, as with a flat topology.
type Topology struct {
	Switches []Switch // in the order of the file

	leaf map[string]string // node to leaf switch
}

// LeafOf returns the leaf switch of the node, or "".
func (t Topology) LeafOf(node string) string { return t.leaf[node] }

// Leaves returns the switches that have nodes, in the order of the file.
func (t Topology) Leaves() []Switch {
	var out []Switch
	for _, s := range t.Switches {
		if len(s.Nodes) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// LeafNodes returns the nodes below the leaf switch, in the order of the file.
func (t Topology) LeafNodes(leaf string) []string {
	for _, s := range t.Switches {
		if s.Name == leaf {
			return s.Nodes
		}
	}
	return nil
}

// ParseTopology reads the text of topology.conf: SwitchName with Nodes or
// Switches (topology/tree), or BlockName with Nodes (topology/block), whose
// blocks are taken for leaves. Comments, continued lines and keys in any case
// are Slurm's. A node named under two leaves belongs to the first.
//
// The lines that can be read are used even when others cannot; the error then
// joins one *ParseError for each rejected line, and for each switch that is
// named but not described.
func ParseTopology(text string) (Topology, error) {
	t := Topology{leaf: map[string]string{}}
	var errs []error
	reject := func(token, msg string) {
		errs = append(errs, &ParseError{Kind: "topology", Token: token, Msg: msg})
	}
	for _, line := range topologyLines(text) {
		sw, msg := parseSwitch(line)
		switch {
		case msg != "":
			reject(line, msg)
			continue
		case sw.Name == "": // a line about something else
			continue
		case slices.ContainsFunc(t.Switches, func(s Switch) bool { return s.Name == sw.Name }):
			reject(line, "the switch is described twice")
			continue
		}
		t.Switches = append(t.Switches, sw)
		for _, n := range sw.Nodes {
			if t.leaf[n] == "" {
				t.leaf[n] = sw.Name
			}
		}
	}
	for _, name := range t.undescribed() {
		reject(name, "the switch is named but not described")
	}
	return t, errors.Join(errs...)
}

// undescribed returns the switches that others name and no line describes.
func (t Topology) undescribed() []string {
	known := map[string]bool{}
	for _, s := range t.Switches {
		known[s.Name] = true
	}
	var out []string
	for _, s := range t.Switches {
		for _, below := range s.Switches {
			if !known[below] {
				known[below] = true
				out = append(out, below)
			}
		}
	}
	return out
}

// topologyLines removes comments and joins continued lines, as Slurm's reader
// of configuration files does. Empty lines are left out.
func topologyLines(text string) []string {
	var out []string
	pending := ""
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\r\n"), "#")
		line = strings.TrimRight(line, " \t")
		if head, more := strings.CutSuffix(line, `\`); more {
			pending += head + " "
			continue
		}
		if line = strings.TrimSpace(pending + line); line != "" {
			out = append(out, line)
		}
		pending = ""
	}
	if pending = strings.TrimSpace(pending); pending != "" {
		out = append(out, pending)
	}
	return out
}

// parseSwitch reads one line. The switch has no name when the line describes
// none (BlockSizes=).
func parseSwitch(line string) (sw Switch, msg string) {
	for _, field := range strings.Fields(line) {
		key, value, found := strings.Cut(field, "=")
		if !found {
			return Switch{}, "not of the form key=value"
		}
		value = strings.Trim(value, `"`)
		var err error
		switch strings.ToLower(key) {
		case "switchname", "blockname":
			sw.Name = value
		case "nodes":
			sw.Nodes, err = ExpandHosts(value)
		case "switches":
			sw.Switches, err = ExpandHosts(value)
		case "linkspeed", "blocksizes":
		default:
			return Switch{}, "unknown key " + key
		}
		if err != nil {
			return Switch{}, err.Error()
		}
	}
	if sw.Name == "" && (sw.Nodes != nil || sw.Switches != nil) {
		return Switch{}, "no SwitchName"
	}
	return sw, ""
}
