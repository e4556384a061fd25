// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"rifling/slurm"
)

// Source says where a compute activity was read from. The words are those of
// profile.Source.
type Source string

// The sources of compute activity, best first.
const (
	SourceGPM         Source = "gpm"         // SM activity by GPM, Hopper and later
	SourcePower       Source = "power"       // power above idle over its range
	SourceUtilization Source = "utilization" // counts collectives as busy, weak
	SourceNone        Source = ""            // not known: Compute means nothing
)

// weakness orders sources, best first.
func (s Source) weakness() int {
	switch s {
	case SourceGPM:
		return 0
	case SourcePower:
		return 1
	case SourceUtilization:
		return 2
	}
	return 3
}

// Sample is what one job did on one node over one interval, its GPUs there
// taken together. Rates are means over the interval.
type Sample struct {
	Node string `json:"node"`
	// Boot names one run of a node's collector and Seq counts its samples from
	// 1: together they tell a sample that is sent again from a new one.
	Boot string `json:"boot"`
	Seq  uint64 `json:"seq"`

	JobID    slurm.JobID   `json:"job_id"`
	At       time.Time     `json:"at"` // end of the interval, by the node's clock
	Interval time.Duration `json:"interval_ns"`
	GPUs     int           `json:"gpus"`
	UUIDs    []string      `json:"uuids"`

	Compute float64 `json:"compute"` // mean activity of the job's GPUs, 0..1
	Source  Source  `json:"source"`  // the weakest that was used for one of them

	// Bytes per second in the busier direction, summed over the job's GPUs
	// here (NVLink, PCIe) or of the node's ports (Net).
	NVLinkRate float64 `json:"nvlink_rate"`
	PCIeRate   float64 `json:"pcie_rate"`
	NetRate    float64 `json:"net_rate"`
	// What the same links carry at most in one direction; 0 when unknown.
	NVLinkSpeed float64 `json:"nvlink_speed"`
	PCIeSpeed   float64 `json:"pcie_speed"`
	NetSpeed    float64 `json:"net_speed"`
	// NetShared marks a NetRate that is the job's share, by GPUs, of what
	// several jobs moved: an estimate.
	NetShared bool `json:"net_shared"`

	// Origin says who measured: "" this collector, else the word of another
	// source, as OriginPrometheus.
	Origin Origin `json:"origin,omitempty"`
	// Weight is what the sample counts against one of the collector's own,
	// 0..1; 0 means 1.
	Weight float64 `json:"weight,omitempty"`
	// Model is the GPUs' name as NVML has it; "" when unknown or mixed.
	Model string `json:"model,omitempty"`
	// Throttled is the part of the interval in which heat or power held the
	// clocks of the job's GPUs down, 0..1, their mean; 0 also when not known.
	Throttled float64 `json:"throttled,omitempty"`
	// GPUShared marks a sample of GPUs that other jobs use too (shards, MPS):
	// activity and bytes are then the job's part by processes, an estimate.
	GPUShared bool `json:"gpu_shared,omitempty"`
}

// Origin says who measured a sample. The words are those of profile.Origin.
type Origin string

// The origins.
const (
	OriginCollector  Origin = ""           // rifling-collector
	OriginPrometheus Origin = "prometheus" // a site's own exporters
	OriginSacct      Origin = "sacct"      // Slurm's accounting, means over a step
)

// Bounds of what a sample may say.
const (
	maxName     = 255
	maxGPUs     = 1024
	maxInterval = time.Hour
)

// Validate tells what is wrong with a sample that came from outside.
func (s *Sample) Validate() error {
	switch {
	case s.Node == "" || len(s.Node) > maxName:
		return errors.New("odd node name")
	case s.Boot == "" || len(s.Boot) > maxName || s.Seq == 0:
		return errors.New("no boot or sequence number")
	case s.JobID == 0:
		return errors.New("no job")
	case s.GPUs < 1 || s.GPUs > maxGPUs || len(s.UUIDs) > maxGPUs:
		return fmt.Errorf("odd number of GPUs %d", s.GPUs)
	case s.Interval <= 0 || s.Interval > maxInterval:
		return fmt.Errorf("odd interval %s", s.Interval)
	case s.At.IsZero():
		return errors.New("no time")
	case s.Source.weakness() == 3 && s.Source != SourceNone:
		return fmt.Errorf("unknown source %q", s.Source)
	case !(s.Compute >= 0 && s.Compute <= 1):
		return fmt.Errorf("compute activity %v is not in 0..1", s.Compute)
	}
	if slices.ContainsFunc(s.UUIDs, func(u string) bool { return len(u) > maxName }) {
		return errors.New("odd UUID")
	}
	if err := s.validateMarks(); err != nil {
		return err
	}
	return s.validateRates()
}

func (s *Sample) validateMarks() error {
	switch {
	case s.Origin != OriginCollector && s.Origin != OriginPrometheus && s.Origin != OriginSacct:
		return errors.New("unknown origin")
	case !(s.Weight >= 0 && s.Weight <= 1):
		return fmt.Errorf("weight %v is not in 0..1", s.Weight)
	case len(s.Model) > maxName:
		return errors.New("odd model")
	case !(s.Throttled >= 0 && s.Throttled <= 1):
		return fmt.Errorf("throttled %v is not in 0..1", s.Throttled)
	}
	return nil
}

func (s *Sample) validateRates() error {
	for _, v := range []float64{s.NVLinkRate, s.PCIeRate, s.NetRate, s.NVLinkSpeed, s.PCIeSpeed, s.NetSpeed} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return fmt.Errorf("rate or speed %v", v)
		}
	}
	return nil
}

// Batch is the body of POST /v1/samples, as JSON.
type Batch struct {
	Version int      `json:"version"` // 1
	Samples []Sample `json:"samples"`
	// SentAt is the node's clock when the batch is sent: the daemon corrects
	// the samples' times by how far that is off.
	SentAt time.Time `json:"sent_at,omitzero"`
}

// BatchVersion is the version of Batch that this package speaks.
const BatchVersion = 1
