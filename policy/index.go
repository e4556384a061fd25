// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"

	"rifling/slurm"
)

// index answers what one pass over the queue asks of a snapshot again and
// again. Lists that it hands out must not be changed.
type index struct {
	at   map[string]int         // place in Snapshot.Nodes by name
	open map[[2]string][]string // see openNodes: by partitions and the user's exclude list
}

func (x *index) has(name string) bool { _, ok := x.at[name]; return ok }

// indexed returns the input with an index of its snapshot.
func (in Input) indexed() Input {
	if in.index == nil {
		in.index = &index{at: make(map[string]int, len(in.Snapshot.Nodes)), open: map[[2]string][]string{}}
		for i := range in.Snapshot.Nodes {
			if name := in.Snapshot.Nodes[i].Name; !in.index.has(name) {
				in.index.at[name] = i
			}
		}
	}
	return in
}

// openNodes returns the usable nodes on which Slurm could place the job, by its
// partitions, its features not considered, and its user's own exclude list.
func openNodes(j *slurm.Job, in Input) []string {
	in = in.indexed()
	user := UserExclude(j, in.Owned)
	key := [2]string{j.Partition, strings.Join(user, ",")}
	if out, ok := in.index.open[key]; ok {
		return out
	}
	shut := make(map[string]bool, len(user))
	for _, n := range user {
		shut[n] = true
	}
	var out []string
	for _, name := range in.Snapshot.JobNodes(j) {
		if n := in.node(name); n.Usable() && !shut[name] {
			out = append(out, name)
		}
	}
	in.index.open[key] = out
	return out
}

// node returns the node of that name, or nil.
func (in Input) node(name string) *slurm.Node {
	if i, ok := in.index.at[name]; ok {
		return &in.Snapshot.Nodes[i]
	}
	return nil
}

// known leaves out the names of nodes that the cluster does not have.
func (in Input) known(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if in.node(n) != nil {
			out = append(out, n)
		}
	}
	return out
}

// marked is the set of these names, by place in Snapshot.Nodes.
func (in Input) marked(names []string) []bool {
	out := make([]bool, len(in.Snapshot.Nodes))
	for _, n := range names {
		if i, ok := in.index.at[n]; ok {
			out[i] = true
		}
	}
	return out
}
