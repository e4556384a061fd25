// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rifling/collector"
	"rifling/slurm"
	"rifling/store"
)

// The load that is meant: 100 nodes of 8 GPUs, read every 15 s, with a job or
// two each, are a million samples a day, 11.6 a second. Were each GPU a sample,
// it would be 53.
const (
	ingestNodes  = 100
	jobsOfNode   = 2
	ingestTick   = 15 * time.Second
	ingestDay    = 1_000_000
	dayRate      = ingestDay / 86400.0
	gpuRate      = ingestNodes * 8 / 15.0
	tenfold      = 10
	pacedFor     = 12 * time.Second
	killRounds   = 8
	killNodes    = 40
	dayClients   = 16
	daySeconds   = 86400
	dayBatch     = 1000
	dayWithin    = 40 * time.Second // what was not sent by then is left out
	answerTarget = time.Second
)

func ingestNode(n int) string { return fmt.Sprintf("gpu%04d", n+1) }

func ingestJob(n, k int) slurm.JobID { return slurm.JobID(1000 + n*jobsOfNode + k) }

// reading is a sample as a collector makes it. Its number is in the network
// rate too, so that it can be found again.
func reading(rng *rand.Rand, node, k, gpus int, boot string, seq uint64, at time.Time) collector.Sample {
	s := collector.Sample{
		Node: ingestNode(node), Boot: boot, Seq: seq, JobID: ingestJob(node, k), At: at,
		Interval: ingestTick + time.Duration(rng.IntN(20)-10)*time.Millisecond, GPUs: gpus,
		Compute: 0.3 + 0.5*rng.Float64(), Source: collector.SourceGPM, Model: "NVIDIA H100 80GB HBM3",
		NVLinkRate: 1e9 + 9e10*rng.Float64(), PCIeRate: 1e8 + 2e9*rng.Float64(), NetRate: float64(seq),
		NVLinkSpeed: 450e9 * float64(gpus), PCIeSpeed: 63e9 * float64(gpus), NetSpeed: 50e9,
	}
	for g := range gpus {
		s.UUIDs = append(s.UUIDs, fmt.Sprintf("GPU-%08x-5a1c-4d2e-9f0b-%012x", rng.Uint32(), node*8+k*gpus+g))
	}
	return s
}

// ingest drives a real riflingd over real HTTP: a day at full speed, ten times
// the rate by the clock, kills, and the day's ageing.
func ingest(ctx context.Context, out io.Writer) error {
	d, err := newRealDaemon(ctx, ingestNodes)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.start(ctx); err != nil {
		return err
	}
	defer func() { d.kill() }() // nothing when it has ended
	fmt.Fprintf(out, "load: %d nodes x 8 GPUs every %s, %.1f samples/s (%.1f were each GPU a sample); cycles of the daemon every 5 s beside it\n\n",
		ingestNodes, ingestTick, dayRate, gpuRate)
	fmt.Fprintf(out, "%-34s %9s %9s %9s %9s %8s %8s\n", "sent", "samples/s", "p50 ms", "p99 ms", "max ms", "CPU %", "RSS MB")
	worst := time.Duration(0)
	for _, p := range []struct {
		name       string
		rate       float64
		perReading int
	}{
		{"10 x, a sample per job", tenfold * dayRate, jobsOfNode},
		{"10 x, a sample per GPU", tenfold * gpuRate, 8},
	} {
		p99, err := paced(ctx, out, d, p.name, p.rate, p.perReading)
		if err != nil {
			return err
		}
		worst = max(worst, p99)
	}
	rate, err := fullDay(ctx, out, d)
	if err != nil {
		return err
	}
	if err := ageing(ctx, out, d); err != nil {
		return err
	}
	lost, doubled, err := kills(ctx, out, d)
	if err != nil {
		return err
	}
	bar := func(name string, ok bool, value, target string) {
		verdict := "ok"
		if !ok {
			verdict = "short"
		}
		fmt.Fprintf(out, "bar: %s value=%s target=%s %s\n", name, value, target, verdict)
	}
	bar("ingest-rate", rate >= tenfold*gpuRate, fmt.Sprintf("%.0f/s", rate), fmt.Sprintf("%.0f/s", tenfold*gpuRate))
	bar("ingest-answer-p99", worst <= answerTarget, fmt.Sprintf("%.0fms", ms(worst)), fmt.Sprintf("%.0fms", ms(answerTarget)))
	bar("ingest-lost", lost == 0, fmt.Sprint(lost), "0")
	bar("ingest-doubled", doubled == 0, fmt.Sprint(doubled), "0")
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (d *realDaemon) pusher() *collector.Pusher {
	return &collector.Pusher{
		URL: "http://" + d.address, Secret: func() (string, error) { return "word", nil },
		Client: &http.Client{Timeout: 30 * time.Second}, Queue: 2 * ingestDay,
	}
}

// usage prints a line of the table.
func (d *realDaemon) usage(out io.Writer, name string, samples int, took, cpu time.Duration, answers []time.Duration) error {
	rss, err := d.rssMB()
	if err != nil {
		return err
	}
	slices.Sort(answers)
	at := func(q float64) float64 { return ms(answers[int(q*float64(len(answers)-1))]) }
	fmt.Fprintf(out, "%-34s %9.0f %9.0f %9.0f %9.0f %8.0f %8.0f\n", name, float64(samples)/took.Seconds(),
		at(0.5), at(0.99), at(1), 100*cpu.Seconds()/took.Seconds(), rss)
	return nil
}

// paced sends at a rate by the clock, each reading of a node as a batch of its
// own at its own moment, as collectors do, and waits for each answer.
func paced(ctx context.Context, out io.Writer, d *realDaemon, name string, rate float64, perReading int) (p99 time.Duration, err error) {
	before, err := d.cpu()
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var answers []time.Duration
	var failed error
	var group sync.WaitGroup
	p := d.pusher()
	p.Notice = nil
	rng := rand.New(rand.NewPCG(1, uint64(perReading)))
	batches := int(rate * pacedFor.Seconds() / float64(perReading))
	seqs := map[int]uint64{}
	begin := time.Now()
	for i := range batches {
		due := begin.Add(time.Duration(float64(i) / float64(batches) * float64(pacedFor)))
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Until(due)):
		}
		node := i % ingestNodes
		var batch []collector.Sample
		for k := range perReading {
			seqs[node]++
			batch = append(batch, reading(rng, node, k%jobsOfNode, 1, name, seqs[node], time.Now()))
		}
		group.Go(func() {
			start := time.Now()
			err := p.Send(ctx, batch)
			took := time.Since(start)
			mu.Lock()
			defer mu.Unlock()
			answers, failed = append(answers, took), errors.Join(failed, err)
		})
	}
	group.Wait()
	took := time.Since(begin)
	if failed != nil {
		return 0, failed
	}
	after, err := d.cpu()
	if err != nil {
		return 0, err
	}
	if err := d.usage(out, name, batches*perReading, took, after-before, answers); err != nil {
		return 0, err
	}
	return answers[int(0.99*float64(len(answers)-1))], nil
}

