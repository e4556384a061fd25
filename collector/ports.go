// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// slowPart is the part of the fastest port's speed below which a port is not
// taken for one of the network that jobs train over: 1 Gb/s for management
// beside 100 Gb/s. Ports of one network differ by less, unless one has trained
// down, which a check shows.
const slowPart = 0.5

// choose marks the ports that count. By name if names are given; else those of
// InfiniBand and RoCE if any is up, else those of Ethernet, and of them the
// ones at half the fastest's speed or more. Once InfiniBand or RoCE was seen it
// stays with that: when its link is lost, what Ethernet does then says nothing
// of training.
func (s *SysfsNet) choose(ports []Port) {
	if len(s.Choose) > 0 {
		for i := range ports {
			ports[i].Used = ports[i].Up && named(s.Choose, &ports[i])
		}
		for i := range ports { // who names one face of a port means both
			ports[i].Used = ports[i].Used || ports[i].Up && slices.ContainsFunc(ports, func(p Port) bool {
				return p.Used && p.Twin == ports[i].Name
			})
		}
		return
	}
	for i := range ports {
		switch {
		case !ports[i].Up || ports[i].Twin != "":
		case ports[i].Kind != Ethernet:
			s.class = InfiniBand
		case s.class == "":
			s.class = Ethernet
		}
	}
	var fastest float64
	for i := range ports {
		if s.inClass(&ports[i]) {
			fastest = max(fastest, ports[i].Speed)
		}
	}
	for i := range ports {
		ports[i].Used = s.inClass(&ports[i]) && ports[i].Speed >= slowPart*fastest
	}
	for i := range ports { // the other face of a port that counts
		ports[i].Used = ports[i].Used || ports[i].Up && usedPort(ports, ports[i].Twin)
	}
}

// inClass reports whether the port is up and of the kind that counts.
func (s *SysfsNet) inClass(p *Port) bool {
	return p.Up && p.Twin == "" && s.class != "" && (p.Kind == Ethernet) == (s.class == Ethernet)
}

func usedPort(ports []Port, name string) bool {
	for i := range ports {
		if name != "" && ports[i].Name == name {
			return ports[i].Used
		}
	}
	return false
}

// named reports whether one of the patterns means the port: its name, its
// device or, for the other face of a RoCE port, that port's.
func named(patterns []string, p *Port) bool {
	names := []string{p.Name}
	for _, n := range []string{p.Name, p.Twin} {
		if device, _, ok := strings.Cut(n, "/"); ok {
			names = append(names, n, device)
		}
	}
	for _, pattern := range patterns {
		for _, n := range names {
			if ok, err := path.Match(pattern, n); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// CheckPorts tells what is wrong with patterns for SysfsNet.Choose.
func CheckPorts(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return fmt.Errorf("%q is no name or pattern of a network port", p)
		}
	}
	return nil
}
