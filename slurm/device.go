// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"strings"
)

// Device names one GPU of a node: by its UUID where that is known, else by its
// index.
type Device struct {
	Index int    // -1 when named by UUID
	UUID  string // "GPU-…" or "MIG-…", empty when named by index
}

// ParseDevices reads SLURM_JOB_GPUS, CUDA_VISIBLE_DEVICES and their like: a
// list of indexes, ranges of them and UUIDs. The devices that can be read are
// returned even when others cannot; the error then joins one *ParseError each.
func ParseDevices(s string) ([]Device, error) {
	s = strings.TrimSpace(s)
	if isNothing(s) || s == "NoDevFiles" {
		return nil, nil
	}
	var out []Device
	var errs []error
	for tok := range strings.SplitSeq(s, ",") {
		tok = strings.TrimSpace(tok)
		if strings.HasPrefix(tok, "GPU-") || strings.HasPrefix(tok, "MIG-") {
			out = append(out, Device{Index: -1, UUID: tok})
			continue
		}
		indexes, ok := parseIndexes(tok)
		if !ok || len(indexes) == 0 || len(out)+len(indexes) > maxExpand {
			errs = append(errs, &ParseError{Kind: "gpu list", Token: tok, Msg: "neither an index nor a UUID"})
			continue
		}
		for _, i := range indexes {
			out = append(out, Device{Index: i})
		}
	}
	return out, errors.Join(errs...)
}

// JobDevices returns the GPUs that a process's environment says its job has.
// SLURM_JOB_GPUS holds the node's own indexes and comes first; inside a control
// group CUDA_VISIBLE_DEVICES counts from 0 again, so only its UUIDs are
// believed.
func JobDevices(getenv func(string) string) ([]Device, error) {
	if s := getenv("SLURM_JOB_GPUS"); s != "" {
		return ParseDevices(s)
	}
	all, err := ParseDevices(getenv("CUDA_VISIBLE_DEVICES"))
	var out []Device
	for _, d := range all {
		if d.UUID != "" {
			out = append(out, d)
		}
	}
	return out, err
}
