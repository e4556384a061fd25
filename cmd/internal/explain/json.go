// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"math"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// MarshalJSON writes the answer for programs. Times bear their zone, durations
// are seconds, what is not known is null, and text of users is as they wrote it.
func (a *Answer) MarshalJSON() ([]byte, error) {
	t := teller{st: a.story, o: a.o}
	j := &a.story.Job
	out := answerJSON{
		JobID: j.DisplayID(), JobIDRaw: j.ID, Name: j.Name, User: j.User, Account: j.Account,
		Partition: j.Partition, QOS: j.QOS, State: j.State.String(), Reason: j.Reason, InSlurm: !t.gone(),
		GPUs: j.GPUs, Nodes: filled(j.Nodes), Submit: t.at(j.Submit), Start: t.at(j.Start), End: t.at(j.End),
		Wait: j.Wait().Seconds(), Elapsed: j.Elapsed().Seconds(),
		Sentence: a.Sentence, More: filled(a.More), Profile: profiled(j),
		Decisions: []decisionJSON{}, GuardRails: t.rails(), Changes: []changeJSON{}, Set: t.owner(),
		Next: t.steps(), Evidence: a.Parts,
	}
	for i := range a.story.Decisions {
		out.Decisions = append(out.Decisions, t.decided(&a.story.Decisions[i]))
	}
	for _, c := range a.story.Changes {
		out.Changes = append(out.Changes, changeJSON{
			Time: t.at(c.At), Kind: c.Kind, ExcludedNodes: c.Update.ExcludedNodes, RequiredNodes: c.Update.RequiredNodes,
			SiteFactor: c.Update.SiteFactor, Nice: c.Update.Nice, Outcome: string(c.Outcome), Detail: c.Detail, Why: c.Why,
		})
	}
	return json.Marshal(out)
}

type answerJSON struct {
	JobID      string         `json:"job_id"`
	JobIDRaw   slurm.JobID    `json:"job_id_raw"`
	Name       string         `json:"name"`
	User       string         `json:"user"`
	Account    string         `json:"account"`
	Partition  string         `json:"partition"`
	QOS        string         `json:"qos"`
	State      string         `json:"state"`
	Reason     string         `json:"reason"`
	InSlurm    bool           `json:"in_slurm"`
	GPUs       int            `json:"gpus"`
	Nodes      []string       `json:"nodes"`
	Submit     *time.Time     `json:"submit"`
	Start      *time.Time     `json:"start"`
	End        *time.Time     `json:"end"`
	Wait       float64        `json:"wait_seconds"`
	Elapsed    float64        `json:"elapsed_seconds"`
	Sentence   string         `json:"sentence"`
	More       []string       `json:"more"`
	Profile    *profileJSON   `json:"profile"`
	Decisions  []decisionJSON `json:"decisions"`
	GuardRails []string       `json:"guard_rails"`
	Changes    []changeJSON   `json:"changes"`
	Set        *setJSON       `json:"set"`
	Next       []string       `json:"next"`
	Evidence   []Part         `json:"evidence"`
}

type profileJSON struct {
	Family       string        `json:"family"`
	Group        *int          `json:"group"`
	CC           float64       `json:"computation_communication_ratio"`
	Level        profile.Level `json:"level"`
	Samples      int           `json:"samples"`
	NPR          *float64      `json:"npr"`
	RunTime      *float64      `json:"expected_run_seconds"`
	RunTimeLevel string        `json:"run_time_level"`
}

type decisionJSON struct {
	First      *time.Time    `json:"first"`
	Last       *time.Time    `json:"last"`
	Mode       string        `json:"mode"`
	Policy     string        `json:"policy"`
	Action     policy.Action `json:"action"`
	Skipped    string        `json:"skipped"`
	Explored   bool          `json:"explored"`
	Reason     string        `json:"reason"`
	State      string        `json:"state"`
	Value      float64       `json:"value"`
	Offset     int64         `json:"priority_offset"`
	Candidates []string      `json:"candidates"` // null: all nodes
	Target     []string      `json:"target"`
	Deadline   *time.Time    `json:"deadline"`
	Considered []optionJSON  `json:"considered"`
}

type optionJSON struct {
	Action policy.Action `json:"action"`
	Nodes  []string      `json:"nodes"`
	Shape  string        `json:"shape"`
	Value  float64       `json:"value"`
	Prior  float64       `json:"prior"`
	Visits int           `json:"visits"`
	Note   string        `json:"note"`
}

type changeJSON struct {
	Time          *time.Time  `json:"time"`
	Kind          policy.Kind `json:"kind"`
	ExcludedNodes *[]string   `json:"excluded_nodes,omitempty"`
	RequiredNodes *[]string   `json:"required_nodes,omitempty"`
	SiteFactor    *int64      `json:"site_factor,omitempty"`
	Nice          *int64      `json:"nice,omitempty"`
	Outcome       string      `json:"outcome"`
	Detail        string      `json:"detail"`
	Why           string      `json:"why"`
}

type setJSON struct {
	ExcludedNodes []string   `json:"excluded_nodes"`
	RequiredNodes []string   `json:"required_nodes"`
	SiteFactor    *int64     `json:"site_factor"`
	Nice          *int64     `json:"nice"`
	UserExclude   []string   `json:"user_excluded_nodes"`
	Since         *time.Time `json:"since"`
	Expires       *time.Time `json:"expires"`
}

// at is an instant with the zone of the asker; nil when it is not known.
func (t *teller) at(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	local := at.In(t.o.Now.Location())
	return &local
}

func filled(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func profiled(j *store.Job) *profileJSON {
	if !j.Known() {
		return nil
	}
	p := &profileJSON{
		Family: j.Profile.Family, CC: math.Exp(j.Profile.LogCC), Level: j.Profile.Level, Samples: j.Profile.Count,
		RunTimeLevel: string(j.Profile.RunTimeLevel),
	}
	if g := j.Profile.Group; g != profile.GroupUnknown {
		p.Group = &g
	}
	if j.Profile.NPRCount > 0 {
		p.NPR = &j.Profile.NPR
	}
	if s := j.Profile.RunTime.Seconds(); s > 0 {
		p.RunTime = &s
	}
	return p
}

func (t *teller) decided(d *store.Decision) decisionJSON {
	out := decisionJSON{
		First: t.at(d.FirstAt), Last: t.at(d.LastAt), Mode: d.Mode, Policy: d.Policy, Action: d.Action,
		Skipped: d.Skipped, Explored: d.Explored, Reason: d.Reason, State: d.State, Value: d.Value, Offset: d.Offset,
		Candidates: d.Candidates, Target: d.Target, Deadline: t.at(d.Deadline), Considered: []optionJSON{},
	}
	for _, o := range d.Considered {
		out.Considered = append(out.Considered, optionJSON{o.Action, filled(o.Nodes), o.Shape, o.Value, o.Prior, o.Visits, o.Note})
	}
	return out
}

func (t *teller) owner() *setJSON {
	o := t.set()
	if o == nil {
		return nil
	}
	return &setJSON{
		ExcludedNodes: filled(o.SetExclude), RequiredNodes: filled(o.SetRequired), SiteFactor: o.SetSiteFactor, Nice: o.SetNice,
		UserExclude: filled(o.UserExclude), Since: t.at(o.SetAt), Expires: t.at(o.ExpiresAt),
	}
}
