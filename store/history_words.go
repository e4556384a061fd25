// SPDX-License-Identifier: Apache-2.0

package store

import (
	"strings"

	"rifling/slurm"
)

// maxWords bounds each of the caches; the words of a window of accounting are
// far fewer, and what was dropped is found again in the table.
const maxWords = 50_000

type wordEntry struct{ id, used int64 }

// wordCache spares most look-ups in past_words. Its zero value is empty.
type wordCache struct {
	byWord map[string]wordEntry
	lists  map[string]string // host list by the names joined
}

func (c *wordCache) reset() { c.byWord, c.lists = nil, nil }

func (c *wordCache) put(word string, e wordEntry) {
	if len(c.byWord) >= maxWords || c.byWord == nil {
		c.byWord = map[string]wordEntry{}
	}
	c.byWord[strings.Clone(word)] = e
}

// hostList writes node names as a host list.
func (c *wordCache) hostList(nodes []string) string {
	if len(nodes) == 1 {
		return nodes[0]
	}
	key := strings.Join(nodes, ",")
	if list, ok := c.lists[key]; ok {
		return list
	}
	if len(c.lists) >= maxWords/10 || c.lists == nil {
		c.lists = map[string]string{}
	}
	list := slurm.CompressHosts(nodes)
	c.lists[key] = list
	return list
}
