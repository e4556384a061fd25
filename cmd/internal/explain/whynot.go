// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/slurm"
	"rifling/store"
)

// whyNot says what keeps, or kept, the job from a node: what the user asked
// for, what rifling wanted, and what Slurm says of the node.
func (t *teller) whyNot(n *Node) {
	j := &t.st.Job
	switch {
	case slices.Contains(j.Nodes, n.Name) && j.Running():
		t.line("it runs there")
		return
	case slices.Contains(j.Nodes, n.Name):
		t.line("it ran there")
		return
	}
	if o := t.st.Owner; o != nil && slices.Contains(o.UserExclude, n.Name) {
		t.line("its user excludes %s", n.Name)
	}
	t.line("%s", t.chosen(n.Name))
	t.others(n.Name)
	if j.Pending() && !t.gone() {
		t.node(n)
	}
}

// chosen says what the last decision means for the node.
func (t *teller) chosen(node string) string {
	d := t.last()
	switch {
	case d == nil:
		return "rifling has decided nothing on this job, so it keeps it from no node: Slurm alone chooses"
	case d.Skipped != "":
		return "rifling leaves this job alone (" + d.Skipped + "), so it keeps it from no node: Slurm alone chooses"
	case d.Candidates == nil:
		return "rifling keeps this job from no node: Slurm alone chooses"
	case slices.Contains(d.Target, node) && d.Action == policy.Wait:
		return "it is what rifling has the job wait for: " + node + " is among " + hosts(d.Target)
	case slices.Contains(d.Target, node):
		return "nothing of rifling's keeps it from there: " + node + " is among the nodes that are meant, " + hosts(d.Target)
	case slices.Contains(d.Candidates, node):
		return "nothing of rifling's keeps it from there: " + node + " is among the nodes left to it, " + hosts(d.Candidates) +
			", but " + wording.Action(d.Action) + " does not need it now"
	}
	verb := "rifling keeps it from there"
	switch {
	case d.Mode != config.ModeSteer:
		verb = "rifling would keep it from there, but only observes"
	case t.st.Job.Pending() && t.written(d) != "":
		verb = "rifling would keep it from there, but that is not in force"
	}
	return fmt.Sprintf("%s: it is for %s on %s, since %s", verb, wording.Action(d.Action), hosts(d.Candidates), d.Reason)
}

// others lists the actions that would have used the node, with their values.
func (t *teller) others(node string) {
	d := t.last()
	if d == nil || d.Skipped != "" {
		return
	}
	var best *policy.Option
	for i := range d.Considered {
		if d.Considered[i].Action == d.Action {
			best = &d.Considered[i]
		}
	}
	for i := range d.Considered {
		o := &d.Considered[i]
		if o == best || !slices.Contains(o.Nodes, node) {
			continue
		}
		line := fmt.Sprintf("%s could have used it (%s): valued %.2f", wording.Action(o.Action), shapeWords(*o), o.Value)
		if best != nil {
			line += fmt.Sprintf(", against %.2f of %s", best.Value, wording.Action(best.Action))
		}
		if o.Note != "" {
			line += "; " + o.Note
		}
		t.line("%s", line)
	}
}

// node says who was there in the last cycle and what Slurm says of it now.
func (t *teller) node(n *Node) {
	if s := n.Slurm; s != nil {
		t.line("Slurm says that it is %s, with %d of %s free, in %s", s.State, max(0, s.GPUs-s.Used),
			wording.Count(s.GPUs, "GPU", "GPUs"), partitions(s.Partitions))
		if p := t.st.Job.Partition; !shares(s.Partitions, strings.Split(p, ",")) {
			t.line("the job asks for partition %s, of which %s is no part", p, n.Name)
		}
	}
	held := 0
	for i := range n.Jobs {
		j := &n.Jobs[i]
		held++
		t.line("in the last cycle job %s of %s ran there (%s on %s), %s", j.DisplayID(), j.User,
			wording.Count(j.GPUs, "GPU", "GPUs"), hosts(j.Nodes), limit(t, j))
	}
	if n.Others > 0 {
		t.line("in the last cycle %s of other users ran there", wording.Count(n.Others, "GPU job", "GPU jobs"))
	}
	if held+n.Others == 0 {
		t.line("in the last cycle no GPU job ran there that riflingd knows of")
	}
}

// limit says when a job must have ended at the latest.
func limit(t *teller, j *store.Job) string {
	if j.Unlimited || j.Start.IsZero() {
		return "without a time limit"
	}
	return "until " + t.clock(j.Start.Add(j.TimeLimit)) + " at the latest"
}

func partitions(list []string) string {
	if len(list) == 0 {
		return "no partition"
	}
	return "partition " + strings.Join(list, ", ")
}

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// ParseNode reads what `scontrol --oneliner --details show node NAME` says.
func ParseNode(text string) (*NodeState, error) {
	s := &NodeState{}
	seen := false
	for _, word := range strings.Fields(text) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		switch key {
		case "State":
			s.State, seen = value, true
		case "Partitions":
			s.Partitions = strings.Split(value, ",")
		case "Gres":
			s.GPUs = gpus(value)
		case "GresUsed":
			s.Used = gpus(value)
		}
	}
	if !seen {
		return nil, fmt.Errorf("no State= in what scontrol says of the node")
	}
	return s, nil
}

// gpus counts the GPUs of a list of GRES; 0 where it cannot be read.
func gpus(gres string) int {
	list, err := slurm.ParseGRES(gres)
	if err != nil {
		return 0
	}
	n, _ := slurm.GPUs(list)
	return n
}
