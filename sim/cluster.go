// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// cluster is the hardware with what is taken of it. Arrays by node index and
// sets by free GPUs make the questions that every placement asks cheap.
type cluster struct {
	spec  Spec
	index map[string]int // by node name

	gpus, cpus       []int32 // configured
	free, freeCPUs   []int32
	up               []bool
	leaf             []int32 // index of the leaf switch
	leaves           int
	leafSets         []leafSet
	nic              []float64
	holders          int     // jobs that hold GPUs
	completing       []int32 // jobs that have ended there and still hold GPUs
	kinds            map[string]NodeSet
	byFree           []NodeSet // byFree[g]: nodes in service with exactly g GPUs free
	all, upSet       NodeSet
	closing          NodeSet // nodes with a job that completes
	partitions       []partition
	partIndex        map[string]int
	sizes            map[reach][]int // by plain request, what the nodes offer
	qos              map[string]int
	most             int // GPUs of the largest node
	totalGPUs, inUse int
	totalCPUs        int
	idle, scattered  int           // GPUs free on nodes in service; those of them on nodes that are partly taken
	holds            [][]*JobState // jobs by node that hold GPUs there
	touched          NodeSet       // nodes whose jobs changed since a scheduler looked
	contenders       []int32       // jobs by node whose traffic slows others
	spanning         [][]*JobState // jobs by node that span nodes and have a model
	maxQOS, fac      int
	tight            bool // a node may run out of CPUs before GPUs though a job takes one a GPU
}

// leafSet is the nodes under a leaf switch, as the words of a NodeSet from one
// of them on.
type leafSet struct {
	from  int
	words []uint64
}

func leafSets(leaf []int32, leaves int) []leafSet {
	out := make([]leafSet, leaves)
	for n, l := range leaf {
		s := &out[l]
		if s.words == nil {
			s.from = n >> 6
		}
		for len(s.words) <= n>>6-s.from {
			s.words = append(s.words, 0)
		}
		s.words[n>>6-s.from] |= 1 << (n & 63)
	}
	return out
}

type partition struct {
	PartitionSpec
	nodes NodeSet
	count int
	gpus  int
}

func newCluster(spec Spec) (*cluster, error) {
	n := len(spec.Nodes)
	if n == 0 {
		return nil, errors.New("a simulated cluster needs nodes")
	}
	c := &cluster{
		spec: spec, index: make(map[string]int, n), all: NewNodeSet(n), upSet: NewNodeSet(n), closing: NewNodeSet(n),
		gpus: make([]int32, n), cpus: make([]int32, n), free: make([]int32, n), freeCPUs: make([]int32, n),
		up: make([]bool, n), leaf: make([]int32, n), nic: make([]float64, n), completing: make([]int32, n),
		holds: make([][]*JobState, n), touched: NewNodeSet(n),
		contenders: make([]int32, n), spanning: make([][]*JobState, n),
		kinds: map[string]NodeSet{}, partIndex: map[string]int{}, sizes: map[reach][]int{}, qos: map[string]int{},
	}
	leaves := map[string]int32{}
	for i, s := range spec.Nodes {
		if _, twice := c.index[s.Name]; twice || s.Name == "" || s.GPUs < 1 || s.CPUs < 0 {
			return nil, fmt.Errorf("node %d (%q) is named twice or not at all, or has %d GPUs", i, s.Name, s.GPUs)
		}
		c.index[s.Name] = i
		c.gpus[i], c.cpus[i], c.nic[i] = int32(s.GPUs), int32(s.CPUs), s.NICSpeed
		if s.CPUs == 0 {
			c.cpus[i] = int32(s.GPUs)
		}
		if s.NICSpeed == 0 {
			c.nic[i] = DefaultNICBytesPerSecond
		}
		if _, ok := leaves[s.Leaf]; !ok {
			leaves[s.Leaf] = int32(len(leaves))
		}
		c.leaf[i] = leaves[s.Leaf]
		c.tight = c.tight || c.cpus[i] < c.gpus[i]
		if c.kinds[s.GPUType] == nil {
			c.kinds[s.GPUType] = NewNodeSet(n)
		}
		c.kinds[s.GPUType].Add(i)
		c.all.Add(i)
		c.most = max(c.most, s.GPUs)
		c.totalGPUs += s.GPUs
		c.totalCPUs += int(c.cpus[i])
	}
	c.leaves = len(leaves)
	c.leafSets = leafSets(c.leaf, c.leaves)
	c.byFree = make([]NodeSet, c.most+1)
	for g := range c.byFree {
		c.byFree[g] = NewNodeSet(n)
	}
	for i := range spec.Nodes {
		c.free[i], c.freeCPUs[i], c.up[i] = c.gpus[i], c.cpus[i], true
		c.show(i)
		c.upSet.Add(i)
	}
	return c, c.addPartitions()
}

