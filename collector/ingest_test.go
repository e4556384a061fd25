// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// disk is a keeper that takes its time.
type disk struct {
	mu     sync.Mutex
	took   time.Duration
	fail   error
	groups [][]Sample
	marks  map[string]Mark
}

func (d *disk) Keep(_ context.Context, samples []Sample, marks []Mark) error {
	time.Sleep(d.took)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return d.fail
	}
	d.groups = append(d.groups, slices.Clone(samples))
	if d.marks == nil {
		d.marks = map[string]Mark{}
	}
	for _, m := range marks {
		d.marks[m.Node] = m
	}
	return nil
}

func (d *disk) Marks(context.Context) (out []Mark, err error) {
	for _, m := range d.marks {
		out = append(out, m)
	}
	return out, nil
}

// kept returns the numbers of a run's samples on the disk.
func (d *disk) kept(node string) (out []uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range d.groups {
		for _, s := range g {
			if s.Node == node {
				out = append(out, s.Seq)
			}
		}
	}
	return out
}

func on(d *disk) *Receiver { return receiver(func(o *ReceiverOptions) { o.Keeper = d }) }

func of(node string, seq uint64) Sample {
	s := sound(seq)
	s.Node = node
	return s
}

// An answer comes when the disk has the samples, not before; what comes
// meanwhile shares the next wait for the disk.
func TestReceiverAnswersWhenTheDiskHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{took: time.Second}
		r := on(d)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				node := fmt.Sprint("gpu", i)
				if w := post(r, body(t, of(node, 1)), nil); w.Code != http.StatusOK {
					t.Errorf("answer %d", w.Code)
				}
				if !slices.Equal(d.kept(node), []uint64{1}) {
					t.Errorf("%s was answered and is not on the disk", node)
				}
			})
		}
		wg.Wait()
		if n := len(d.groups); n < 2 || n > 4 {
			t.Errorf("20 batches took %d waits for the disk, want few", n)
		}
	})
}

// The same batch at the same time: one is taken, the other is told so only when
// the first is on the disk.
func TestReceiverTakesOneOfTwoAtOnce(t *testing.T) {
	for _, apart := range []time.Duration{0, 500 * time.Millisecond} { // in one group and in two
		synctest.Test(t, func(t *testing.T) {
			d := &disk{took: time.Second}
			r := on(d)
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * apart)
					post(r, body(t, sound(1), sound(2)), nil)
					if got := d.kept("gpu01"); !slices.Equal(got, []uint64{1, 2}) {
						t.Errorf("answered while the disk has %v", got)
					}
				})
			}
			wg.Wait()
			if s := r.Stats(); s.Accepted != 2 || s.Duplicates != 2 {
				t.Errorf("counts %+v", s)
			}
		})
	}
}

// What the disk does not take was not taken: it may come again.
func TestReceiverForgetsWhatTheDiskRefused(t *testing.T) {
	d := &disk{fail: errors.New("disk full")}
	var said []error
	r := receiver(func(o *ReceiverOptions) { o.Keeper, o.Failed = d, func(err error) { said = append(said, err) } })
	w := post(r, body(t, sound(1)), nil)
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || len(said) != 1 {
		t.Errorf("answer %d %v, said %v", w.Code, w.Header(), said)
	}
	d.fail = nil
	post(r, body(t, sound(1)), nil)
	if s := r.Stats(); s.Accepted != 1 || s.Duplicates != 0 || !slices.Equal(d.kept("gpu01"), []uint64{1}) {
		t.Errorf("counts %+v, on the disk %v", s, d.kept("gpu01"))
	}
}

// A daemon that was started anew knows what its predecessor took.
func TestReceiverRemembersOverARestart(t *testing.T) {
	d := &disk{}
	post(on(d), body(t, sound(1), sound(2)), nil)
	r := on(d)
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	post(r, body(t, sound(1), sound(2), sound(3)), nil)
	if got := d.kept("gpu01"); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Errorf("kept %v", got)
	}
}

func TestReceiverBringsABatchInOrder(t *testing.T) {
	r := receiver(nil)
	post(r, body(t, sound(5), of("gpu02", 1), sound(4), sound(6), sound(4)), nil)
	if diff := cmp.Diff([]uint64{4, 5, 6}, numbers(slices.DeleteFunc(r.Drain(), func(s Sample) bool { return s.Node != "gpu01" }))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if s := r.Stats(); s.Duplicates != 1 {
		t.Errorf("counts %+v", s)
	}
}

// A batch of a run that is forgotten cannot come a second time, however many
// runs there were since.
func TestReceiverNeverTakesAForgottenRunAgain(t *testing.T) {
	r := receiver(nil)
	run := func(i int) Sample {
		s := sound(1)
		s.Boot, s.At = fmt.Sprint("b", i), start.Add(time.Duration(i-30)*time.Minute)
		return s
	}
	for i := range 20 {
		post(r, body(t, run(i)), nil)
	}
	if got := len(r.Drain()); got != 20 {
		t.Fatalf("took %d of 20 runs", got)
	}
	for i := range 20 {
		post(r, body(t, run(i)), nil)
	}
	if got := r.Drain(); len(got) != 0 {
		t.Errorf("took again %+v", got)
	}
	if s := r.Stats(); s.Duplicates != runsKept || s.Rejected["of a run of the collector that is forgotten"] != 20-runsKept {
		t.Errorf("counts %+v", s)
	}
}

// Names that are made up do not fill the memory, and those known before go on.
func TestReceiverBoundsNodes(t *testing.T) {
	r := receiver(func(o *ReceiverOptions) { o.Nodes = 100 })
	post(r, body(t, sound(1)), nil)
	for i := range 30 {
		var batch []Sample
		for k := range 100 {
			batch = append(batch, of(fmt.Sprintf("made-up-%d", 100*i+k), 1))
		}
		post(r, body(t, batch...), nil)
	}
	post(r, body(t, sound(2)), nil)
	s := r.Stats()
	if s.Nodes != 100 || s.Rejected["too many nodes"] != 3000-99 || s.Accepted != 101 || len(r.limits) > 101 {
		t.Errorf("counts %+v, %d limits", s, len(r.limits))
	}
}

// One node cannot fill the disk; it is told when to come again, and others are
// not kept from sending.
func TestReceiverBoundsANodesRate(t *testing.T) {
	now := start
	r := receiver(func(o *ReceiverOptions) {
		o.Now, o.NodePerSec, o.NodeBurst = func() time.Time { return now }, 1, 10
	})
	send := func(node string, from uint64) int {
		var batch []Sample
		for i := range uint64(6) {
			batch = append(batch, of(node, from+i))
		}
		return post(r, body(t, batch...), nil).Code
	}
	for i, want := range []int{200, 429, 200} {
		if got := send("gpu01", 1+6*uint64(i)); got != want {
			t.Errorf("batch %d: %d, want %d", i, got, want)
		}
		if i == 1 {
			if got := send("gpu02", 1); got != 200 {
				t.Errorf("another node: %d", got)
			}
			now = now.Add(time.Minute)
		}
	}
}
