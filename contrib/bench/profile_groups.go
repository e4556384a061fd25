// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// parameters are the sizes of the models that were measured, from their
// published code and papers: what an all-reduce moves is 4 bytes of each. The
// tables hold no byte counters, so these stand in for what a collector would
// read; no measurement of a spread run goes into them.
var parameters = map[string]float64{
	"bert":        109e6,   // BERT-base
	"cifar10":     11.17e6, // ResNet-18 for CIFAR-10
	"deepspeech2": 41.2e6,  // five bidirectional GRU layers of 800
	"imagenet":    25.56e6, // ResNet-50
	"ncf":         1.60e6,  // NeuMF, 32 factors, MovieLens-1M
	"yolov3":      61.6e6,  // 20 classes
}

// The nodes of the measured tables: g4dn.12xlarge.
const (
	t4NIC  = 50e9 / 8
	t4PCIe = 8e9 // one T4 on 8 lanes, bytes per second in one direction
)

// placed is one model and batch size, on one node with 4 GPUs and on two with
// 2 each. Times in seconds.
type placed struct {
	model                  string
	batch                  int
	packed, spread         step
	inBook, inBookUnscaled float64 // log cc as the book has it after a packed run
}

type step struct{ time, sync float64 }

// logCC is within the bounds that a book keeps.
func (s step) logCC() float64 {
	top := math.Log(profile.DefaultOptions().MaxCC)
	return min(top, max(-top, math.Log((s.time-s.sync)/s.sync)))
}

func (p *placed) retention() float64 { return p.packed.time / p.spread.time }

// groups tells how much of the variance of packed-to-spread retention groups by
// log cc explain, by where cc was seen.
func groups(_ context.Context, out io.Writer) error {
	points, err := readPlaced(filepath.Join(sharedDir(), "placement"))
	if err != nil {
		return err
	}
	if len(points) == 0 {
		fmt.Fprintln(out, "skipped: no measured placements; set RIFLING_SHARED to the folder that holds placement/")
		return nil
	}
	for i := range points {
		if err := points[i].throughBook(); err != nil {
			return err
		}
	}
	rows := []struct {
		name string
		of   func(*placed) float64
	}{
		{"spread run", func(p *placed) float64 { return p.spread.logCC() }},
		{"packed run, time in sync", func(p *placed) float64 { return p.packed.logCC() }},
		{"packed run, bytes over PCIe", func(p *placed) float64 { return p.inBookUnscaled }},
		{"packed run, bytes over NIC", func(p *placed) float64 { return p.inBook }},
		{"same, NIC as others saw it", func(p *placed) float64 { return p.inBook + math.Log(fastestOther(points, p.model)/t4NIC) }},
	}
	retention := make([]float64, len(points))
	for i := range points {
		retention[i] = points[i].retention()
	}
	fmt.Fprintf(out, "retention of 2 x 2 against 4 T4, 50 Gb/s: %d points of %d models; variance explained by groups on log cc\n", len(points), len(parameters))
	fmt.Fprintf(out, "%-28s %9s  %6s %6s %6s %6s %6s  %6s  %s\n", "cc seen in", "Spearman", "k=1", "k=2", "k=3", "k=4", "k=5", "auto", "kind as in the spread run")
	rank := make([]float64, len(rows))
	explained := make([][]float64, len(rows))
	for i, r := range rows {
		cc := make([]float64, len(points))
		for n := range points {
			cc[n] = r.of(&points[n])
		}
		rank[i] = spearman(cc, retention)
		fmt.Fprintf(out, "%-28s %9.3f ", r.name, rank[i])
		for k := 1; k <= 5; k++ {
			e, _ := explainedBy(cc, retention, k)
			explained[i] = append(explained[i], e)
			fmt.Fprintf(out, " %6.3f", e)
		}
		e, k := explainedBy(cc, retention, 0)
		fmt.Fprintf(out, "  %d %.2f  %.0f %%\n", k, e, 100*sameKind(points, cc))
	}
	for i, target := range []float64{0.81, 0.89, 0.93} { // stated in whole per cent
		e := explained[0][i+1]
		fmt.Fprintf(out, "bar: groups-k%d value=%.3f target=%.2f %s\n", i+2, e, target, verdict(math.Round(100*e) >= 100*target))
	}
	fmt.Fprintf(out, "bar: scaling-rank value=%.3f target=0.75 %s\n", rank[3], verdict(rank[3] >= 0.75))
	recovered := (rank[3] - rank[1]) / (rank[0] - rank[1])
	fmt.Fprintf(out, "bar: scaling-recovered value=%.2f target=0.5 %s\n", recovered, verdict(recovered >= 0.5))
	recovered = (explained[3][2] - explained[1][2]) / (explained[0][2] - explained[1][2])
	fmt.Fprintf(out, "bar: scaling-variance-k3 value=%.2f target=0.5 %s\n\n", recovered, verdict(recovered >= 0.5))
	return nil
}

// fastestOther is the most that a run of another model got out of a node's NIC,
// bytes per second: what the nominal speed comes to.
func fastestOther(points []placed, model string) float64 {
	best := 0.0
	for i := range points {
		if p := &points[i]; p.model != model {
			best = max(best, 2*ringBytes(p.model)/p.spread.time)
		}
	}
	return best
}

// ringBytes is what a GPU moves in one step of a ring all-reduce over 4 GPUs.
func ringBytes(model string) float64 { return 2 * 3.0 / 4 * 4 * parameters[model] }

