// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rifling/slurm"
)

// identity is what makes two jobs the same work.
type identity struct {
	User, Account, Name, Command string
	GPUs                         int
}

// identify returns the identity of a job. The command counts by its file's
// name only: its folder and its arguments change from run to run.
func identify(j *slurm.Job) identity {
	return identity{
		User:    orDash(j.User),
		Account: orDash(j.Account),
		Name:    NormalizeName(j.Name),
		Command: NormalizeName(scriptOf(j.Command)),
		GPUs:    j.Total(),
	}
}

// String is the printable key: user/account/name/command/gN.
func (id identity) String() string {
	return fmt.Sprintf("%s/%s/%s/%s/g%d", id.User, id.Account, id.Name, id.Command, id.GPUs)
}

// wider is the identity at a wider level; class is the type of its GPUs.
func (id identity) wider(l Level, class string) identity {
	switch l {
	case LevelFamily:
		return id
	case LevelName:
		return identity{User: id.User, Name: id.Name}
	case LevelUser:
		return identity{User: id.User}
	case LevelClass:
		// As many GPUs but for a factor of less than two.
		return identity{Command: class, GPUs: bits.Len(uint(max(0, id.GPUs)))}
	}
	return identity{}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.ReplaceAll(clip(s), "/", "_")
}

// clip bounds what a user may make rifling remember.
func clip(s string) string {
	const most = 64
	if r := []rune(s); len(r) > most {
		return string(r[:most])
	}
	return s
}

// settings are words of a job's name that tell a setting of the run rather
// than the work: they go, with the number that is glued to them.
var settings = map[string]bool{
	"lr": true, "wd": true, "bs": true, "mbs": true, "gbs": true, "batch": true, "batchsize": true,
	"ep": true, "epoch": true, "epochs": true, "step": true, "steps": true, "iter": true, "iters": true,
	"seed": true, "fold": true, "run": true, "trial": true, "exp": true, "try": true, "retry": true,
	"rank": true, "idx": true, "id": true, "job": true, "task": true, "part": true, "v": true, "ver": true,
	"version": true, "dropout": true, "alpha": true, "beta": true, "gamma": true, "eps": true,
	"e": true, "s": true, "r": true,
}

// uuid is an identifier of a run by itself.
var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// dated is a day or month such as 12mar2026, mar12 or 2026dec.
var dated = regexp.MustCompile(`^(\d+(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\d*|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\d+)$`)

// NormalizeName reduces a job's name to what its runs have in common: lower
// case, words joined by "-", without numbers, dates, hashes, random identifiers
// and settings such as "lr0.01" or "seed=3". Numbers that belong to a word stay:
// "resnet50" and "resnet18" are different work. A name of which nothing is left
// is "-".
func NormalizeName(name string) string {
	text := uuid.ReplaceAllString(strings.ToLower(clip(name)), " ")
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	words = slices.DeleteFunc(words, func(w string) bool {
		return isSetting(w) || isHash(w) || isRandom(w) || isScientific(w) || dated.MatchString(w)
	})
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, "-")
}

// isSetting reports whether the word is a number, or a setting with or without
// one: "17", "lr", "bs64", and "lr1e", which the split leaves of "lr1e-4".
func isSetting(w string) bool {
	stem := strings.TrimRightFunc(w, unicode.IsDigit)
	if stem == "" || settings[stem] {
		return true
	}
	i := strings.IndexFunc(w, unicode.IsDigit)
	return i > 1 && settings[w[:i]] && isScientific(w[i:])
}

// isRandom reports whether the word is made of letters and digits by chance,
// as the names that experiment trackers give to runs are: eight places or more
// with three or more separate numbers in it.
func isRandom(w string) bool {
	numbers, inside := 0, false
	for _, r := range w {
		digit := unicode.IsDigit(r)
		if digit && !inside {
			numbers++
		}
		inside = digit
	}
	return numbers >= 3 && utf8.RuneCountInString(w) >= 8
}

// isHash reports whether the word looks like a hash or a time stamp: seven
// places or more, hexadecimal but for the t and z of ISO 8601, two digits or more.
func isHash(w string) bool {
	digits := 0
	for _, r := range w {
		switch {
		case unicode.IsDigit(r):
			digits++
		case r >= 'a' && r <= 'f' || r == 't' || r == 'z':
		default:
			return false
		}
	}
	return digits >= 2 && len(w) >= 7
}

// isScientific reports whether the word is a number such as 1e3 (of 1e-3 the
// split has left 1e, which is one too).
func isScientific(w string) bool {
	mantissa, exponent, ok := strings.Cut(w, "e")
	return ok && mantissa != "" && strings.TrimFunc(mantissa+exponent, unicode.IsDigit) == ""
}

// family is what is remembered of one identity.
type family struct {
	ID    identity
	Seen  time.Time
	Class string // GPU type of its newest run, "" where that is not told
	CC    evidence
	Rates []runRate // of runs, bounded by keepRates
	Times []runTime // by end, at most keepTimes
	// Thinned is the end of the newest run that may have been thinned out of Times.
	Thinned time.Time
}

// evidence is log cc as seen, runs on one node and runs across nodes apart.
type evidence struct {
	Packed, Spread stat
}

func (e *evidence) add(o observation, halfLife time.Duration) {
	s := &e.Packed
	if o.spread {
		s = &e.Spread
	}
	s.add(o.logCC, o.weight, o.at, halfLife)
}

// best returns the evidence to believe: that seen across nodes where there is
// enough of it, for it predicts what placement does far better.
func (e evidence) best(now time.Time, o Options) (s stat, spread, ok bool) {
	if s = e.Spread.at(now, o.HalfLife); s.count() >= o.MinSamples {
		return s, true, true
	}
	s = e.Packed.at(now, o.HalfLife)
	return s, false, s.count() >= o.MinSamples
}
