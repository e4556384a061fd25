// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SysfsNet reads InfiniBand and RoCE ports as the kernel shows them below
// Root/class/infiniband.
type SysfsNet struct {
	Root string           // "/sys"
	Now  func() time.Time // when a counter was read
}

// Read returns the ports that are up. Without any device the list is empty.
func (s SysfsNet) Read(odd Odd) ([]Port, error) {
	dirs, err := filepath.Glob(filepath.Join(s.Root, "class", "infiniband", "*", "ports", "*"))
	if err != nil {
		return nil, fmt.Errorf("network ports: %w", err)
	}
	var out []Port
	for _, dir := range dirs {
		if state, err := readWord(filepath.Join(dir, "state")); err == nil && !strings.Contains(state, "ACTIVE") {
			continue
		}
		p := Port{Name: filepath.Base(filepath.Dir(filepath.Dir(dir))) + "/" + filepath.Base(dir)}
		if p.Speed, err = portSpeed(filepath.Join(dir, "rate")); err != nil {
			odd["network port speed"]++
		}
		p.Xmit, err = s.counter(dir, "port_xmit_data")
		if err == nil {
			p.Rcv, err = s.counter(dir, "port_rcv_data")
		}
		if err != nil {
			odd["network port counter"]++
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

// counter reads one counter; the kernel counts words of 4 bytes.
func (s SysfsNet) counter(dir, name string) (reading, error) {
	text, err := readWord(filepath.Join(dir, "counters", name))
	if err != nil {
		return reading{}, err
	}
	words, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return reading{}, err
	}
	if words > math.MaxUint64/4 {
		return reading{}, fmt.Errorf("%s: %d is beyond any counter", name, words)
	}
	if words == math.MaxUint32 {
		return reading{}, fmt.Errorf("%s: stands at the end of its 32 bits", name)
	}
	return reading{bytes: words * 4, at: s.Now()}, nil
}

// portSpeed reads "100 Gb/sec (4X EDR)" as bytes per second.
func portSpeed(path string) (float64, error) {
	text, err := readWord(path)
	if err != nil {
		return 0, err
	}
	number, unit, _ := strings.Cut(text, " ")
	gbit, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || !(gbit > 0) || gbit > 1e5 {
		return 0, fmt.Errorf("%s: odd speed %q", path, text)
	}
	return gbit * 1e9 / 8, nil
}

func readWord(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}