// explainedBy is the share of the variance of retention that lies between the
// groups of log cc; k 0 lets the profile choose.
func explainedBy(cc, retention []float64, k int) (explained float64, groups int) {
	o := profile.DefaultOptions()
	o.Groups, o.MinGap = k, 0
	gs := profile.GroupValues(cc, o)
	parts := make([][]float64, len(gs))
	for i, x := range cc {
		n := nearest(gs, x)
		parts[n] = append(parts[n], retention[i])
	}
	within := 0.0
	for _, p := range parts {
		within += squares(p)
	}
	return 1 - within/squares(retention), len(gs)
}

func nearest(gs []profile.Group, x float64) int {
	best := 0
	for i := range gs {
		if math.Abs(gs[i].Center-x) < math.Abs(gs[best].Center-x) {
			best = i
		}
	}
	return best
}

// squares is the sum of squared deviations from the mean.
func squares(v []float64) float64 {
	mean, sum := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

// sameKind is the share of points that the default thresholds put on the same
// side by cc as by the spread run's.
func sameKind(points []placed, cc []float64) float64 {
	o := profile.DefaultOptions()
	kind := func(logCC float64) int {
		switch x := math.Exp(logCC); {
		case x < o.CommBoundBelow:
			return 0
		case x > o.ComputeBoundAbove:
			return 2
		}
		return 1
	}
	same := 0.0
	for i := range points {
		if kind(cc[i]) == kind(points[i].spread.logCC()) {
			same++
		}
	}
	return same / float64(len(points))
}

// throughBook has a collector watch the packed run: the GPUs compute but for
// the time in sync, and move what a ring all-reduce of the model's gradients
// moves over PCIe in each step.
func (p *placed) throughBook() error {
	const gpus = 4
	bytes := ringBytes(p.model) / p.packed.time // per second and GPU
	compute := 1 - p.packed.sync/p.packed.time
	p.inBookUnscaled = math.Log(compute / (bytes / t4PCIe))

	now := time.Unix(1e9, 0).UTC()
	j := slurm.Job{
		ID: 1, Name: p.model, User: "u", Account: "a", Partition: "gpu", State: slurm.State{Base: "RUNNING"},
		StartTime: now, Nodes: []string{"n1"}, NodeGPUs: map[string]int{"n1": gpus}, Request: slurm.GPURequest{PerJob: gpus},
	}
	s := slurm.Snapshot{
		Jobs: []slurm.Job{j}, Nodes: []slurm.Node{{Name: "n1", GPUs: gpus, GPUType: "t4"}},
		Partitions: []slurm.Partition{{Name: "gpu", Nodes: []string{"n1"}}},
	}
	book := profile.NewBook(profile.DefaultOptions())
	const interval = 15 * time.Second
	for range 8 {
		now = now.Add(interval)
		s.TakenAt = now
		book.Track(&s)
		refused := book.Add([]profile.Sample{{
			JobID: 1, Node: "n1", At: now, Interval: interval, GPUs: gpus, Compute: compute, Source: profile.SourceGPM,
			PCIeRate: gpus * bytes, PCIeSpeed: gpus * t4PCIe, NetSpeed: t4NIC,
		}})
		if len(refused) > 0 {
			return fmt.Errorf("%s, batch %d: the profile refuses %v", p.model, p.batch, refused)
		}
	}
	known := book.Profiles(&s)[1]
	if known.Level != profile.LevelJob {
		return fmt.Errorf("%s, batch %d: the profile knows nothing after 8 intervals", p.model, p.batch)
	}
	p.inBook = known.LogCC
	return nil
}

// readPlaced reads the tables of measured placements whose models' sizes are
// known; others are an error, so that a new table is not passed over.
func readPlaced(dir string) ([]placed, error) {
	files, err := filepath.Glob(filepath.Join(dir, "pollux_t4_*.csv"))
	if err != nil {
		return nil, err
	}
	var out []placed
	for _, file := range files {
		model := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "pollux_t4_"), ".csv")
		if strings.HasSuffix(model, "_scalability") {
			continue
		}
		if parameters[model] == 0 {
			return nil, fmt.Errorf("%s: the size of the model is not known", file)
		}
		runs, err := readT4Steps(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		var batches []int
		for b := range runs["4"] {
			batches = append(batches, b)
		}
		slices.Sort(batches)
		for _, b := range batches {
			if spread, ok := runs["22"][b]; ok {
				out = append(out, placed{model: model, batch: b, packed: runs["4"][b], spread: spread})
			}
		}
	}
	return out, nil
}

// readT4Steps reads placement,local_bsz,step_time,sync_time by placement and batch.
func readT4Steps(file string) (map[string]map[int]step, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	out := map[string]map[int]step{}
	for i, r := range rows {
		if i == 0 || len(r) != 4 {
			continue
		}
		batch, e1 := strconv.Atoi(r[1])
		t, e2 := strconv.ParseFloat(r[2], 64)
		sync, e3 := strconv.ParseFloat(r[3], 64)
		if e1 != nil || e2 != nil || e3 != nil {
			return nil, fmt.Errorf("row %d is not numbers", i+1)
		}
		if out[r[0]] == nil {
			out[r[0]] = map[int]step{}
		}
		out[r[0]][batch] = step{t, sync}
	}
	return out, nil
}
