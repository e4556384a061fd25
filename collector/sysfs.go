// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// SysfsNet reads network ports as the kernel shows them below Root:
// InfiniBand and RoCE (class/infiniband), Ethernet (class/net). Not safe for
// concurrent use.
type SysfsNet struct {
	Root string           // "/sys"
	Now  func() time.Time // when a counter was read
	// Choose names the ports that jobs train over, as names or patterns of
	// path.Match: "mlx5_0/1", "mlx5_*" (all ports of the devices), "eth0".
	// Empty: see choose.
	Choose []string

	class PortKind // of the ports chosen without Choose; "" none yet
}

// Read returns the ports, those that are down too. Without any device the list
// is empty.
func (s *SysfsNet) Read(odd Odd) ([]Port, error) {
	out, err := s.rdmaPorts(odd)
	if err != nil {
		return nil, err
	}
	netdevs, err := s.netdevs(out, odd)
	if err != nil {
		return nil, err
	}
	out = append(out, netdevs...)
	s.choose(out)
	return out, nil
}

// rdmaPorts reads the ports of InfiniBand and RoCE.
func (s *SysfsNet) rdmaPorts(odd Odd) ([]Port, error) {
	dirs, err := filepath.Glob(filepath.Join(s.Root, "class", "infiniband", "*", "ports", "*"))
	if err != nil {
		return nil, fmt.Errorf("network ports: %w", err)
	}
	var out []Port
	for _, dir := range dirs {
		p := Port{Name: filepath.Base(filepath.Dir(filepath.Dir(dir))) + "/" + filepath.Base(dir),
			Kind: InfiniBand, Changes: -1}
		if layer, err := readWord(filepath.Join(dir, "link_layer")); err == nil && layer == "Ethernet" {
			p.Kind = RoCE
		}
		state, err := readWord(filepath.Join(dir, "state"))
		if p.Up = err != nil || strings.Contains(state, "ACTIVE"); !p.Up {
			out = append(out, p)
			continue
		}
		if n, err := readCount(filepath.Join(dir, "counters", "link_downed")); err == nil && n <= math.MaxInt32 {
			p.Changes = int64(n)
		}
		if p.Speed, err = portSpeed(filepath.Join(dir, "rate")); err != nil {
			odd["network port speed"]++
		}
		p.Xmit, err = s.words(dir, "port_xmit_data")
		if err == nil {
			p.Rcv, err = s.words(dir, "port_rcv_data")
		}
		if err != nil {
			odd["network port counter"]++
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

// words reads one counter of InfiniBand, of words of 4 bytes.
func (s *SysfsNet) words(dir, name string) (reading, error) {
	words, err := readCount(filepath.Join(dir, "counters", name))
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
	if err != nil || !strings.HasPrefix(unit, "Gb/sec") || !(gbit > 0) || gbit > maxGbit {
		return 0, fmt.Errorf("%s: odd speed %q", path, text)
	}
	return gbit * gigabit, nil
}

// gigabit is 1 Gb/s in bytes per second; maxGbit is past any port's speed.
const (
	gigabit = 1e9 / 8
	maxGbit = 1e5
)

func readWord(path string) (string, error) {
	b, err := readSome(path, 4096)
	return strings.TrimSpace(string(b)), err
}

func readCount(path string) (uint64, error) {
	text, err := readWord(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 10, 64)
}

// exists reports whether there is a file or link of that path. What cannot be
// told counts as there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