func (c *cluster) addPartitions() error {
	specs := c.spec.Partitions
	if len(specs) == 0 {
		specs = []PartitionSpec{{Name: "gpu"}}
	}
	for i, s := range specs {
		if _, twice := c.partIndex[s.Name]; twice || s.Name == "" {
			return fmt.Errorf("partition %q is named twice or not at all", s.Name)
		}
		p := partition{PartitionSpec: s, nodes: NewNodeSet(len(c.free))}
		if len(s.Nodes) == 0 {
			p.nodes.copyFrom(c.all)
		}
		for _, name := range s.Nodes {
			n, ok := c.index[name]
			if !ok {
				return fmt.Errorf("partition %s names node %q, which is not there", s.Name, name)
			}
			p.nodes.Add(n)
		}
		p.count = p.nodes.Len()
		for n := range p.nodes.All() {
			p.gpus += int(c.gpus[n])
		}
		c.partIndex[s.Name] = i
		c.partitions = append(c.partitions, p)
		c.fac = max(c.fac, s.JobFactor)
	}
	for i, q := range c.spec.QOS {
		c.qos[q.Name] = i
		c.maxQOS = max(c.maxQOS, q.Priority)
	}
	for _, o := range c.spec.Outages {
		if _, ok := c.index[o.Node]; !ok || o.Down < 0 || o.Up != 0 && o.Up <= o.Down {
			return fmt.Errorf("outage of %q from %v to %v cannot be", o.Node, o.Down, o.Up)
		}
	}
	return nil
}

// take and give book the job's part on a node.
func (c *cluster) take(j *JobState, a Alloc) {
	c.move(int(a.Node), -a.GPUs, -a.CPUs)
	c.holds[a.Node] = append(c.holds[a.Node], j)
	c.touched.Add(int(a.Node))
}

func (c *cluster) give(j *JobState, a Alloc) {
	c.move(int(a.Node), a.GPUs, a.CPUs)
	s := c.holds[a.Node]
	for i := range s {
		if s[i] == j {
			s[i] = s[len(s)-1]
			s[len(s)-1] = nil
			c.holds[a.Node] = s[:len(s)-1]
			break
		}
	}
	c.touched.Add(int(a.Node))
}

// move changes the free GPUs and CPUs of a node.
func (c *cluster) move(n int, gpus, cpus int32) {
	c.hide(n)
	c.free[n] += gpus
	c.freeCPUs[n] += cpus
	c.inUse -= int(gpus)
	c.show(n)
}

// hide takes what is free on a node out of the sets and counts, show puts it
// back.
func (c *cluster) hide(n int) { c.count(n, -1) }
func (c *cluster) show(n int) { c.count(n, 1) }

func (c *cluster) count(n, sign int) {
	if !c.up[n] {
		return
	}
	free := int(c.free[n])
	c.idle += sign * free
	if free < int(c.gpus[n]) {
		c.scattered += sign * free
	}
	if sign > 0 {
		c.byFree[free].Add(n)
	} else {
		c.byFree[free].Remove(n)
	}
}

func (c *cluster) setUp(n int, up bool) {
	if c.up[n] == up {
		return
	}
	c.hide(n)
	c.up[n] = up
	c.show(n)
	if up {
		c.upSet.Add(n)
	} else {
		c.upSet.Remove(n)
	}
}