// fullDay sends a day's samples as fast as they are taken, as after a day
// without a daemon, and tells the rate.
func fullDay(ctx context.Context, out io.Writer, d *realDaemon) (rate float64, err error) {
	before, err := d.cpu()
	if err != nil {
		return 0, err
	}
	had, err := d.metric("rifling_collector_samples_total")
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var answers []time.Duration
	var failed error
	var next atomic.Int64
	var group sync.WaitGroup
	begin := time.Now()
	for range dayClients {
		group.Go(func() {
			p := d.pusher()
			for {
				node := int(next.Add(1)) - 1
				if node >= ingestNodes || ctx.Err() != nil {
					return
				}
				took, err := dayOfNode(ctx, p, node, begin)
				mu.Lock()
				answers, failed = append(answers, took...), errors.Join(failed, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	took := time.Since(begin)
	if failed != nil {
		return 0, failed
	}
	after, err := d.cpu()
	if err != nil {
		return 0, err
	}
	has, err := d.metric("rifling_collector_samples_total")
	if err != nil {
		return 0, err
	}
	if want := float64(len(answers) * dayBatch); has-had != want {
		return 0, fmt.Errorf("%.0f of %.0f samples were taken", has-had, want)
	}
	name := fmt.Sprintf("%.0f %% of a day at once", 100*(has-had)/ingestDay)
	if err := d.usage(out, name, int(has-had), took, after-before, answers); err != nil {
		return 0, err
	}
	sum, err := d.metric("rifling_cycle_duration_seconds_sum")
	if err != nil {
		return 0, err
	}
	n, err := d.metric("rifling_cycle_duration_seconds_count")
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "the daemon's cycles beside it: %.0f, mean %.2f s\n", n, sum/n)
	return (has - had) / took.Seconds(), nil
}

// dayOfNode sends the samples of one node for the day that ended at end, as far
// as dayWithin from then allows.
func dayOfNode(ctx context.Context, p *collector.Pusher, node int, end time.Time) (answers []time.Duration, err error) {
	rng := rand.New(rand.NewPCG(2, uint64(node)))
	const perNode = ingestDay / ingestNodes // of 5,760 readings most are of two jobs
	var batch []collector.Sample
	for i := range perNode {
		if len(batch) == 0 && time.Since(end) > dayWithin {
			return answers, nil
		}
		at := end.Add(-daySeconds * time.Second * time.Duration(perNode-i) / perNode)
		batch = append(batch, reading(rng, node, i%jobsOfNode, 4, "day", uint64(i+1), at))
		if len(batch) < dayBatch && i < perNode-1 {
			continue
		}
		start := time.Now()
		if err := p.Send(ctx, batch); err != nil {
			return answers, err
		}
		answers = append(answers, time.Since(start))
		batch = batch[:0]
	}
	return answers, nil
}

// ageing stops the daemon, measures what the samples take on disk, and turns
// them into means as days and months go by. What is there when all is forgotten
// is not counted.
func ageing(ctx context.Context, out io.Writer, d *realDaemon) error {
	if err := d.stop(); err != nil {
		return err
	}
	type size struct {
		name     string
		mb, fold float64
		rows     int64
	}
	var sizes []size
	for _, step := range []struct {
		name          string
		later, forget time.Duration
	}{
		{"as they came", 0, 0},
		{"means of 5 minutes", 49 * time.Hour, 0},
		{"hourly means", 32 * 24 * time.Hour, 0},
		{"forgotten", 200 * 24 * time.Hour, 90 * 24 * time.Hour},
	} {
		z := size{name: step.name}
		var err error
		if z.rows, z.fold, err = d.age(ctx, time.Now().Add(step.later), step.forget); err != nil {
			return err
		}
		if z.mb, err = d.dbMB(); err != nil {
			return err
		}
		sizes = append(sizes, z)
	}
	fmt.Fprintf(out, "\n%-34s %9s %9s %9s %9s\n", "storage of the samples above", "MB", "rows", "bytes/row", "MB a day")
	taken, base := float64(sizes[0].rows), sizes[len(sizes)-1].mb
	for _, z := range sizes[:len(sizes)-1] {
		mb := z.mb - base
		fmt.Fprintf(out, "%-34s %9.1f %9d %9.0f %9.1f\n", z.name, mb, z.rows, mb*1e6/float64(z.rows), mb*ingestDay/taken)
	}
	fmt.Fprintf(out, "to fold %d samples took %.1f s, their means of 5 minutes %.1f s\n", sizes[0].rows, sizes[1].fold, sizes[2].fold)
	return nil
}

// age opens the history at an instant, folds and forgets, and closes it. It
// returns the rows of samples that are left.
func (d *realDaemon) age(ctx context.Context, now time.Time, forget time.Duration) (rows int64, folding float64, err error) {
	s, err := store.Open(d.db, store.Options{Now: func() time.Time { return now }})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // merges the log into the file
	begin := time.Now()
	if _, err := s.FoldSamples(ctx, store.SampleAges{Raw: 48 * time.Hour, FiveMinutes: 30 * 24 * time.Hour}, 0); err != nil {
		return 0, 0, err
	}
	folding = time.Since(begin).Seconds()
	before := time.Unix(0, 0)
	if forget > 0 {
		before = now.Add(-forget)
	}
	if err := s.Prune(ctx, before); err != nil { // gives free pages back
		return 0, 0, err
	}
	r, err := s.SampleRows(ctx)
	return r.Raw + r.Fine + r.Coarse, folding, err
}

// kills ends the daemon by kill -9 at random moments while collectors send and
// send again what was not acknowledged, and counts what is in the history.
func kills(ctx context.Context, out io.Writer, d *realDaemon) (lost, doubled int, err error) {
	_, old, err := d.numbers(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make([]uint64, killNodes)
	var group sync.WaitGroup
	var failed atomic.Int64
	for n := range killNodes {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(n)))
			p := d.pusher()
			for sending.Err() == nil {
				var batch []collector.Sample
				for k := range jobsOfNode {
					sent[n]++
					batch = append(batch, reading(rng, n, k, 4, "kill", sent[n], time.Now()))
				}
				p.Add(batch)
				_ = p.Flush(sending) // it waits for the next time
				wait(sending, 5*time.Millisecond)
			}
			for range 200 {
				if p.Flush(ctx) == nil {
					return
				}
				wait(ctx, 50*time.Millisecond)
			}
			failed.Add(1)
		})
	}
	rng := rand.New(rand.NewPCG(4, 4))
	for range killRounds {
		if err := d.start(ctx); err != nil {
			return 0, 0, err
		}
		wait(ctx, time.Duration(300+rng.IntN(700))*time.Millisecond)
		d.kill()
	}
	if err := d.start(ctx); err != nil {
		return 0, 0, err
	}
	stop()
	group.Wait()
	if failed.Load() > 0 {
		return 0, 0, errors.New("the daemon did not take the last samples")
	}
	d.kill()
	total := 0
	got, _, err := d.numbers(ctx, old)
	if err != nil {
		return 0, 0, err
	}
	for n := range killNodes {
		for seq := uint64(1); seq <= sent[n]; seq++ {
			total++
			switch got[fmt.Sprintf("%s/%d", ingestNode(n), seq)] {
			case 0:
				lost++
			case 1:
			default:
				doubled++
			}
		}
	}
	fmt.Fprintf(out, "\nkill -9 in %d rounds: %d samples of %d nodes, %d lost, %d doubled\n", killRounds, total, killNodes, lost, doubled)
	return lost, doubled, nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// numbers counts the samples in the history, but for old ones, by node and
// number, and says which was the last.
func (d *realDaemon) numbers(ctx context.Context, old int64) (map[string]int, int64, error) {
	s, err := store.OpenReadOnly(d.db)
	if err != nil {
		return nil, 0, err
	}
	defer s.Close()
	got := map[string]int{}
	for mark := old; ; {
		samples, next, err := s.SamplesAfter(ctx, mark, 20_000)
		if err != nil {
			return nil, 0, err
		}
		for _, p := range samples {
			got[fmt.Sprintf("%s/%.0f", p.Node, p.NetRate)]++
		}
		if mark = next; len(samples) < 20_000 {
			return got, mark, nil
		}
	}
}
