// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"rifling/cmd/internal/config"
)

// choice is a key that setup sets, or leaves at its default, and why. A nil
// value leaves it: only the reason is written.
type choice struct {
	key    string // with dots; one dot at most
	value  any
	reason string
}

// Thresholds of setup's choices.
const (
	// busyQueue is a queue whose listing costs slurmctld a second or more: one
	// job takes about 8 kB and 1 ms.
	busyQueue = 3000
	// fewChanges is max-changes where each update makes backfill begin anew.
	fewChanges = 5
)

// configuration returns the file as text, with a reason beside each choice.
func (f *siteFacts) configuration() string {
	var b strings.Builder
	head := "Written by `rifling setup`"
	if name := f.get("ClusterName"); name != "" {
		head += " for cluster " + name
	}
	if v := f.get("SLURM_VERSION"); v != "" {
		head += ", Slurm " + v
	}
	comment(&b, "", head+". Keys that are not here have their defaults; rifling.yaml(5) explains all of them. Call "+
		"`rifling check` after a change.")
	section := ""
	for _, c := range f.choices() {
		top, key, nested := strings.Cut(c.key, ".")
		if c.value == nil {
			b.WriteString("\n")
			comment(&b, "", c.key+" stays at its default. "+c.reason)
			continue
		}
		indent := ""
		switch {
		case !nested:
			b.WriteString("\n")
			key = top
		case top != section:
			fmt.Fprintf(&b, "\n%s:\n", top)
			fallthrough
		default:
			indent = "  "
		}
		section = top
		comment(&b, indent, c.reason)
		fmt.Fprintf(&b, "%s%s: %s\n", indent, key, yamlWord(c.value))
	}
	return b.String()
}

// comment writes text as comments of at most 80 columns.
func comment(b *strings.Builder, indent, text string) {
	for _, line := range wrap(text, 78-len(indent)) {
		fmt.Fprintf(b, "%s# %s\n", indent, line)
	}
}

