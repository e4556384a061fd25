// SPDX-License-Identifier: Apache-2.0

package peer

// tiresiasLimits are the GPU seconds at which Tiresias' simulator moves a job
// to the next of its three queues (github.com/SymbioticLab/Tiresias,
// simulator/jobs.py).
var tiresiasLimits = []float64{3250, 7200}

// Semantics is a published simulator's policy: its name there and its options.
type Semantics struct {
	Name string
	Options
}

// Tiresias lists the policies of Tiresias' simulator. It runs in whole
// seconds; work from traces in whole seconds gives the same.
func Tiresias() []Semantics {
	return []Semantics{
		{"fifo", Options{Order: FIFO, Placement: Counted}},
		{"fit-first", Options{Order: FitFirst, Placement: Counted}},
		{"SRTF", Options{Order: SRTF}},
		{"SRSF", Options{Order: SRSF}},
		{"Tiresias", Options{Order: LAS, Placement: Counted, Limits: tiresiasLimits, DemoteLate: true}},
	}
}

// Muri lists the policies of Muri's simulator that share no GPUs. FIFO is not
// among its own: it is Tiresias' on Muri's trace.
func Muri() []Semantics {
	return []Semantics{
		{"SRTF", Options{Order: SRTF, RestartInEveryInterval: true}},
		{"SRSF", Options{Order: SRSF, RestartInEveryInterval: true}},
		{"Tiresias", Options{Order: LAS, Placement: Counted, Limits: tiresiasLimits, RestartInEveryInterval: true}},
		{"FIFO", Options{Order: FIFO, Placement: Counted}},
	}
}

// Helios lists the policies of Helios's simulator with its consolidating
// placer.
func Helios() []Semantics {
	return []Semantics{
		{"QSSF", Options{Order: QSSF, Placement: BestWhole, EstimateLate: true}},
		{"SJF", Options{Order: SJF, Placement: BestWhole}},
		{"FIFO (Helios)", Options{Order: FIFO, Placement: BestWhole}},
	}
}

// Means returns the mean completion time and the mean time without GPUs, in
// seconds.
func Means(jobs []Work, done []Done) (completion, wait float64) {
	for i, d := range done {
		completion += d.End - jobs[i].Submit
		wait += d.Wait
	}
	n := float64(max(1, len(done)))
	return completion / n, wait / n
}
