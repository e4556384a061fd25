// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"rifling/sim/peer"
	"rifling/sim/trace"
)

// figure is one figure of a published simulator's program beside ours.
type figure struct {
	work, policy, what string
	ours, theirs       float64 // theirs is NaN where none is known
}

// peerSet is the figures of one simulator.
type peerSet struct {
	name, about string
	bound       float64 // most difference, relative or in points
	points      bool
	figures     func(dir string) ([]figure, error) // dir is the folder traces
}

var peerSets = []peerSet{
	{"muri", "Muri's simulator, 8 nodes x 8 GPUs", 0.01, false, muriFigures},
	{"philly", "Tiresias' and Helios's simulators, Philly virtual clusters", 0.03, false, phillyFigures},
	{"batch", "RLScheduler's heuristics, 10 sequences of 1,024 jobs", 0.01, false, batchFigures},
	{"openb", "FGD's comparison, GPUs given away at 130 % of arrived load, 10 orders", 0.5, true, openbFigures},
	{"pollux", "Pollux's simulator under Tiresias, 16 nodes x 4 GPUs", 0.05, false, polluxFigures},
}

// peers prints our replays of published simulators beside what their programs
// printed.
func peers(ctx context.Context, out io.Writer) error {
	dir := filepath.Join(sharedDir(), "traces")
	if found, err := filepath.Glob(dir); err != nil || len(found) == 0 {
		fmt.Fprintln(out, "skipped: no traces; set RIFLING_SHARED to the folder that holds traces/")
		return err
	}
	for _, s := range peerSets {
		if err := ctx.Err(); err != nil {
			return err
		}
		begin := time.Now()
		figures, err := s.figures(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.print(out, figures, time.Since(begin))
	}
	return nil
}

func (s peerSet) print(out io.Writer, figures []figure, took time.Duration) {
	fmt.Fprintf(out, "%s (%.2f s)\n", s.about, took.Seconds())
	fmt.Fprintf(out, "%-26s %-14s %-16s %12s %12s %9s\n", "work", "policy", "figure", "ours", "theirs", "differs")
	worst, known, short := 0.0, 0, 0
	for _, f := range figures {
		fmt.Fprintf(out, "%-26s %-14s %-16s %12s", f.work, f.policy, f.what, s.number(f.ours))
		if math.IsNaN(f.theirs) {
			fmt.Fprintf(out, " %12s\n", "-")
			continue
		}
		d, unit := 100*(f.ours/f.theirs-1), "%"
		if s.points {
			d, unit = f.ours-f.theirs, "pt"
		}
		within := math.Abs(d) <= s.limit()
		known++
		if !within {
			short++
		}
		worst = max(worst, math.Abs(d))
		fmt.Fprintf(out, " %12s %+7.2f %-2s %s\n", s.number(f.theirs), d, unit, verdict(within))
	}
	if known == 0 {
		return
	}
	unit := "%"
	if s.points {
		unit = "pt"
	}
	fmt.Fprintf(out, "%d of %d figures within the bound\n", known-short, known)
	fmt.Fprintf(out, "bar: peers-%s value=%.2f%s target=%.4g%s %s\n\n", s.name, worst, unit, s.limit(), unit, verdict(short == 0))
}

// limit is the bound in what is printed: per cent or points.
func (s peerSet) limit() float64 {
	if s.points {
		return s.bound
	}
	return 100 * s.bound
}

func (s peerSet) number(v float64) string {
	switch {
	case s.points || v < 1000:
		return fmt.Sprintf("%.2f", v)
	case v < 100000:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// tracesIn reads every trace of a folder by the pattern, in the order of their
// names.
func tracesIn(dir, pattern string, f trace.Format, each func(name string, jobs []trace.Job) error) error {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return err
	}
	for _, path := range files {
		jobs, err := readTrace(path, f)
		if err != nil {
			return err
		}
		if err := each(filepath.Base(path[:len(path)-len(filepath.Ext(path))]), jobs); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func readTrace(path string, f trace.Format) ([]trace.Job, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	jobs, _, err := trace.ReadAll(file, f, trace.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return jobs, nil
}

// target looks a figure up; NaN for none.
func target(of map[string][]float64, key string, i int) float64 {
	if v, ok := of[key]; ok && i < len(v) {
		return v[i]
	}
	return math.NaN()
}

// muriTargets has, by trace, the mean completion times of SRTF, SRSF, Tiresias
// and FIFO that the programs printed (traces/README.md).
var muriTargets = map[string][]float64{
	"trace1": {1370603.2, 980140.6, 3330371.3, 10313080.7},
	"trace3": {193081.8, 185021.9, 347213.2, 991167.0},
	"trace4": {581982.9, 487167.2, 1319382.9, 3812773.8},
}

func muriFigures(dir string) ([]figure, error) {
	var out []figure
	err := tracesIn(dir, filepath.Join("muri", "*.csv"), trace.Muri, func(name string, jobs []trace.Job) error {
		work, err := peer.FromMuri(jobs)
		if err != nil {
			return err
		}
		for i, s := range peer.Muri() {
			done, err := peer.Replay(peer.Machine{Nodes: 8, GPUs: 8}, work, s.Options)
			if err != nil {
				return err
			}
			completion, _ := peer.Means(work, done)
			out = append(out, figure{name, s.Name, "mean JCT s", completion, target(muriTargets, name, i)})
		}
		return nil
	})
	return out, err
}

// phillyTargets has, by cut, mean completion and mean queueing time of fifo,
// fit-first, SRTF, SRSF and Tiresias (Tiresias' simulator), then the mean
// completion time of QSSF, SJF and FIFO (Helios's).
var phillyTargets = map[string][]float64{
	"7f04ca_10x8": {694085, 582937, 514103, 402956, 144946, 33799, 140656, 29509, 268888, 157741, 336267, 204686, 754464},
	"0e4a51_8x8":  {668002, 572298, 536274, 440571, 156680, 60976, 153872, 58169, 219604, 123901, 292601, 208783, 752315},
	"2869ce_8x8":  {254081, 167675, 181122, 94716, 143268, 56863, 154203, 67797, 175789, 89383, 199293, 164871, 254081},
	"103959_4x8":  {97553, 73016, 57408, 32870, 32307, 7770, 33297, 8760, 40761, 16223, 44429, 38113, 103446},
}

var sizeInName = regexp.MustCompile(`_(\d+)x(\d+)$`)

func phillyFigures(dir string) ([]figure, error) {
	var out []figure
	err := tracesIn(dir, filepath.Join("philly_vc", "*.csv"), trace.Philly, func(name string, jobs []trace.Job) error {
		size := sizeInName.FindStringSubmatch(name)
		if size == nil {
			return fmt.Errorf("its name does not end in _NODESxGPUS")
		}
		nodes, _ := strconv.Atoi(size[1]) // digits by the pattern
		gpus, _ := strconv.Atoi(size[2])
		m, work := peer.Machine{Nodes: nodes, GPUs: gpus}, peer.FromTrace(jobs)
		tiresias := peer.Tiresias()
		for i, s := range append(tiresias, peer.Helios()...) {
			done, err := peer.Replay(m, work, s.Options)
			if err != nil {
				return err
			}
			completion, wait := peer.Means(work, done)
			if i >= len(tiresias) {
				out = append(out, figure{name, s.Name, "mean JCT s", completion, target(phillyTargets, name, i+len(tiresias))})
				continue
			}
			out = append(out, figure{name, s.Name, "mean JCT s", completion, target(phillyTargets, name, 2*i)},
				figure{name, s.Name, "mean queue s", wait, target(phillyTargets, name, 2*i+1)})
		}
		return nil
	})
	return out, err
}
