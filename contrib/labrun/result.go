// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"rifling/contrib/workload"
)

// Result is the line of JSON that an emulated job prints at its end: the truth
// about its speed, from the speed model and not from rifling.
type Result struct {
	Job        uint32         `json:"job"`
	Model      string         `json:"model"`
	Phase      string         `json:"phase"` // "finished" when all iterations were done
	Iterations float64        `json:"iterations"`
	Seconds    float64        `json:"seconds"` // emulated time at work
	Rate       float64        `json:"rate"`    // mean iterations per emulated second
	IdealRate  float64        `json:"ideal_rate"`
	NPR        float64        `json:"npr"` // rate over the rate inside one node
	Nodes      int            `json:"nodes"`
	Shape      string         `json:"shape"` // "4+4"
	Placement  map[string]int `json:"placement"`
	Start      time.Time      `json:"start"` // real time
	End        time.Time      `json:"end"`

	// The truth about its computing and its moving of bytes, emulated time.
	ComputeSeconds float64 `json:"compute_seconds"`
	CommSeconds    float64 `json:"comm_seconds"` // as it ran, waiting for neighbours included
	LinkSeconds    float64 `json:"link_seconds"` // across nodes with the NICs to itself
	CC             float64 `json:"cc"`           // ComputeSeconds / LinkSeconds; 0 when it does not communicate
	GPUBytes       float64 `json:"gpu_bytes"`    // sent by each GPU
	NICBytes       float64 `json:"nic_bytes"`    // sent by its busiest node; 0 on one node
}

// parseResult finds the last result in a job's output; nil when there is none.
func parseResult(text string) *Result {
	var last *Result
	for line := range strings.Lines(text) {
		var r Result
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &r) == nil && r.Model != "" {
			last = &r
		}
	}
	return last
}

// Row is how one job of a campaign went. Times are Slurm's.
type Row struct {
	ID                 string
	Job                workload.Job
	State              string
	Nodes              int
	NodeList           string // as sacct writes it
	Submit, Start, End time.Time
	Result             *Result // nil when the job printed none
}

// Summary is how a campaign went as a whole. Durations are emulated time.
type Summary struct {
	Jobs, Killed int // Killed jobs did not complete: they ran into their limits
	// Makespan is from the first submission to the last end.
	Makespan time.Duration
	// JCT is from a job's submission to its end.
	MeanJCT, P95JCT time.Duration
	// MeanDelay is the queueing delay, from submission to start.
	MeanDelay time.Duration
	// ANPR is the mean of the jobs' normalized processing rates, weighted by
	// the GPU time that each held, as the jobs themselves report it.
	ANPR float64
}

// Summarize works out a campaign's figures. compression is emulated seconds per
// real second and speed the lab's clock, as in a Campaign: what Slurm's clock
// measured is stretched by compression/speed.
func Summarize(rows []Row, compression, speed float64) Summary {
	s := Summary{Jobs: len(rows)}
	if len(rows) == 0 {
		return s
	}
	var first, last time.Time
	var jct []float64
	var delay, npr, weight float64
	for _, r := range rows {
		if r.State != "COMPLETED" {
			s.Killed++
		}
		if first.IsZero() || r.Submit.Before(first) {
			first = r.Submit
		}
		if r.End.After(last) {
			last = r.End
		}
		jct = append(jct, r.End.Sub(r.Submit).Seconds())
		delay += r.Start.Sub(r.Submit).Seconds()
		if r.Result != nil {
			w := r.Result.Seconds * float64(r.Job.GPUs)
			npr += w * r.Result.NPR
			weight += w
		}
	}
	slices.Sort(jct)
	stretch := func(seconds float64) time.Duration {
		return time.Duration(seconds * compression / speed * float64(time.Second)).Round(time.Second)
	}
	s.Makespan = stretch(last.Sub(first).Seconds())
	s.MeanJCT = stretch(sum(jct) / float64(len(jct)))
	s.P95JCT = stretch(jct[int(math.Ceil(0.95*float64(len(jct))))-1])
	s.MeanDelay = stretch(delay / float64(len(rows)))
	if weight > 0 {
		s.ANPR = npr / weight
	}
	return s
}

func sum(v []float64) float64 {
	t := 0.0
	for _, x := range v {
		t += x
	}
	return t
}

// Duration writes emulated time as hours and minutes: "3h07m".
func Duration(d time.Duration) string {
	m := int(d.Round(time.Minute) / time.Minute)
	return fmt.Sprintf("%dh%02dm", m/60, m%60)
}
