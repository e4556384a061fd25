// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"crypto/sha512"
	"encoding/binary"
	"strconv"
)

// twister is the generator MT19937 (Matsumoto and Nishimura, 1998), which
// Python programs draw from: their choices can only be repeated with it.
type twister struct {
	state [624]uint32
	at    int
}

// newTwister seeds the generator with an array, by the authors' rule.
func newTwister(key []uint32) *twister {
	t := &twister{at: 624}
	s := &t.state
	s[0] = 19650218
	for i := 1; i < 624; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	i, j := 1, 0
	step := func() {
		if i++; i >= 624 {
			s[0], i = s[623], 1
		}
	}
	for range max(624, len(key)) {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1664525) + key[j] + uint32(j)
		step()
		j = (j + 1) % len(key)
	}
	for range 623 {
		s[i] = (s[i] ^ (s[i-1]^s[i-1]>>30)*1566083941) - uint32(i)
		step()
	}
	s[0] = 1 << 31
	return t
}

// gymTwister is the generator that OpenAI Gym's environments get from a seed:
// the first 8 bytes of the SHA-512 of its digits are the key, and a zero word
// behind them is left out.
func gymTwister(seed int) *twister {
	sum := sha512.Sum512([]byte(strconv.Itoa(seed)))
	key := []uint32{binary.LittleEndian.Uint32(sum[:]), binary.LittleEndian.Uint32(sum[4:])}
	if key[1] == 0 {
		key = key[:1]
	}
	return newTwister(key)
}

func (t *twister) next() uint32 {
	if t.at >= 624 {
		t.twist()
	}
	y := t.state[t.at]
	t.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (t *twister) twist() {
	s := &t.state
	for i := range 624 {
		y := s[i]&(1<<31) | s[(i+1)%624]&(1<<31-1)
		s[i] = s[(i+397)%624] ^ y>>1
		if y&1 == 1 {
			s[i] ^= 0x9908b0df
		}
	}
	t.at = 0
}

// between draws from [low, high) as NumPy's RandomState does: the low bits of
// a word, until they are small enough.
func (t *twister) between(low, high int) int {
	most := uint32(high - 1 - low)
	mask := most
	for shift := 1; shift < 32; shift <<= 1 {
		mask |= mask >> shift
	}
	for {
		if v := t.next() & mask; v <= most {
			return low + int(v)
		}
	}
}