// yamlWord writes a value as YAML does on one line, so that no name of a site
// can be read as anything else.
func yamlWord(v any) string {
	if list, ok := v.([]string); ok {
		var out []string
		for _, s := range list {
			out = append(out, yamlWord(s))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	text, err := yaml.Marshal(v)
	if err != nil || strings.Count(string(text), "\n") > 1 {
		return strconv.Quote(fmt.Sprint(v))
	}
	word := strings.TrimSpace(string(text))
	if strings.ContainsAny(word, ",[]{}") && !strings.HasPrefix(word, "\"") && !strings.HasPrefix(word, "'") {
		return strconv.Quote(word) // plain words may hold these, but not inside a list
	}
	return word
}

// wrap breaks text into lines of at most width characters.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}

// choices returns what the file says, in its order: slurm first. Keys of one
// section stand together.
func (f *siteFacts) choices() []choice {
	var out []choice
	out = append(out, f.slurmChoices()...)
	if f.database != "" {
		out = append(out, choice{"database", f.database, "As --database said."})
	}
	out = append(out, choice{"mode", config.ModeObserve, "Decide and record, change nothing. The page observe-to-steer tells when " +
		"steer may follow, and with which partition to begin."})
	if c := f.orderChoice(); c != nil {
		out = append(out, *c)
	}
	if f.jobs > busyQueue {
		out = append(out, choice{"interval", "60s", fmt.Sprintf("The queue has %d jobs; to list them costs slurmctld a second for "+
			"each 1,000 or so, and 15s would be too often.", f.jobs)})
	}
	out = append(out, f.manageChoice())
	if !f.has("SchedulerParameters", "bf_continue") && f.confErr == nil {
		out = append(out, choice{"limits.max-changes", fewChanges, "SchedulerParameters lacks bf_continue, so each update of a job makes " +
			"backfill begin anew. With it, 20 are harmless."})
	}
	return append(out, f.listenChoices()...)
}

func (f *siteFacts) slurmChoices() []choice {
	why := "slurmrestd answers here."
	switch {
	case f.restErr != nil && strings.HasPrefix(f.url, "unix:"):
		why = "rifling-slurmrestd.service serves here once it is started: by munge, without a token, for rifling's user and root alone."
	case f.restErr != nil:
		why = "Nothing answers here yet."
	case len(f.versions) > 0:
		why = fmt.Sprintf("slurmrestd of Slurm %s answers here in %s; rifling speaks v0.0.%d.", f.release, restNames(f.versions), f.release.REST)
	}
	out := []choice{{"slurm.url", f.url, why}}
	if f.user != config.Default().Slurm.User {
		out = append(out, choice{"slurm.user", f.user, "As --user said."})
	}
	if f.tokenFile != "" {
		out = append(out, choice{"slurm.token-file", f.tokenFile, "Read again before the token in it ends; renew it with a timer."})
	}
	topology := choice{"slurm.topology-file", f.topology, "Names the leaf switches; Slurm reads the same file."}
	switch {
	case f.topologyErr == nil:
	case f.isFlat():
		topology.value = ""
		topology.reason = "TopologyPlugin is " + f.topologyPlugin() + ": all nodes count as equally near."
	default:
		topology.reason = "Cannot be read yet (" + f.topologyErr.Error() + "): all nodes count as equally near until it can."
	}
	return append(out, topology)
}

func (f *siteFacts) topologyPlugin() string {
	if p := f.get("TopologyPlugin"); p != "" {
		return p
	}
	return "not set"
}

// isFlat tells whether Slurm itself knows no switches.
func (f *siteFacts) isFlat() bool {
	p := f.get("TopologyPlugin")
	return f.confErr == nil && (p == "" || p == "topology/default" || p == "topology/flat" || p == "topology/none")
}

func restNames(versions []int) string {
	var out []string
	for _, v := range slices.Sorted(slices.Values(versions)) {
		out = append(out, fmt.Sprintf("v0.0.%d", v))
	}
	return strings.Join(out, ", ")
}

// orderChoice says whether rifling may order jobs here.
func (f *siteFacts) orderChoice() *choice {
	switch {
	case f.confErr != nil:
		return nil
	case f.get("PrioritySiteFactorPlugin") != "":
		return &choice{"order", "slurm", "PrioritySiteFactorPlugin is " + f.get("PrioritySiteFactorPlugin") + ": it would overwrite rifling's offsets."}
	case f.get("PriorityType") == "priority/basic":
		return &choice{"order", "slurm", "PriorityType is priority/basic, under which an offset has no effect."}
	}
	sum := int64(0)
	for _, k := range []string{"Age", "Assoc", "FairShare", "JobSize", "Partition", "QOS"} {
		n, _ := strconv.ParseInt(f.get("PriorityWeight"+k), 10, 64)
		sum += n
	}
	return &choice{"order", nil, fmt.Sprintf("It is fcfs: offsets of at most limits.max-offset (%d) bring jobs of one partition and QOS into the "+
		"order of their submission. All priority weights of this site add up to %d.", config.Default().Limits.MaxOffset, sum)}
}

func (f *siteFacts) manageChoice() choice {
	var with, without []string
	for _, p := range f.parts {
		if p.gpus > 0 {
			with = append(with, p.name)
		} else {
			without = append(without, p.name)
		}
	}
	switch {
	case f.partsErr != nil:
		return choice{"manage.partitions", nil, "It means every partition; which of them have GPUs could not be asked."}
	case len(with) == 0:
		return choice{"manage.partitions", nil, "It means every partition; none has GPUs yet."}
	case len(without) == 0:
		return choice{"manage.partitions", nil, "It means every partition; all have GPUs."}
	}
	return choice{"manage.partitions", with, "Those with GPUs. Without: " + strings.Join(without, ", ") + "."}
}

// listenChoices opens the daemon to the nodes' collectors only where a secret
// is there already: without one nobody's counters are taken.
func (f *siteFacts) listenChoices() []choice {
	if !f.secret {
		return []choice{{"listen.address", nil, "riflingd is reached from this machine alone. Collectors on GPU nodes need 0.0.0.0:6830 and a secret: call " +
			"setup again once " + packagedSecret + " is there."}}
	}
	return []choice{
		{"listen.address", "0.0.0.0:6830", "Collectors on the GPU nodes send here."},
		{"listen.secret-file", packagedSecret, "They show this secret; the same file lies on each node."},
	}
}
