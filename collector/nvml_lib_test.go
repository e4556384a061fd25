// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rifling/slurm"
)

// These tests load the stand-in library the way that a node's is loaded. NVML
// is one per process, so each case is a process of its own: this binary again,
// told by the environment to play one node.

// libDir holds the libraries that the tests build.
var libDir string

func TestMain(m *testing.M) {
	if play := os.Getenv("COLLECTOR_TEST_NODE"); play != "" {
		playNode(play)
		return
	}
	var err error
	if libDir, err = os.MkdirTemp("", "nvmlstub"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(libDir)
	os.Exit(code)
}

// nodeStep is one reading: the files that the node has by then, and when. STAMP in
// a file stands for the time of the reading; a file with no text is removed.
type nodeStep struct {
	At    float64 // seconds since the first reading
	Files map[string]string
}

// nodePlay is what a process is told to do.
type nodePlay struct {
	Library string
	Dir     string
	Steps   []nodeStep
}

// nodeAnswer is what it says.
type nodeAnswer struct {
	OpenErr, Hint string
	Readings      []nodeReading
	Sources       []SourceStatus
	Missing       []string
}

type nodeReading struct {
	GPUs  []GPU
	Rates map[string]float64 // by UUID and counter, as the sampler makes them
	Odd   Odd                // of this reading
	Err   string
}

func playNode(text string) {
	var play nodePlay
	var out nodeAnswer
	if err := json.Unmarshal([]byte(text), &play); err != nil {
		panic(err)
	}
	base := time.Now()
	play.write(base, play.Steps[0])
	n, err := LoadNVML(play.Library)
	if err != nil {
		out.OpenErr, out.Hint = err.Error(), slurm.HintOf(err)
	} else {
		meters := map[string]*meter{}
		for _, s := range play.Steps {
			now := play.write(base, s)
			out.Readings = append(out.Readings, readNode(n, now, meters))
		}
		out.Sources, out.Missing = n.Sources(), n.Missing()
		if err := n.Close(); err != nil {
			out.OpenErr = err.Error()
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

// write makes the files of a step and returns its time.
func (p *nodePlay) write(base time.Time, s nodeStep) time.Time {
	now := base.Add(time.Duration(s.At * float64(time.Second)))
	for name, text := range s.Files {
		path := filepath.Join(p.Dir, name)
		if text == "" {
			_ = os.Remove(path)
			continue
		}
		text = strings.ReplaceAll(text, "STAMP", strconv.FormatInt(now.UnixMicro(), 10))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			panic(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	return now
}

func readNode(n *NVML, now time.Time, meters map[string]*meter) nodeReading {
	r := nodeReading{Rates: map[string]float64{}, Odd: Odd{}}
	gpus, err := n.Read(now, r.Odd)
	if err != nil {
		r.Err = err.Error()
	}
	r.GPUs = gpus
	for _, g := range gpus {
		for name, c := range map[string]struct {
			r     *reading
			speed float64
			what  string
		}{
			"nvlink tx": {g.NVLinkTx, g.NVLinkSpeed, "NVLink"}, "nvlink rx": {g.NVLinkRx, g.NVLinkSpeed, "NVLink"},
			"pcie tx": {g.PCIeTx, g.PCIeSpeed, "PCIe"}, "pcie rx": {g.PCIeRx, g.PCIeSpeed, "PCIe"},
		} {
			if c.r == nil {
				continue
			}
			key := g.UUID + " " + name
			if meters[key] == nil {
				meters[key] = &meter{}
			}
			if v, ok := meters[key].rate(*c.r, c.speed, c.what, r.Odd); ok {
				r.Rates[key] = v
			}
		}
	}
	return r
}

// play runs one node in a process of its own, which must come to its end.
func play(t *testing.T, library string, env []string, steps ...nodeStep) nodeAnswer {
	t.Helper()
	text, err := json.Marshal(nodePlay{Library: library, Dir: t.TempDir(), Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	var told nodePlay
	_ = json.Unmarshal(text, &told)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "COLLECTOR_TEST_NODE="+string(text), "RIFLING_NVML_STUB_DIR="+told.Dir)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the process died: %v\n%s", err, out)
	}
	var got nodeAnswer
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("the process said %q: %v", out, err)
	}
	return got
}

// building keeps tests from building the same library twice.
var building sync.Mutex

// standIn builds contrib/nvmlstub with the symbols of that driver, less those
// named, in all their versions.
func standIn(t testing.TB, driver int, without ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc to build the stand-in NVML with")
	}
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(libDir, fmt.Sprintf("libnvidia-ml-%d.so.1", driver))
	if _, err := os.Stat(path); err != nil {
		out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", fmt.Sprintf("-DNVMLSTUB_DRIVER=%d", driver),
			"../contrib/nvmlstub/nvmlstub.c", "-o", path).CombinedOutput()
		if err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	if len(without) == 0 {
		return path
	}
	library, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(path, withoutSymbols(t, library, without), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withoutSymbols gives functions of a library other names. The loader finds a
// name by its hash, so that nothing goes by the new one. It takes a tenth of the
// time that the linker needs.
func withoutSymbols(t testing.TB, library []byte, names []string) []byte {
	t.Helper()
	for _, name := range names {
		before := library
		for _, version := range []string{"", "_v2", "_v3"} {
			was := "\x00" + name + version + "\x00"
			library = bytes.ReplaceAll(library, []byte(was), []byte("\x00x"+was[2:]))
		}
		if bytes.Equal(before, library) {
			t.Fatalf("the stand-in has no %s to do without", name)
		}
	}
	return library
}

// newest is the driver that the stand-in plays unless told otherwise.
const newest = 580

// gpuText is a GPU's file: a process of that number that computes half of the
// time, and counters that say what has moved by then.
func gpuText(uuid, card string, pid int, counters string) string {
	return fmt.Sprintf("card %s\nuuid %s\npid %d\nactivity 0.5\nmilliwatt 230000\npcie_tx_kbs 500000\npcie_rx_kbs 700000\n%s\nstamp_us STAMP\n",
		card, uuid, pid, counters)
}

// twice is a card read 15 s apart, in which it moves 15 GB over NVLink and
// 30 GB over PCIe, draws that many watts, and is held down by power for 3 s, by heat for
// 1.5 s.
func twice(card string, watts float64) []nodeStep {
	const gb = 1e9
	counters := func(nvlink, pcie, mj, power, thermal float64) string {
		return fmt.Sprintf("nvlink_tx_kib %.0f\nnvlink_rx_kib %.0f\npcie_tx_bytes %.0f\npcie_rx_bytes %.0f\nenergy_mj %.0f\npower_ns %.0f\nthermal_ns %.0f",
			nvlink/1024, nvlink/2048, pcie, pcie/2, mj, power, thermal)
	}
	return []nodeStep{
		{0, map[string]string{"gpu/0": gpuText("GPU-a", card, 4711, counters(102.4*gb, 20*gb, 1e9, 5e9, 1e9))}},
		{15, map[string]string{"gpu/0": gpuText("GPU-a", card, 4711, counters(117.76*gb, 50*gb, 1e9+15*watts*1e3, 8e9, 2.5e9))}},
	}
}

// source returns what was found of that source, of the first card.
func (a nodeAnswer) source(name string) SourceStatus {
	for _, s := range a.Sources {
		if s.Name == name {
			return s
		}
	}
	return SourceStatus{Detail: "not mentioned"}
}

// last returns the last reading, which must be without an error.
func (a nodeAnswer) last(t *testing.T) nodeReading {
	t.Helper()
	if a.OpenErr != "" || len(a.Readings) == 0 {
		t.Fatalf("opening: %s (%s)", a.OpenErr, a.Hint)
	}
	r := a.Readings[len(a.Readings)-1]
	if r.Err != "" {
		t.Fatalf("reading: %s", r.Err)
	}
	return r
}

// counted returns what was left out, as one line.
func (r nodeReading) counted() string {
	return strings.Join(slices.Sorted(maps.Keys(r.Odd)), "; ")
}
