// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rifling/sim"
)

// Power of an emulated GPU, as the stand-in NVML states it too.
const (
	idleMilliwatt  = 60_000
	limitMilliwatt = 400_000
)

// load is what one rank's GPUs and its node's NIC do, per real second. It is
// the physical load at the model's rate whatever the time scale: a job that
// its NIC holds up shows the NIC at its speed.
type load struct {
	Activity   float64 // computing's part of the time, 0..1
	NVLinkRate float64 // bytes per second and direction, each GPU
	PCIeRate   float64 // the same, to the NIC
	NetRate    float64 // bytes per second and direction, the node's NIC
}

// loadOf works out the load from the job's rate. In one node each GPU's ring
// traffic goes over NVLink; across nodes it goes through the NIC, sent and
// received alike, once for each GPU on the node.
func loadOf(m sim.Model, st state, gpusHere int) load {
	total, spans := 0, 0
	for _, g := range st.GPUs {
		total += g
		spans++
	}
	l := load{Activity: min(1, st.Rate*m.ComputeSeconds)}
	perGPU := st.Rate * sim.RingBytes(m, total)
	if spans == 1 {
		l.NVLinkRate = perGPU
		return l
	}
	l.PCIeRate = perGPU
	l.NetRate = perGPU * float64(gpusHere)
	return l
}

// publisher keeps the counters of one rank's GPUs and of their part of the
// node's NIC.
type publisher struct {
	shared shared
	node   string
	gpus   []int
	job    uint32
	pid    int

	now          load
	nvlink, net  float64 // bytes since they were last written
	last         time.Time
	wrote, shown time.Time // the NIC's counters, the GPUs' files
}

// How often files are written. Those of GPUs carry time stamps; the NIC's do
// not, so that a reader sees them in steps.
const (
	nicEvery = 200 * time.Millisecond
	gpuEvery = time.Second
)

// advance adds what the load moved since the last call and takes the new one.
func (p *publisher) advance(next load, now time.Time) error {
	if !p.last.IsZero() {
		dt := now.Sub(p.last).Seconds()
		p.nvlink += p.now.NVLinkRate * dt
		p.net += p.now.NetRate * dt
	}
	p.now, p.last = next, now
	return p.flush(p.pid, now, now.Sub(p.wrote) >= nicEvery, now.Sub(p.shown) >= gpuEvery)
}

// pause leaves out the time that the process was stopped.
func (p *publisher) pause(now time.Time) { p.last = now }

// close leaves the GPUs idle and the counters where they are.
func (p *publisher) close(now time.Time) error {
	if p.last.IsZero() {
		return nil // it never ran
	}
	if err := p.advance(load{}, now); err != nil {
		return err
	}
	return p.flush(0, now, true, true)
}

