// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"strings"
	"testing"
)

// Each fault of each group of functions, on an H100, which has all of them. What
// is wrong is counted by its name, the rest of the card is read, and nothing
// that is wrong gets through.
func TestFaults(t *testing.T) {
	type card struct {
		source   Source
		nvlink   bool // a rate by its counters
		pcie     string
		throttle bool
	}
	whole := card{SourceGPM, true, "counters", true}
	but := func(change func(*card)) card {
		c := whole
		change(&c)
		return c
	}
	noNVLink := but(func(c *card) { c.nvlink = false })
	noCounters := but(func(c *card) { c.pcie = "rate" })
	noThrottle := but(func(c *card) { c.throttle = false })
	byPower := but(func(c *card) { c.source = SourcePower })
	byUse := but(func(c *card) { c.source = SourceUtilization })
	for fault, tc := range map[string]struct {
		want card
		odd  string
	}{
		"": {whole, ""},

		"nvlink=not_supported": {noNVLink, ""},
		"nvlink=garbage":       {noNVLink, "NVLink counter out of range"},
		"nvlink=wrap":          {noNVLink, "NVLink counter went back"},
		"nvlink=reset":         {noNVLink, "NVLink counter went back"},
		"nvlink=jump":          {noNVLink, "NVLink counter faster than its link"},
		"nvlink=stuck":         {noNVLink, "NVLink counter without a new time stamp"},
		"nvlink=step":          {noNVLink, "NVLink time stamp"},
		"nvlink=unknown":       {noNVLink, ""}, // so from the start: it is not asked for

		"pciecount=not_supported": {noCounters, ""},
		"pciecount=garbage":       {but(func(c *card) { c.pcie = "" }), "PCIe counter went back"},
		"pciecount=wrap":          {noCounters, ""}, // 32 bits: not believed in the first place
		"pciecount=reset":         {but(func(c *card) { c.pcie = "" }), "PCIe counter went back"},
		"pciecount=jump":          {but(func(c *card) { c.pcie = "" }), "PCIe counter faster than its link"},
		"pciecount=stuck":         {but(func(c *card) { c.pcie = "" }), "PCIe counter without a new time stamp"},
		"pciecount=step":          {noCounters, "PCIe time stamp"},

		"gpm=not_supported": {byPower, ""},
		"gpm=garbage":       {byPower, "GPM out of range"},
		"gpm=timeout":       {byPower, ""},

		"gpm=not_supported,energy=not_supported": {byPower, ""},
		"gpm=not_supported,energy=garbage":       {byPower, "energy counter went back"},
		"gpm=not_supported,energy=wrap":          {byPower, "energy counter went back"},
		"gpm=not_supported,energy=reset":         {byPower, "energy counter went back"},
		"gpm=not_supported,energy=jump":          {byPower, "energy counter faster than its link"},
		"gpm=not_supported,energy=stuck":         {byPower, "energy counter without a new time stamp"},
		"gpm=not_supported,energy=step":          {byPower, "energy time stamp"},

		"gpm=not_supported,power=not_supported":                  {byUse, ""},
		"gpm=not_supported,power=garbage,energy=not_supported":   {byUse, "power out of range"},
		"gpm=not_supported,power=no_permission":                  {byUse, ""},
		"gpm=garbage,power=not_supported,util=not_supported":     {but(func(c *card) { c.source = SourceNone }), "GPM out of range"},
		"gpm=garbage,power=not_supported,util=garbage":           {but(func(c *card) { c.source = SourceNone }), "GPM out of range; utilization out of range"},
		"fields=not_supported":                                   {card{SourceGPM, false, "rate", true}, ""},
		"fields=unknown":                                         {card{SourceGPM, false, "rate", true}, ""},
		"pciecount=not_supported,gpm=not_supported,pcie=garbage": {but(func(c *card) { c.source, c.pcie = SourcePower, "" }), "PCIe faster than its link"},
		"pcie=not_supported":                                     {whole, ""}, // the counters need no throughput

		"throttle=not_supported": {noThrottle, ""},
		"throttle=garbage":       {noThrottle, "throttling counter went back"},
		"throttle=wrap":          {noThrottle, "throttling counter went back"},
		"throttle=reset":         {noThrottle, "throttling counter went back"},
		"throttle=jump":          {noThrottle, "throttling counter faster than its link"},
		"throttle=stuck":         {noThrottle, "throttling counter without a new time stamp"},
		"throttle=step":          {noThrottle, "throttling time stamp"},

		"name=unknown":        {whole, ""},
		"minor=not_supported": {whole, ""},
		"mig=unknown":         {whole, ""},
		"procs=not_supported": {whole, ""},
		"procs=no_permission": {whole, ""},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=" + fault}, twice("H100", 300)...).last(t)
			if len(r.GPUs) != 1 || r.counted() != tc.odd {
				t.Fatalf("GPUs %+v, counted %q, want %q", r.GPUs, r.counted(), tc.odd)
			}
			g := r.GPUs[0]
			_, nvlink := r.Rates["GPU-a nvlink tx"]
			_, pcieTx := r.Rates["GPU-a pcie tx"]
			got := card{source: g.Source, nvlink: nvlink, throttle: g.Throttled >= 0}
			if pcieTx {
				got.pcie = "counters"
			} else if g.PCIeRate > 0 {
				got.pcie = "rate"
			}
			if got != tc.want {
				t.Errorf("card %+v, want %+v (%+v)", got, tc.want, g)
			}
			if nvlink && !about(r.Rates["GPU-a nvlink tx"], 1.024e9) || pcieTx && !about(r.Rates["GPU-a pcie tx"], 2e9) ||
				got.throttle && !about(g.Throttled, 0.2) {
				t.Errorf("rates %v, throttled %v", r.Rates, g.Throttled)
			}
		})
	}
}

