// SPDX-License-Identifier: Apache-2.0

// Package policy decides: from a snapshot and the jobs' profiles it makes a
// plan, without clock, log, network or database. It holds the state encoding,
// the candidate placements, the guard rails, what a plan means as updates of
// jobs, how they are taken back, and the reward. See docs/design/policy.md.
package policy

import (
	"math/rand/v2"
	"time"

	"rifling/agent"
	"rifling/profile"
	"rifling/slurm"
)

// Action is what a policy may choose for a pending job.
type Action string

// The actions. Each but Leave and Wait means a set of candidate nodes.
const (
	Leave Action = "leave" // leave the job to Slurm
	Pack  Action = "pack"  // fewest nodes, best fit, whole slots kept whole
	Leaf  Action = "leaf"  // fewest nodes under one leaf switch
	Even  Action = "even"  // equal parts over nodes with idle NICs
	Quiet Action = "quiet" // as few nodes as may be, away from communication-bound jobs
	Wait  Action = "wait"  // nodes that are not free yet, until a deadline
	// Place is what baselines choose that take nodes in an order of their own;
	// no learner is offered it.
	Place Action = "place"
)

// Actions lists what learners choose among, in the order of their indices in an agent's table.
var Actions = []Action{Leave, Pack, Leaf, Even, Quiet, Wait}

// Input is all that a decision may depend on.
type Input struct {
	Snapshot *slurm.Snapshot
	Profiles map[slurm.JobID]profile.Profile // of pending and running GPU jobs
	Owned    map[slurm.JobID]Owner           // what rifling has set and not yet taken back
	Previous map[slurm.JobID]Decision        // what was decided last for a pending job
	Heads    map[slurm.JobID]time.Time       // when a job first stood at its queue's head
	Limits   Limits
	Rand     *rand.Rand

	index *index // see indexed
}

// Policy makes a plan of an input. It must not keep or change the input.
type Policy interface {
	Decide(in Input) Plan
}

// Plan is what a policy wants, job by job, in the queue's order.
type Plan struct {
	Policy    string
	At        time.Time
	Decisions []Decision
}

// Decision is what was chosen for one job and why.
type Decision struct {
	JobID      slurm.JobID
	Action     Action
	State      string   // the encoded state, printable; empty for policies without one
	Candidates []string // the nodes that the job may use; nil means all
	Target     []string // the nodes that are meant: those it would take now, or, waiting, those it waits for; nil for Leave
	Offset     int64    // priority points to add, 0 for none
	Reason     string   // one sentence
	Skipped    string   // the guard rail that keeps rifling's hands off; then Action is Leave
	Explored   bool     // chosen at random to learn
	Value      float64  // of the chosen action, where the policy values actions
	Deadline   time.Time
	Considered []Option // what else was possible, the chosen one included
}

// Option is one action that was possible.
type Option struct {
	Action Action
	Nodes  []string
	Shape  string // "1 node", "2 nodes, one leaf", ... as Slurm's fit would make it
	Value  float64
	Prior  float64 // the value before any visit; part of Value
	Visits int
	Note   string // why it is no better, or why it was not offered
}

// Limits are the guard rails' settings. Zero values are safe: they forbid.
type Limits struct {
	Partitions   []string // managed partitions; empty means every partition with GPU nodes
	OptOut       string   // word in a job's comment that keeps rifling away, e.g. "rifling=off"
	SkipUsers    []string
	SkipAccounts []string
	SkipQOS      []string
	// Jobs that name one of these partitions, alone or among others, and jobs
	// whose constraint names one of these features, are left alone.
	SkipPartitions, SkipConstraints []string

	Depth         int           // first N queued jobs that are decided on
	SlackNodes    int           // usable nodes left to a job beyond those it needs
	MaxOffset     int64         // bound of the priority offset, points
	MaxOvertake   int64         // points by which an offset may lift a job above one of another QOS or partition
	MaxWait       time.Duration // longest wait for a better shape, from the queue's head
	MaxChanges    int           // updates per cycle
	TTL           time.Duration // life of what was set, unless renewed
	RequiredNodes []string      // partitions where the exact node list is the lever
	Starvation    time.Duration // a job that is eligible for longer is left to Slurm alone; 0 never
	Grace         time.Duration // a job whose begin time is at most so far ahead counts as eligible

	// What may be written to; jobs outside are observed. Empty means all.
	SteerPartitions, SteerAccounts, SteerQOS []string
}

// Owner records what rifling set on a job, so that it can be taken back.
type Owner struct {
	JobID slurm.JobID
	// What the user had when rifling first touched the job.
	UserExclude  []string
	UserNice     int64
	UserRequired []string
	// What rifling wrote last, or was about to write when it died: the whole
	// values, the user's own included. Nil lists mean that the lever was not used.
	SetExclude    []string
	SetRequired   []string
	SetNice       *int64
	SetSiteFactor *int64
	// What the previous successful write left; a crash between record and
	// write leaves either these or the ones above on the job.
	PrevExclude  []string
	PrevRequired []string
	PrevNice     *int64

	SetAt     time.Time
	ExpiresAt time.Time
	// Shunned says why this job must not be touched again, e.g. that Slurm
	// called it impossible after a change; empty otherwise.
	Shunned string
}

// Kind says what an update is for.
type Kind string

// The kinds of change.
const (
	KindSet      Kind = "set"
	KindTakeBack Kind = "take-back"
)

// Change is one write that a plan needs, with the owner record that must be
// stored before it.
type Change struct {
	Kind   Kind
	Update slurm.Update
	Owner  Owner // as it will be after the write
	Why    string
	// Expect is what the job must still look like when the write happens.
	Expect Expect
}

// Expect is compared with a fresh read of the job before a write.
type Expect struct {
	Pending       bool
	ExcludedNodes []string
	RequiredNodes []string
	Nice          int64
}

// Outcome is what became of a change or of a decision that needed none.
type Outcome string

// The outcomes.
const (
	Applied  Outcome = "applied"
	Skipped  Outcome = "skipped"
	Failed   Outcome = "failed"
	Observed Outcome = "observed" // observe mode: nothing was sent
)

// Result is how a change ended.
type Result struct {
	Change  Change
	Outcome Outcome
	Detail  string // why it was skipped or failed
	// Owner is the owner record that stands now; nil means Change.Owner, since
	// the write may have come through; one without SetAt means none.
	Owner *Owner
}

// Episode ties a job's last decision to how the job then ran. It is what a
// learner learns from.
type Episode struct {
	JobID     slurm.JobID
	State     string
	Action    Action // what was decided
	Actual    Action // what the placement that Slurm made amounts to; Wait while pending
	GPUs      int
	Submitted time.Time
	Decided   time.Time
	Started   time.Time
	Ended     time.Time
	Nodes     []string
	NPR       float64
	NPRCount  int
	// NeighbourDelta is the GPU-weighted sum of changes of NPR of the running
	// jobs that share the placement's nodes.
	NeighbourDelta float64
	// IdleGPUSeconds is the GPU time that stayed idle because the job waited
	// though a shape was free.
	IdleGPUSeconds float64
	Reward         float64
	Learned        bool
}

// QEntry is one cell of a learner's table, named here so that the loop and its
// recorder need not know the agent.
type QEntry = agent.Entry
