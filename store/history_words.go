// SPDX-License-Identifier: Apache-2.0

package store

import (
	"hash/fnv"
	"strings"

	"rifling/slurm"
)

// maxWords bounds each of the caches; the words of a window of accounting are
// far fewer, and what was dropped is found again in the table.
const maxWords = 200_000

type wordEntry struct{ id, used int64 }

// wordCache spares most look-ups in past_words. Its zero value is empty.
type wordCache struct {
	byWord map[string]wordEntry
	lists  map[string]string // host list by the names joined
}

// hashWord is a variable for the test of two words of one hash.
var hashWord = func(word string) int64 {
	h := fnv.New64a()
	h.Write([]byte(word))
	return int64(h.Sum64() >> 1)
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