// flush adds to the node's files. Several jobs add to the same NIC, and a GPU
// passes from job to job with its counters, so the node is locked.
func (p *publisher) flush(pid int, now time.Time, nic, gpus bool) error {
	nic = nic && p.net >= 4
	if !nic && !gpus {
		return nil
	}
	dir := p.shared.node(p.node)
	err := withLock(filepath.Join(dir, "lock"), func() error {
		if nic {
			if err := p.writeNIC(dir, now); err != nil {
				return err
			}
		}
		if gpus {
			return p.writeGPUs(dir, pid, now)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("counters of %s: %w", p.node, err)
	}
	return nil
}

func (p *publisher) writeNIC(dir string, now time.Time) error {
	words := uint64(p.net / 4)
	for _, name := range []string{"port_xmit_data", "port_rcv_data"} {
		if err := addTo(filepath.Join(dir, portDir, "counters", name), words); err != nil {
			return err
		}
	}
	p.net -= float64(words) * 4
	p.wrote = now
	return nil
}

func (p *publisher) writeGPUs(dir string, pid int, now time.Time) error {
	moved := uint64(p.nvlink / 1024)
	for _, gpu := range p.gpus {
		path := gpuPath(dir, gpu)
		kib := readGPUCounter(path) + moved
		if err := writeFile(path, gpuText(p.node, gpu, pid, p.job, p.now, kib, now)); err != nil {
			return err
		}
	}
	p.nvlink -= float64(moved) * 1024
	p.shown = now
	return nil
}

func gpuPath(nodeDir string, gpu int) string {
	return filepath.Join(nodeDir, "gpu", strconv.Itoa(gpu))
}

// gpuText is the file that contrib/nvmlstub reads.
func gpuText(node string, gpu, pid int, job uint32, l load, kib uint64, now time.Time) string {
	if pid == 0 {
		job, l = 0, load{}
	}
	return fmt.Sprintf("uuid %s\npid %d\njob %d\nactivity %.4f\nmilliwatt %d\n"+
		"nvlink_tx_kib %d\nnvlink_rx_kib %d\npcie_tx_kbs %d\npcie_rx_kbs %d\nstamp_us %d\n",
		gpuUUID(node, gpu), pid, job, l.Activity,
		idleMilliwatt+int(l.Activity*(limitMilliwatt-idleMilliwatt)),
		kib, kib, int(l.PCIeRate/1000), int(l.PCIeRate/1000), now.UnixMicro())
}

// gpuUUID is the same for the same GPU for ever.
func gpuUUID(node string, gpu int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node, gpu))
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func readGPUCounter(path string) uint64 {
	content, _ := os.ReadFile(path)
	for line := range strings.Lines(string(content)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "nvlink_tx_kib "); ok {
			n, _ := strconv.ParseUint(v, 10, 64)
			return n
		}
	}
	return 0
}

// portDir is where the kernel shows an InfiniBand port.
const portDir = "sys/class/infiniband/mlx5_0/ports/1"

// addTo adds to a counter file of one number.
func addTo(path string, words uint64) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return err
	}
	return writeFile(path, strconv.FormatUint(n+words, 10)+"\n")
}

// prepare makes a node's files where they are missing, with at least so many
// GPUs. A NIC speed above 0 is written in any case.
func (s shared) prepare(node string, gpus int, nicGbps, defaultGbps float64, now time.Time) error {
	dir := s.node(node)
	port := filepath.Join(dir, portDir)
	for _, d := range []string{filepath.Join(dir, "gpu"), filepath.Join(dir, "jobs"), filepath.Join(port, "counters")} {
		if err := mkdirAll(d); err != nil {
			return err
		}
	}
	return withLock(filepath.Join(dir, "lock"), func() error {
		files := map[string]string{
			filepath.Join(port, "counters", "port_xmit_data"): "0\n",
			filepath.Join(port, "counters", "port_rcv_data"):  "0\n",
			filepath.Join(port, "state"):                      "4: ACTIVE\n",
			filepath.Join(port, "rate"):                       rateText(defaultGbps),
		}
		for gpu := range gpus {
			files[gpuPath(dir, gpu)] = gpuText(node, gpu, 0, 0, load{}, 0, now)
		}
		for path, content := range files {
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := writeFile(path, content); err != nil {
				return err
			}
		}
		if nicGbps > 0 {
			return writeFile(filepath.Join(port, "rate"), rateText(nicGbps))
		}
		return nil
	})
}

func rateText(gbps float64) string {
	return strconv.FormatFloat(gbps, 'g', -1, 64) + " Gb/sec (emulated)\n"
}

// nicSpeed returns a node's NIC speed in bytes per second and direction, from
// the same file that the collector reads.
func (s shared) nicSpeed(node string) (float64, error) {
	path := filepath.Join(s.node(node), portDir, "rate")
	content, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	word, _, _ := strings.Cut(string(content), " ")
	gbps, err := strconv.ParseFloat(word, 64)
	if err != nil || gbps <= 0 {
		return 0, fmt.Errorf("%s: odd speed %q", path, content)
	}
	return gbps * 1e9 / 8, nil
}
