// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// span is samples of the numbers from first to last.
func span(first, last uint64) (out []Sample) {
	for seq := first; seq <= last; seq++ {
		out = append(out, sound(seq))
	}
	return out
}

// takeAll takes all off a spool.
func takeAll(s *Spool) (out []uint64) {
	for {
		batch, at := s.Next(7)
		if len(batch) == 0 {
			return out
		}
		out = append(out, numbers(batch)...)
		s.Done(at)
	}
}

func upTo(first, last uint64) []uint64 { return numbers(span(first, last)) }

// Whatever is added, sent, dropped by a crash or closed: samples come out in
// order, without a gap, and one that was sent comes again only after a crash.
func TestSpoolKeepsOrder(t *testing.T) {
	dir := t.TempDir()
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		folder := filepath.Join(dir, string(rune('a'+round%26)), time.Now().Format("150405.000000000"))
		var s *Spool
		start := func() { s = NewSpool(SpoolOptions{Dir: folder, segment: 10_000}) }
		start()
		var added, sent uint64 // the highest numbers
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				n := uint64(rapid.IntRange(1, 60).Draw(rt, "n"))
				s.Add(span(added+1, added+n))
				added += n
			},
			"send": func(rt *rapid.T) {
				batch, at := s.Next(rapid.IntRange(1, 150).Draw(rt, "limit"))
				if rapid.Bool().Draw(rt, "meanwhile") {
					s.Add(span(added+1, added+3))
					added += 3
				}
				if len(batch) == 0 {
					return
				}
				if batch[0].Seq > sent+1 || !slices.Equal(numbers(batch), upTo(batch[0].Seq, batch[0].Seq+uint64(len(batch))-1)) {
					rt.Fatalf("after %d comes %v", sent, numbers(batch))
				}
				if rapid.Bool().Draw(rt, "answered") {
					sent = max(sent, batch[len(batch)-1].Seq)
					s.Done(at)
				}
			},
			"crash": func(*rapid.T) {
				_ = s.lock.Close() // as the end of a process does
				start()
			},
			"restart": func(*rapid.T) {
				_ = s.Close()
				start()
			},
		})
		rest := takeAll(s)
		if n := len(rest); added > sent && (n == 0 || rest[n-1] != added || rest[0] > sent+1) {
			rt.Fatalf("left %v, want from %d at the latest to %d", rest, sent+1, added)
		}
		if !slices.IsSorted(rest) {
			rt.Fatalf("left in disorder: %v", rest)
		}
		_ = s.Close()
	})
}

