// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"pgregory.net/rapid"
)

// The node's clock may be set between two readings: NVML's stamps and our clock
// jump together, and the time between the readings stays what it was.
func TestStampsWhenTheClockIsSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &card{stamps: map[uint32]stamped{}}
		began := time.Now() // has a monotonic part, by which its steps are undone
		age := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "age"))
		step := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "step"))
		read := func(now, wall time.Time) time.Time {
			r := &cardReading{c: c, now: now, odd: Odd{}}
			at, ok := r.stampAt(1, wall.Add(-age).UnixMicro(), wall, "x")
			if !ok {
				t.Fatalf("stamp left out: %v", r.odd)
			}
			return at
		}
		first := read(began, began)
		second := read(began.Add(15*time.Second), began.Add(15*time.Second+step))
		if d := second.Sub(first) - 15*time.Second; d > time.Microsecond || d < -time.Microsecond {
			t.Fatalf("15 s were taken for %s after a step of %s", second.Sub(first), step)
		}
	})
}

func TestStamps(t *testing.T) {
	for name, tc := range map[string]struct {
		micro int64
		want  time.Time
		ok    bool
	}{
		"none: now":               {0, start, true},
		"a moment ago":            {at(-0.5).UnixMicro(), at(-0.5), true},
		"a little ahead":          {at(1).UnixMicro(), at(1), true},
		"far ahead":               {at(10).UnixMicro(), time.Time{}, false},
		"long ago":                {at(-100).UnixMicro(), time.Time{}, false},
		"garbage":                 {-1 << 63, time.Time{}, false},
		"seconds instead":         {start.Unix(), time.Time{}, false},
		"beyond what time can be": {1<<63 - 1, time.Time{}, false},
	} {
		r := &cardReading{c: &card{stamps: map[uint32]stamped{}}, now: start, odd: Odd{}}
		got, ok := r.stamp(1, tc.micro, "x")
		if ok != tc.ok || !got.Equal(tc.want) || (r.odd["x time stamp"] == 0) != tc.ok {
			t.Errorf("%s: %v, %v, counted %v", name, got, ok, r.odd)
		}
	}
}

// Whatever a field holds, what comes out is a number that NVML said is there.
func TestFieldUint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := nvml.FieldValue{ValueType: rapid.Uint32().Draw(t, "type"), NvmlReturn: rapid.Uint32Range(0, 30).Draw(t, "return")}
		copy(f.Value[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "value"))
		if _, ok := fieldUint(f); ok && (f.NvmlReturn != 0 || f.ValueType < 1 || f.ValueType > 3) {
			t.Fatalf("believed %+v", f)
		}
	})
}

// BenchmarkRead is one reading of a node of 8 H100 in use.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	b.Setenv("RIFLING_NVML_STUB_DIR", dir)
	b.Setenv("RIFLING_NVML_STUB_CARD", "H100")
	p := nodePlay{Dir: dir}
	files := map[string]string{}
	for i := range 8 {
		// In the future, so that it is not stale while the benchmark runs.
		text := gpuText("GPU-"+strconv.Itoa(i), "H100", 100+i, "nvlink_tx_kib 1\npcie_tx_bytes 5000000000\npcie_rx_bytes 1\nenergy_mj 1")
		files["gpu/"+strconv.Itoa(i)] = strings.ReplaceAll(text, "stamp_us STAMP", "stamp_us 99999999999999999")
	}
	p.write(time.Now(), nodeStep{Files: files})
	n, err := LoadNVML(standIn(b, newest))
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close()
	now := time.Now()
	for b.Loop() {
		now = now.Add(15 * time.Second)
		if gpus, err := n.Read(now, Odd{}); err != nil || len(gpus) != 8 || gpus[0].Source != SourceGPM && gpus[0].Source != SourcePower {
			b.Fatal(gpus, err, os.Getenv("RIFLING_NVML_STUB_DIR"))
		}
	}
}
