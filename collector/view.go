// SPDX-License-Identifier: Apache-2.0

package collector

import "rifling/slurm"

// View is what a Sampler saw at its last reading, of no job too.
type View struct {
	GPUs  []GPUView
	Ports []PortView
	// Ways counts the GPUs by how their jobs were found, and those with
	// processes but no job by why.
	Ways map[Way]int
}

// GPUView is one GPU. Rates are means over the interval before, in bytes per
// second in the busier direction.
type GPUView struct {
	UUID  string  `json:"uuid"`
	Index int     `json:"index"`
	Minor int     `json:"minor"` // -1 unknown
	Model string  `json:"model,omitempty"`
	Card  string  `json:"card,omitempty"` // of a MIG instance
	Part  float64 `json:"part"`           // of the card

	Processes      int       `json:"processes"`
	ProcessesKnown bool      `json:"processes_known"`
	Jobs           []JobPart `json:"jobs,omitempty"`
	NoJob          Way       `json:"no_job,omitempty"` // why, when something runs there

	Activity  float64 `json:"activity"`
	Source    Source  `json:"source"`
	Throttled float64 `json:"throttled"` // negative when not known

	NVLinkRate  float64 `json:"nvlink_rate"`
	NVLinkSpeed float64 `json:"nvlink_speed"`
	NVLinkKnown bool    `json:"nvlink_known"`
	PCIeRate    float64 `json:"pcie_rate"`
	PCIeSpeed   float64 `json:"pcie_speed"`
	PCIeKnown   bool    `json:"pcie_known"`
}

// JobPart is a job's part of a GPU.
type JobPart struct {
	ID    slurm.JobID `json:"job_id"`
	Share float64     `json:"share"` // 0..1
	Way   Way         `json:"found_by"`
	Nodes int         `json:"nodes,omitempty"` // of the job; 0 unknown
	// Node is Slurm's name of this node as the job has it; "" unknown.
	Node string `json:"node,omitempty"`
}

// PortView is one network port.
type PortView struct {
	Name  string   `json:"name"`
	Kind  PortKind `json:"type"`
	Up    bool     `json:"up"`
	Used  bool     `json:"used"`           // counts as training's network
	Twin  string   `json:"twin,omitempty"` // see Port
	Speed float64  `json:"speed"`          // bytes per second in one direction; 0 unknown

	XmitRate float64 `json:"xmit_rate"`
	RcvRate  float64 `json:"rcv_rate"`
	Known    bool    `json:"known"` // that the rates are
}

// View returns what the last call of Sample saw.
func (s *Sampler) View() View { return s.view }

func viewGPU(g *GPU, o owned, l gpuLinks) GPUView {
	v := GPUView{
		UUID: g.UUID, Index: g.Index, Minor: g.Minor, Model: g.Model, Card: g.Card, Part: g.Part,
		Processes: len(g.Processes), ProcessesKnown: g.ProcessesKnown,
		Activity: g.Activity, Source: g.Source, Throttled: g.Throttled,
		NVLinkRate: l.nvlink, NVLinkSpeed: g.NVLinkSpeed, NVLinkKnown: l.nvlinkKnown,
		PCIeRate: l.pcie, PCIeSpeed: g.PCIeSpeed, PCIeKnown: l.pcieKnown,
	}
	for _, p := range o.parts {
		v.Jobs = append(v.Jobs, JobPart{ID: p.ref.ID, Share: p.share, Way: p.ref.Way, Nodes: p.ref.Nodes, Node: p.ref.Node})
	}
	if len(v.Jobs) == 0 && (len(g.Processes) > 0 || !g.ProcessesKnown) {
		v.NoJob = o.why
	}
	return v
}

func countWays(gpus []GPUView) map[Way]int {
	out := map[Way]int{}
	for i := range gpus {
		for _, j := range gpus[i].Jobs {
			out[j.Way]++
		}
		if gpus[i].NoJob != "" {
			out[gpus[i].NoJob]++
		}
	}
	return out
}