func TestSpoolDropsTheOldestWhenFull(t *testing.T) {
	s := NewSpool(SpoolOptions{Dir: t.TempDir(), MaxBytes: 40_000})
	for seq := uint64(1); seq <= 500; seq++ {
		s.Add(span(seq, seq))
	}
	c := s.Counts()
	if c.Bytes > 40_000 || c.Dropped == 0 || c.Waiting+c.Dropped != 500 {
		t.Errorf("counts %+v", c)
	}
	if diff := cmp.Diff(upTo(uint64(c.Dropped)+1, 500), takeAll(s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What gives way while a batch is under way must not take others with it.
func TestSpoolDropsWhileABatchIsUnderWay(t *testing.T) {
	for name, o := range map[string]SpoolOptions{
		"in memory": {Memory: 4},
		"on disk":   {Dir: t.TempDir(), MaxBytes: 1400, segment: 300},
	} {
		s := NewSpool(o)
		for seq := uint64(1); seq <= 4; seq++ {
			s.Add(span(seq, seq))
		}
		batch, at := s.Next(1)
		s.Add(span(5, 5))
		s.Add(span(6, 6))
		s.Done(at)
		c := s.Counts()
		left := takeAll(s)
		if len(batch) != 1 || c.Dropped < 1 || c.Dropped+len(left) != 6 || !slices.IsSorted(left) || left[len(left)-1] != 6 {
			t.Errorf("%s: %v under way, counts %+v, left %v", name, numbers(batch), c, left)
		}
	}
}

// files lists the files with samples.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+spoolSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A file that was torn by a crash, wherever, gives what was whole before.
func TestSpoolCutsATornEnd(t *testing.T) {
	dir := t.TempDir()
	s := NewSpool(SpoolOptions{Dir: dir})
	for seq := uint64(1); seq <= 3; seq++ {
		s.Add(span(seq, seq))
	}
	_ = s.Close()
	whole, err := os.ReadFile(files(t, dir)[0])
	if err != nil {
		t.Fatal(err)
	}
	record := (len(whole) - len(spoolMagic)) / 3
	for size := 0; size <= len(whole); size += 7 {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "0000000001"+spoolSuffix), whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		s := NewSpool(SpoolOptions{Dir: folder})
		sound := max(0, size-len(spoolMagic)) / record
		damaged := size < len(spoolMagic) || (size-len(spoolMagic))%record != 0
		if c := s.Counts(); c.Waiting != sound || (c.Damaged == 1) != damaged {
			t.Fatalf("cut at %d of %d: %+v, want %d samples", size, len(whole), c, sound)
		}
		s.Add(span(9, 9)) // what comes next is not lost behind the damage
		if diff := cmp.Diff(append(upTo(1, uint64(sound)), 9), takeAll(s)); diff != "" {
			t.Fatalf("cut at %d (-want +got)\n%s", size, diff)
		}
		_ = s.Close()
	}
}

func TestSpoolNoticesARottenByte(t *testing.T) {
	dir := t.TempDir()
	s := NewSpool(SpoolOptions{Dir: dir})
	s.Add(span(1, 1))
	s.Add(span(2, 2))
	_ = s.Close()
	name := files(t, dir)[0]
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-10] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	s = NewSpool(SpoolOptions{Dir: dir})
	if c := s.Counts(); c.Damaged != 1 || !slices.Equal(takeAll(s), upTo(1, 1)) {
		t.Errorf("counts %+v", c)
	}
}

// A folder that cannot be used is said once; samples wait in memory and move to
// it, in order, when it can be.
func TestSpoolFallsBackToMemory(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "spool")
	if err := os.WriteFile(folder, nil, 0o600); err != nil { // a file is in its place
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var reports []error
		s := NewSpool(SpoolOptions{Dir: folder, Memory: 4, Report: func(err error) { reports = append(reports, err) }})
		for seq := uint64(1); seq <= 6; seq++ {
			s.Add(span(seq, seq))
			time.Sleep(15 * time.Second)
		}
		if c := s.Counts(); len(reports) != 1 || reports[0] == nil || c.Waiting != 4 || c.Dropped != 2 {
			t.Errorf("reports %v, counts %+v", reports, c)
		}
		batch, at := s.Next(2)
		if !slices.Equal(numbers(batch), upTo(3, 4)) {
			t.Errorf("first %v", numbers(batch))
		}
		s.Done(at)
		if err := os.Remove(folder); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * reopenAfter)
		s.Add(span(7, 7))
		if c := s.Counts(); len(reports) != 2 || reports[1] != nil || c.Bytes == 0 {
			t.Errorf("reports %v, counts %+v", reports, c)
		}
		if diff := cmp.Diff(upTo(5, 7), takeAll(s)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// A disk that is full in the middle of a record leaves the records before it.
func TestSpoolOnAFullDisk(t *testing.T) {
	s := NewSpool(SpoolOptions{Dir: t.TempDir()})
	s.Add(span(1, 2))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here:", err)
	}
	file := s.segs[0].file
	s.segs[0].file = full
	s.Add(span(3, 3))
	if !s.failing {
		t.Fatal("no failure though the disk is full")
	}
	_ = file.Close()
	s.tried = time.Time{}
	s.Add(span(4, 4))
	if diff := cmp.Diff(upTo(1, 4), takeAll(s)); diff != "" || s.failing {
		t.Errorf("failing %v (-want +got)\n%s", s.failing, diff)
	}
}

// A reading that is no number must not stand in the way of those behind it.
func TestSpoolLeavesOutWhatCannotBeWritten(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		s := NewSpool(SpoolOptions{Dir: dir})
		odd := sound(2)
		odd.NVLinkRate = math.NaN()
		s.Add([]Sample{sound(1), odd, sound(3)})
		if c := s.Counts(); c.Waiting != 2 || c.Refused != 1 {
			t.Errorf("counts %+v", c)
		}
		if diff := cmp.Diff([]uint64{1, 3}, takeAll(s)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestSpoolHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	first := NewSpool(SpoolOptions{Dir: dir})
	first.Add(span(1, 1))
	var said error
	second := NewSpool(SpoolOptions{Dir: dir, Report: func(err error) { said = err }})
	second.Add(span(7, 7))
	if said == nil || !strings.Contains(said.Error(), "another collector") {
		t.Errorf("the second is told %v", said)
	}
	if !slices.Equal(takeAll(first), upTo(1, 1)) || !slices.Equal(takeAll(second), upTo(7, 7)) {
		t.Error("they mixed their samples")
	}
}