// Faults that come later than the start, one card's at a time, while another
// card goes on.
func TestCardsThatFail(t *testing.T) {
	two := func(sec float64, fault string) nodeStep {
		return nodeStep{sec, map[string]string{
			"gpu/0": gpuText("GPU-a", "H100", 1, ""), "gpu/1": gpuText("GPU-b", "A100", 2, ""), "fault": fault,
		}}
	}
	for name, tc := range map[string]struct {
		fault string
		odd   string
		left  []string // of the cards, while it lasts
	}{
		"fallen off the bus":           {"0:card=lost", "GPU lost: GPU is lost", []string{"GPU-b"}},
		"needs a reset":                {"1:card=reset_required", "GPU lost: GPU requires reset", []string{"GPU-a"}},
		"no handle":                    {"0:handle=lost", "GPU lost: GPU is lost", []string{"GPU-b"}},
		"lost in the middle":           {"0:power=lost", "GPU lost: GPU is lost", []string{"GPU-b"}},
		"an error that nobody knows":   {"0:card=unknown", "GPU lost: Unknown Error", []string{"GPU-b"}},
		"GPM stops":                    {"0:gpm=unknown", "GPM: Unknown Error", []string{"GPU-a", "GPU-b"}},
		"processes time out":           {"1:procs=timeout", "GPU processes: Timeout", []string{"GPU-a", "GPU-b"}},
		"counters stop":                {"0:nvlink=not_supported", "NVLink counter without a value", []string{"GPU-a", "GPU-b"}},
		"field values stop":            {"0:fields=unknown", "field values: Unknown Error", []string{"GPU-a", "GPU-b"}},
		"throttling stops":             {"0:throttle=unknown", "throttling: Unknown Error", []string{"GPU-a", "GPU-b"}},
		"PCIe throughput stops":        {"1:pcie=unknown", "PCIe: Unknown Error", []string{"GPU-a", "GPU-b"}},
		"the power limit is forbidden": {"1:power=no_permission", "power limit: Insufficient Permissions", []string{"GPU-a", "GPU-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := play(t, standIn(t, newest), nil, two(0, "none"), two(15, tc.fault), two(30, "none"), two(45, "none"))
			for i, want := range [][]string{{"GPU-a", "GPU-b"}, tc.left, {"GPU-a", "GPU-b"}, {"GPU-a", "GPU-b"}} {
				r := got.Readings[i]
				var left []string
				for _, g := range r.GPUs {
					left = append(left, g.UUID)
				}
				if r.Err != "" || !slices.Equal(left, want) {
					t.Errorf("reading %d: cards %v, want %v (%s)", i, left, want, r.Err)
				}
				if i == 1 && r.counted() != tc.odd || i != 1 && len(r.Odd) > 0 {
					t.Errorf("reading %d: counted %q", i, r.counted())
				}
			}
			if g := got.last(t).GPUs[0]; g.Source != SourceGPM {
				t.Errorf("it did not come back: %+v", g)
			}
		})
	}
}

// A driver that is unloaded and loaded again, or replaced, under the collector.
func TestDriverGoesAndComes(t *testing.T) {
	at := func(sec float64, fault string) nodeStep {
		return nodeStep{sec, map[string]string{"gpu/0": gpuText("GPU-a", "H100", 1, ""), "fault": fault}}
	}
	t.Run("loaded again at once", func(t *testing.T) {
		got := play(t, standIn(t, newest), nil, at(0, "none"), at(15, "count=uninitialized"), at(30, "none"), at(45, "none"))
		for i, want := range []int{1, 0, 1, 1} {
			if r := got.Readings[i]; len(r.GPUs) != want {
				t.Errorf("reading %d: %+v", i, r)
			}
		}
		if g := got.last(t).GPUs[0]; g.Source != SourceGPM {
			t.Errorf("GPM did not come back: %+v", g)
		}
	})
	t.Run("away for a while", func(t *testing.T) {
		got := play(t, standIn(t, newest), nil, at(0, "none"), at(15, "count=uninitialized\ninit=driver_not_loaded"),
			at(30, "init=driver_not_loaded"), at(45, "none"), at(60, "none"))
		for i, want := range []string{"", "Driver Not Loaded", "Driver Not Loaded", "", ""} {
			if r := got.Readings[i]; !strings.Contains(r.Err, want) || (r.Err == "") != (len(r.GPUs) == 1) {
				t.Errorf("reading %d: %+v", i, r)
			}
		}
	})
	t.Run("replaced by another release", func(t *testing.T) {
		got := play(t, standIn(t, newest), nil, at(0, "none"), at(15, "count=uninitialized\ninit=mismatch"))
		if r := got.Readings[1]; !strings.Contains(r.Err, ErrDriverReplaced.Error()) {
			t.Errorf("reading %+v", r)
		}
	})
	for fault, hint := range map[string]string{
		"init=driver_not_loaded": "nvidia-smi", "init=no_permission": "/dev/nvidia", "init=mismatch": "restart", "init=unknown": "--nvml-library",
	} {
		t.Run("at the start: "+fault, func(t *testing.T) {
			got := play(t, standIn(t, newest), nil, at(0, fault))
			if !strings.HasPrefix(got.OpenErr, ErrNoNVML.Error()) || !strings.Contains(got.Hint, hint) {
				t.Errorf("error %q, hint %q", got.OpenErr, got.Hint)
			}
		})
	}
	t.Run("a node without a GPU", func(t *testing.T) {
		got := play(t, standIn(t, newest), nil, nodeStep{})
		if r := got.last(t); len(r.GPUs) != 0 || got.source("cards").Detail != "the driver shows no GPU" {
			t.Errorf("answer %+v", got)
		}
	})
}