// bound is the time limit that holds for a job; 0 none.
func (c *cluster) bound(j *Job, part int) time.Duration {
	p := &c.partitions[part]
	switch {
	case j.Limit <= 0 && p.DefaultTime > 0:
		return p.DefaultTime
	case j.Limit <= 0:
		return p.MaxTime
	case p.MaxTime > 0:
		return min(j.Limit, p.MaxTime)
	}
	return j.Limit
}

// could reports whether the job could ever start on this cluster.
func (c *cluster) could(j *JobState) bool {
	r, p := &j.Request, &c.partitions[j.part]
	if p.MaxTime > 0 && j.Limit > p.MaxTime {
		return false // PartitionTimeLimit
	}
	least, most := j.nodeRange()
	if p.MaxNodes > 0 {
		most = min(most, p.MaxNodes)
	}
	if len(r.Exclude) == 0 && j.simple() {
		key := reach{j.part, r.GPUType, j.perNode()}
		sizes, ok := c.sizes[key]
		if !ok {
			sizes = c.offer(j)
			c.sizes[key] = sizes
		}
		return enough(sizes, j.GPUs, least, most)
	}
	return enough(c.offer(j), j.GPUs, least, most)
}

// reach is what decides which nodes a plain request may use.
type reach struct {
	part int
	kind string
	each int
}

// offer lists what each node could serve of the job when it is empty, the most
// first.
func (c *cluster) offer(j *JobState) []int {
	r := &j.Request
	var sizes []int
	for n := range c.partitions[j.part].nodes.All() {
		if r.GPUType != "" && c.spec.Nodes[n].GPUType != r.GPUType || slices.Contains(r.Exclude, c.spec.Nodes[n].Name) {
			continue
		}
		gpus, cpus := c.gpus[n], c.cpus[n]
		var g int
		if j.simple() && j.perNode() == 0 {
			g = int(min(gpus, cpus)) // not cut to the job, so that others can share the list
		} else {
			g = c.serves(j, n, gpus, cpus)
		}
		if g > 0 {
			sizes = append(sizes, g)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	return sizes
}

func enough(sizes []int, gpus, least, most int) bool {
	have := 0
	for i, g := range sizes {
		if i >= most {
			break
		}
		if have += g; have >= gpus && i+1 >= least {
			return true
		}
	}
	return false
}

// serves returns how many of the job's GPUs a node could serve with so much
// free; 0 when it is of no use to the job.
func (c *cluster) serves(j *JobState, n int, gpus, cpus int32) int {
	r := &j.Request
	if r.Exclusive && (gpus < c.gpus[n] || cpus < c.cpus[n]) {
		return 0
	}
	if r.CPUs > 0 && r.CPUs != j.GPUs {
		gpus = min(gpus, int32(int(cpus)*j.GPUs/r.CPUs))
	} else {
		gpus = min(gpus, cpus)
	}
	if each := j.perNode(); each > 0 {
		if int(gpus) < each {
			return 0
		}
		return each
	}
	return min(int(gpus), j.GPUs)
}

// perNode is the number of GPUs on each node where the request fixes it; 0
// where it is open.
func (j *JobState) perNode() int {
	switch r := &j.Request; {
	case r.GPUsPerNode > 0:
		return r.GPUsPerNode
	case r.MaxNodes == 1:
		return j.GPUs
	}
	return 0
}

// nodeRange returns the fewest and the most nodes that the request allows.
func (j *JobState) nodeRange() (least, most int) {
	r := &j.Request
	least = max(1, r.MinNodes)
	most = r.MaxNodes
	switch {
	case r.GPUsPerNode > 0 && r.GPUs > 0:
		least = max(least, (r.GPUs+r.GPUsPerNode-1)/r.GPUsPerNode)
		most = least
	case r.GPUsPerNode > 0:
		most = least // Slurm takes the fewest that are there at once
	case most == 0:
		most = 1 << 20
	}
	return least, most
}

// cpusFor is what the job takes of a node's CPUs with so many GPUs there.
func (j *JobState) cpusFor(gpus int) int32 {
	if j.Request.CPUs <= 0 {
		return int32(gpus)
	}
	return int32((j.Request.CPUs*gpus + j.GPUs - 1) / j.GPUs)
}
