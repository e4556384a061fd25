// SPDX-License-Identifier: Apache-2.0

package slurm

import "strings"

// ParseReason reads state_reason and state_description of a pending job and
// returns Slurm's word and the nodes that it names as the cause:
// "ReqNodeNotAvail, UnavailableNodes:gpu07" gives ReqNodeNotAvail and gpu07. The
// word is taken from the description when there is no other and it begins with
// one ("Nodes required for job are DOWN, …" does not); brackets around either, as
// squeue %R prints them, are removed. Nodes that cannot be read are left out.
func ParseReason(reason, description string) (word string, nodes []string) {
	for _, text := range []string{reason, description} {
		text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), "("), ")")
		first, _, _ := strings.Cut(text, ",")
		first, _, _ = strings.Cut(first, "(")
		if word == "" && !isNothing(first) && !strings.ContainsAny(first, " \t:") {
			word = first
		}
		if nodes == nil {
			nodes = reasonNodes(text)
		}
	}
	return word, nodes
}

// reasonNodes returns the host list behind "UnavailableNodes:", or behind
// "Unavailable:" as old releases have it.
func reasonNodes(text string) []string {
	for _, key := range []string{"UnavailableNodes:", "Unavailable:"} {
		if _, list, found := strings.Cut(text, key); found {
			list, _, _ = strings.Cut(strings.TrimSpace(list), " ")
			hosts, err := ExpandHosts(strings.TrimRight(list, "),"))
			if err != nil {
				return nil
			}
			return hosts
		}
	}
	return nil
}
