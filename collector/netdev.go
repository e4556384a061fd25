// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ethernetType is ARPHRD_ETHER of <linux/if_arp.h>: IP over InfiniBand, whose
// bytes the InfiniBand port counts, has another.
const ethernetType = "1"

// netdevs reads the Ethernet interfaces that are ports of the machine: they
// have a device, and are no virtual function, which a guest or a container
// uses, nor a switch's picture of one. Bonds, bridges and VLANs have no device;
// what they move, their ports count.
//
// rdma are the InfiniBand and RoCE ports: an interface of one of their devices
// becomes its port's twin, or nothing.
func (s *SysfsNet) netdevs(rdma []Port, odd Odd) ([]Port, error) {
	root := filepath.Join(s.Root, "class", "net")
	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("network interfaces: %w", err)
	}
	var out []Port
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if kind, err := readWord(filepath.Join(dir, "type")); err != nil || kind != ethernetType || !physical(dir) {
			continue
		}
		p := Port{Name: e.Name(), Kind: Ethernet, Changes: -1}
		if devices, err := os.ReadDir(filepath.Join(dir, "device", "infiniband")); err == nil && len(devices) > 0 {
			if p.Twin = twin(dir, devices[0].Name(), rdma); p.Twin == "" {
				continue
			}
		}
		if state, err := readWord(filepath.Join(dir, "operstate")); err == nil {
			p.Up = state == "up" || state == "unknown" && carrier(dir) // some drivers never say
		}
		if p.Up {
			if err := s.readNetdev(dir, &p, odd); err != nil {
				odd["network port counter"]++
				continue
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// physical reports whether the interface is a port of the machine.
func physical(dir string) bool {
	if !exists(filepath.Join(dir, "device")) || exists(filepath.Join(dir, "device", "physfn")) {
		return false
	}
	// "p0" is a port; "pf0vf1" and "c1pf0" are a switch's pictures of functions.
	name, err := readWord(filepath.Join(dir, "phys_port_name"))
	return err != nil || !strings.Contains(name, "pf")
}

func carrier(dir string) bool {
	c, err := readWord(filepath.Join(dir, "carrier"))
	return err == nil && c == "1"
}

// twin is the RoCE port of the device that the interface is the other face of.
// dev_port counts a device's ports from 0, class/infiniband from 1.
func twin(dir, device string, rdma []Port) string {
	number := 1
	if n, err := readCount(filepath.Join(dir, "dev_port")); err == nil && n < 16 {
		number = int(n) + 1
	}
	name := device + "/" + strconv.Itoa(number)
	for _, p := range rdma {
		if p.Name == name && p.Kind == RoCE {
			return name
		}
	}
	return ""
}

// readNetdev reads what is read of an interface that is up.
func (s *SysfsNet) readNetdev(dir string, p *Port, odd Odd) error {
	if n, err := readCount(filepath.Join(dir, "carrier_changes")); err == nil && n < 1<<62 {
		p.Changes = int64(n)
	}
	// -1, or an error, where the driver does not know, as on virtual machines.
	if text, err := readWord(filepath.Join(dir, "speed")); err == nil && text != "-1" {
		mbit, err := strconv.ParseFloat(text, 64)
		if err != nil || !(mbit >= 0) || mbit > maxGbit*1000 {
			odd["network port speed"]++
		} else {
			p.Speed = mbit / 1000 * gigabit
		}
	}
	for name, into := range map[string]*reading{"tx_bytes": &p.Xmit, "rx_bytes": &p.Rcv} {
		n, err := readCount(filepath.Join(dir, "statistics", name))
		if err != nil {
			return err
		}
		*into = reading{bytes: n, at: s.Now()}
	}
	return nil
}
