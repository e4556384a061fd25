// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rifling/sim"
)

// recordings are what contrib/labtrace recorded on the releases' slurmctlds.
//
//go:embed testdata/slurm-fidelity
var recordings embed.FS

// truthFiles opens every recorded list: ours, and those of
// $RIFLING_SHARED/traces/slurm_ground_truth.
func truthFiles(out io.Writer) ([]*truth, error) {
	ours, err := fs.Sub(recordings, "testdata/slurm-fidelity")
	if err != nil {
		return nil, err
	}
	var all []*truth
	for _, folder := range []fs.FS{os.DirFS(filepath.Join(sharedDir(), "traces", "slurm_ground_truth")), ours} {
		files, err := fs.Glob(folder, "*.csv")
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			fmt.Fprintln(out, "skipped: the shared lists; set RIFLING_SHARED to the folder that holds traces/")
		}
		for _, file := range files {
			t, err := readTruth(folder, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// truthRow is one job of a list as a real slurmctld ran it; seconds.
type truthRow struct {
	gpus                     int
	open                     bool // leaves the number of nodes open
	user, account, partition string
	nice                     int64
	duration, limit          float64
	submit, start, end       float64
	simStart, simEnd         float64
}

type truth struct {
	name, list  string // of the recording, and of the jobs that it shares with others
	nodes, each int
	rows        []truthRow
	settings    sim.SlurmSettings
	partitions  []sim.PartitionSpec
	users       []sim.UserSpec
	topology    bool
	variants    []variant
	overhead    time.Duration // what a job takes longer than its work
	sim         *fidelityOf   // with measured run times
}

// truthZero finds the clock at a recording's second 0, which labtrace writes
// below the slurm.conf.
var truthZero = regexp.MustCompile(`second 0 was (\d+)`)

// truthRelease is what the names of recordings of one list differ by.
var truthRelease = regexp.MustCompile(`^\d\d\.\d\d_|_again`)

var truthName = regexp.MustCompile(`_(\d+)x(\d+)\.csv$`)

func readTruth(folder fs.FS, file string) (*truth, error) {
	size := truthName.FindStringSubmatch(file)
	if size == nil {
		return nil, fmt.Errorf("its name does not end in _NODESxGPUS.csv")
	}
	t := &truth{name: strings.TrimSuffix(file, ".csv"), settings: recorded(), overhead: startOverhead}
	t.list = truthRelease.ReplaceAllString(t.name, "")
	for _, s := range fidelityPhases {
		t.variants = append(t.variants, variant{phase: time.Duration(s) * time.Second, endDelay: endDelay})
	}
	if err := t.readConf(folder, t.name+".conf"); err != nil {
		return nil, err
	}
	t.nodes, _ = strconv.Atoi(size[1])
	t.each, _ = strconv.Atoi(size[2])
	f, err := folder.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	col := map[string]int{}
	for i, name := range records[0] {
		col[name] = i
	}
	for line, rec := range records[1:] {
		var r truthRow
		for name, into := range map[string]*float64{
			"duration": &r.duration, "limit": &r.limit, "submit_real": &r.submit, "start_real": &r.start, "end_real": &r.end,
		} {
			i, ok := col[name]
			if !ok {
				return nil, fmt.Errorf("no column %q", name)
			}
			if *into, err = strconv.ParseFloat(rec[i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", line+2, err)
			}
		}
		if r.gpus, err = strconv.Atoi(rec[col["gpus"]]); err != nil {
			return nil, fmt.Errorf("line %d: %w", line+2, err)
		}
		for name, into := range map[string]*string{"user": &r.user, "account": &r.account, "partition": &r.partition} {
			if i, ok := col[name]; ok {
				*into = rec[i]
			}
		}
		if i, ok := col["nice"]; ok {
			if r.nice, err = strconv.ParseInt(rec[i], 10, 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", line+2, err)
			}
		}
		if i, ok := col["open"]; ok {
			r.open = rec[i] == "1"
		}
		t.rows = append(t.rows, r)
	}
	if t.topology { // one of ours: the machine was busy, and what a job took longer is known
		sum := 0.0
		for _, r := range t.rows {
			sum += r.end - r.start - r.duration
		}
		t.overhead = seconds(sum / float64(len(t.rows)))
	}
	return t, nil
}

// fidelityPhases are the places in a minute at which the simulation begins, in
// seconds, for recordings that do not tell it: slurmctld rounds by it, and its
// backfill passes fall differently.
var fidelityPhases = []int{0, 7, 13, 20, 26, 33, 39, 46, 52, 59}

// fidelityWorlds is how many variants are run of a recording that tells the
// clock. By slurmctld's log the GPUs of a job that ended are given again 1 to
// 3 s later.
const fidelityWorlds = 20

// startOverhead is what a job took longer than its work on the accelerated
// slurmctld; endDelay is how long its cores then stayed taken.
const (
	startOverhead = 2300 * time.Millisecond
	endDelay      = time.Second
)

// recorded are the settings of the slurm.conf that lies beside the lists.
func recorded() sim.SlurmSettings {
	s := sim.DefaultSlurm()
	s.Basic, s.Cores = true, true
	s.MinInterval, s.Depth, s.BackfillDepth = 2*time.Second, 1000, 1000
	s.BackfillWindow = 20160 * time.Minute
	return s
}

// readConf takes the settings from the slurm.conf of a recording of contrib/
// labtrace, which lies beside it; lists without one were made under recorded().
func (t *truth) readConf(folder fs.FS, path string) error {
	text, err := fs.ReadFile(folder, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if t.settings, t.partitions, err = sim.ParseSlurmConf(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if zero := truthZero.FindSubmatch(text); zero != nil {
		at, err := strconv.Atoi(string(zero[1]))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		t.variants = t.variants[:0]
		for i := range fidelityWorlds {
			t.variants = append(t.variants, variant{phase: time.Duration(at%60) * time.Second, seed: uint64(i + 1),
				endDelay: seconds(1 + 2*(float64(i)+0.5)/fidelityWorlds)})
		}
	}
	t.topology = true
	// The lab's accounts: contrib/lab.
	t.users = []sim.UserSpec{{Name: "root", Account: "root"}, {Name: "rifling", Account: "research"},
		{Name: "alice", Account: "research"}, {Name: "bob", Account: "research"},
		{Name: "carol", Account: "teaching"}, {Name: "dave", Account: "teaching"}}
	return nil
}
