// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// ParseSlurmConf reads the lines of a slurm.conf that decide when jobs start:
// the scheduler's and the priority plugin's settings, and partitions. Of two
// lines with one key the later one counts, as in Slurm. What the model does not
// know is left out. Node lists stay as written: the caller knows the nodes.
//
// A value that cannot be read is an error that names its line.
func ParseSlurmConf(r io.Reader) (SlurmSettings, []PartitionSpec, error) {
	p := confParser{s: slurmDefaults()}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if err := p.line(strings.TrimSpace(line)); err != nil {
			return SlurmSettings{}, nil, fmt.Errorf("slurm.conf line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return SlurmSettings{}, nil, fmt.Errorf("read slurm.conf: %w", err)
	}
	return p.s, p.parts, nil
}

// slurmDefaults are what slurmctld does with an empty slurm.conf.
func slurmDefaults() SlurmSettings {
	s := DefaultSlurm()
	s.Weights = PriorityWeights{}
	s.Basic = false
	return s
}

type confParser struct {
	s     SlurmSettings
	parts []PartitionSpec
}

func (p *confParser) line(line string) error {
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return nil
	}
	key = strings.ToLower(strings.TrimSpace(key))
	switch key {
	case "partitionname":
		return p.partition(strings.Fields(line))
	case "schedulerparameters":
		return p.scheduler(strings.Split(value, ","))
	}
	value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
	if w := p.weight(key); w != nil {
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || v < 0 {
			return fmt.Errorf("%s: %q is no weight", key, value)
		}
		*w = v
		return nil
	}
	var err error
	switch key {
	case "schedulertype":
		p.s.NoBackfill = !strings.EqualFold(value, "sched/backfill")
	case "prioritytype":
		p.s.Basic = strings.EqualFold(value, "priority/basic")
	case "prioritymaxage":
		p.s.MaxAge, err = confTime(value)
	case "prioritydecayhalflife":
		p.s.HalfLife, err = confTime(value)
	case "prioritycalcperiod":
		p.s.Calc, err = confTime(value)
	case "priorityfavorsmall":
		p.s.FavorSmall = strings.EqualFold(value, "yes")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func (p *confParser) weight(key string) *float64 {
	switch key {
	case "priorityweightage":
		return &p.s.Weights.Age
	case "priorityweightfairshare":
		return &p.s.Weights.FairShare
	case "priorityweightjobsize":
		return &p.s.Weights.JobSize
	case "priorityweightpartition":
		return &p.s.Weights.Partition
	case "priorityweightqos":
		return &p.s.Weights.QOS
	}
	return nil
}

// scheduler starts from the defaults each time: the later of two lines counts
// as a whole.
func (p *confParser) scheduler(options []string) error {
	d := slurmDefaults()
	s := &p.s
	s.BatchDelay, s.MinInterval, s.Interval, s.Depth = d.BatchDelay, d.MinInterval, d.Interval, d.Depth
	s.BackfillInterval, s.BackfillWindow, s.BackfillResolution = d.BackfillInterval, d.BackfillWindow, d.BackfillResolution
	s.BackfillDepth, s.BackfillMaxStart, s.ArrayReserve = d.BackfillDepth, d.BackfillMaxStart, d.ArrayReserve
	for _, o := range options {
		name, value, ok := strings.Cut(strings.TrimSpace(o), "=")
		if !ok {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			continue // an option with a word is none of the model's
		}
		switch strings.ToLower(name) {
		case "batch_sched_delay":
			s.BatchDelay = time.Duration(n) * time.Second
		case "sched_min_interval":
			s.MinInterval = time.Duration(n) * time.Microsecond
		case "sched_interval":
			s.Interval = time.Duration(n) * time.Second
		case "default_queue_depth":
			s.Depth = n
		case "bf_interval":
			s.BackfillInterval = time.Duration(n) * time.Second
		case "bf_window":
			s.BackfillWindow = time.Duration(n) * time.Minute
		case "bf_resolution":
			s.BackfillResolution = time.Duration(n) * time.Second
		case "bf_max_job_test":
			s.BackfillDepth = n
		case "bf_max_job_start":
			s.BackfillMaxStart = n
		case "bf_max_job_array_resv":
			s.ArrayReserve = n
		}
	}
	return nil
}

func (p *confParser) partition(words []string) error {
	var part PartitionSpec
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		var err error
		switch strings.ToLower(key) {
		case "partitionname":
			part.Name = value
		case "prioritytier":
			part.Tier, err = strconv.Atoi(value)
		case "priorityjobfactor":
			part.JobFactor, err = strconv.Atoi(value)
		case "maxtime":
			part.MaxTime, err = confTime(value)
		case "defaulttime":
			part.DefaultTime, err = confTime(value)
		}
		if err != nil {
			return fmt.Errorf("partition %s: %s: %w", part.Name, key, err)
		}
	}
	if !strings.EqualFold(part.Name, "default") {
		p.parts = append(p.parts, part)
	}
	return nil
}

// confTime reads Slurm's times; INFINITE and UNLIMITED are 0.
func confTime(text string) (time.Duration, error) {
	d, _, err := slurm.ParseDuration(text)
	return d, err
}
