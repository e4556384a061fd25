// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"path"
	"strings"
	"time"

	"rifling/slurm"
)

// History learns the run times of ended jobs as slurmctld still has them. A run
// that the book has recorded already is not counted twice.
func (b *Book) History(jobs []slurm.Job) {
	for i := range jobs {
		j := &jobs[i]
		if !j.WantsGPU() || j.Total() < 1 || !j.Done() {
			continue
		}
		r := b.runs[j.ID]
		if r == nil || !r.Start.Equal(j.StartTime) {
			r = &run{ID: identify(j)}
		}
		f := b.family(r.ID)
		if j.EndTime.After(f.Seen) {
			f.Seen = j.EndTime
		}
		b.recordTime(j, r)
	}
	b.forget()
}

// LearnPast learns the run times of runs as accounting has them, and the types
// of GPU that families ran on. A run is known by its job and its end, so what
// was learned already, from here or from slurmctld, is not counted twice. Runs
// that failed or were cancelled or suspended are left out, as in Track, and so
// are those without GPUs. The mean utilization that some releases record is
// not used: collectives count as busy there, so that without the links'
// counters it tells nothing of communication.
func (b *Book) LearnPast(past []slurm.PastJob) {
	names := namer{}
	for i := range past {
		p := &past[i]
		if p.GPUs < 1 || p.Start.IsZero() || !p.End.After(p.Start) {
			continue
		}
		f := b.family(names.identify(p))
		if p.End.After(f.Seen) {
			f.Seen = p.End
			b.setClass(f, p.GPUType)
		}
		if took, ok := naturalTime(p); ok {
			b.keepTime(f, runTime{JobID: p.ID, Took: took, Limit: pastLimit(p), Submit: p.Submit, Ended: p.End, Runs: 1})
		}
		if len(b.families) > 2*b.opts.MaxFamilies || b.kept > 2*mostTimes {
			b.forget()
		}
	}
	b.forget()
}

// naturalTime is the run time of a run that came to its own end, or its limit
// where it came to that.
func naturalTime(p *slurm.PastJob) (took time.Duration, ok bool) {
	took = p.End.Sub(p.Start)
	if p.Suspended > 0 {
		return 0, false
	}
	switch p.State.Base {
	case "COMPLETED":
		return took, true
	case "TIMEOUT":
		if l := pastLimit(p); l > 0 {
			took = min(took, l)
		}
		return took, true
	}
	return 0, false
}

func pastLimit(p *slurm.PastJob) time.Duration {
	if p.Unlimited {
		return 0
	}
	return max(0, p.TimeLimit)
}

// namer identifies many runs of few names.
type namer map[[2]string][2]string

// mostNames bounds what a namer remembers.
const mostNames = 10000

func (n namer) identify(p *slurm.PastJob) identity {
	key := [2]string{p.Name, p.Command}
	v, ok := n[key]
	if !ok {
		v = [2]string{NormalizeName(p.Name), NormalizeName(scriptOf(p.Command))}
		if len(n) >= mostNames {
			clear(n)
		}
		n[key] = v
	}
	return identity{User: orDash(p.User), Account: orDash(p.Account), Name: v[0], Command: v[1], GPUs: p.GPUs}
}

// loneOptions are sbatch's options without a value that users set.
var loneOptions = map[string]bool{
	"--contiguous": true, "--exclusive": true, "--get-user-env": true, "--hold": true, "--ignore-pbs": true,
	"--no-requeue": true, "--overcommit": true, "--oversubscribe": true, "--parsable": true, "--quiet": true,
	"--reboot": true, "--requeue": true, "--spread-job": true, "--test-only": true, "--use-min-nodes": true,
	"--verbose": true, "--wait": true,
	"-H": true, "-k": true, "-O": true, "-Q": true, "-s": true, "-v": true, "-W": true,
}

// scriptOf returns the file name of the batch script of a command as slurmctld
// has it ("/home/ann/train.sh 3") or of a line of submission as accounting has
// it ("sbatch -p gpu train.sh 3"); "" where there is no script.
func scriptOf(command string) string {
	words := strings.Fields(command)
	if len(words) == 0 {
		return ""
	}
	switch path.Base(words[0]) {
	case "sbatch", "srun", "salloc":
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "-") {
			w := words[0]
			words = words[1:]
			// "--mem=4G" and "-n4" hold their value, "--mem 4G" and "-n 4" do not.
			holds := strings.Contains(w, "=") || loneOptions[w] || !strings.HasPrefix(w, "--") && len(w) > 2
			if !holds && len(words) > 0 {
				words = words[1:]
			}
		}
		if len(words) == 0 {
			return ""
		}
	}
	return path.Base(words[0])
}
