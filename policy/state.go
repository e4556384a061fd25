// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"rifling/profile"
)

// encode names the state of a job on the board (ours: the paper names what a
// state holds, not how it is coded). Six parts, so that a table can be read:
//
//	g0..gN, g?          group by log cc, by its number, which it keeps; unknown
//	n1 n2 n4 n+         nodes needed at best: 1, 2, 3-4, more
//	fixed, open         whether the request leaves the shape open
//	one leaf scattered none   the best shape free now
//	nic0 nic1 nic2      hosts that a communication-bound job across nodes uses:
//	                    none, up to half, more
//	q0 q1 q2            GPUs wanted by the queue over GPUs: below 1/4, below 1, more
func encode(f *fit, p profile.Profile) string {
	group := "g?"
	if p.Group != profile.GroupUnknown {
		group = fmt.Sprintf("g%d", p.Group)
	}
	need := "n+"
	switch {
	case f.need == 1:
		need = "n1"
	case f.need == 2:
		need = "n2"
	case f.need <= 4:
		need = "n4"
	}
	shape := "fixed"
	if f.r.open() {
		shape = "open"
	}
	busy := 0
	for _, n := range f.hosts {
		if f.b.busy[n] {
			busy++
		}
	}
	nic := 0
	switch {
	case 2*busy > len(f.hosts):
		nic = 2
	case busy > 0:
		nic = 1
	}
	return fmt.Sprintf("%s %s %s %s nic%d q%d", group, need, shape, f.bestShape(), nic, f.b.pressure())
}
